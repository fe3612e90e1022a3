"""Which slow twin each public function of kernels/ has, and the test that compares the two.

A twin says again, in plain Python or by an independent library, what the function does; the table
says where they are compared. One that a test calls `twin` needs no entry. `complaints` reads the
sources, so that a twin, or a comparison, that is removed is missed (tests/kernels/test_twins.py).
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support import ROOT

KERNELS, TESTS = ROOT / "src/gristmill/kernels", ROOT / "tests"


class Pair(NamedTuple):
    """A comparison of a kernel's function with its twin."""

    test: str  # file of tests/ and the function that compares: `kernels/text/test_words.py::check`
    # `naive.count`, `rules.c4`, a function of the test's file, or a library's: `fasttext:predict`
    twin: str
    via: str = ""  # what the test calls for it: a helper of its file, or the filter on top


BPE, LISTS = "kernels/bpe/test_encoder.py", "kernels/lists/test_urls.py"
AHO, PAIRS = "kernels/lists/test_aho_corasick.py", "kernels/hashing/test_pairs.py"
MINHASH, BANDS = "kernels/hashing/test_minhash.py", "kernels/hashing/test_band_keys.py"
RULES, FASTTEXT = "filters/rules/test_rules.py", "filters/models/test_fasttext.py"
LINEAR, PERPLEXITY = (
    "kernels/models/test_linear_classifier.py",
    "kernels/models/test_ngram_model.py",
)
LINES = "kernels/text/test_lines.py"
PIECES = "kernels/pieces/test_patterns.py"
CHOOSE, CUT = "kernels/packing/test_choose.py", "kernels/packing/test_lengths.py"
ROW_DOCUMENTS = "kernels/packing/test_row_documents.py"
LITERALS = "kernels/pieces/test_literals.py"
READING = "kernels/reading/test_reading.py"
OVERLAP = "kernels/decontaminate/test_overlap.py"
LABELS = "kernels/decontaminate/test_labels.py"
STRETCHES = "kernels/decontaminate/test_stretches.py"
PAGES = "kernels/html/test_features.py"
ROWS = Pair(
    f"{PAGES}::test_counts_and_rows_are_those_of_plain_python", "naive_blocks.build", "Work"
)
BLOCKS = Pair(
    "kernels/html/test_blocks.py::test_equal_to_the_slow_twin", "naive_blocks.build", "blocks_of"
)
TOKENS = Pair("kernels/html/test_tokens.py::test_equal_to_the_slow_twin", "naive", "tokens_of")
FOLDING = "kernels/folding/test_compared.py"
FOLDED = Pair(f"{FOLDING}::check", "naive_folding.folded", "forms")
FOLDED_WORDS = Pair(f"{FOLDING}::check", "naive_folding.words", "forms")
QUALITY, GOPHER = ("kernels/filters/test_gopher_quality.py", "kernels/filters/test_gopher_lines.py")

TWINS = {
    "bpe.encoder.Encoder": Pair(f"{BPE}::test_fuzz_ranks", "naive.Encoder"),
    "bpe.merges.merges_of_list": Pair(f"{BPE}::test_fuzz_list", "naive.merges_of_list"),
    "bpe.merges.merges_of_ranks": Pair(f"{BPE}::test_fuzz_ranks", "naive.merges_of_ranks"),
    "bpe_training.pairs.choose_merges": Pair(
        "kernels/bpe_training/test_pairs.py::test_fuzz",
        "naive_bpe_training.choose_merges",
        "chosen",
    ),
    "bpe_training.pieces.PieceCounter": Pair(
        "kernels/bpe_training/test_pieces.py::test_fuzz", "naive_bpe_training.PieceCounter"
    ),
    "decontaminate.contexts.cut": Pair(
        "kernels/decontaminate/test_contexts.py::test_fuzz_cut", "naive.cut"
    ),
    "decontaminate.stretches.find_alike": Pair(
        f"{STRETCHES}::test_fuzz", "naive_stretches.find_alike"
    ),
    "decontaminate.stretches.known_keys": Pair(
        f"{STRETCHES}::test_fuzz", "naive_stretches.known_keys"
    ),
    "decontaminate.items.build": Pair(f"{OVERLAP}::check", "naive.build"),
    "decontaminate.labels.blank": Pair(
        "kernels/decontaminate/test_labels.py::check", "naive.blank"
    ),
    "decontaminate.overlap.find_overlap": Pair(f"{OVERLAP}::check", "naive.find_overlap"),
    "decontaminate.overlap.count_hits": Pair(f"{OVERLAP}::check", "naive.hits_of"),
    "filters.c4_lines.cut": Pair(f"{RULES}::test_fuzz_c4", "rules.c4", "C4"),
    "filters.fineweb_counts.count": Pair(f"{RULES}::test_fuzz", "rules.fineweb", "KINDS"),
    "filters.gopher_lines.count": Pair(f"{GOPHER}::check", "naive.count"),
    "filters.gopher_lines.count_lines": Pair(f"{QUALITY}::test_fuzz_count_lines", "count_lines"),
    "filters.gopher_quality.count": Pair(f"{RULES}::test_fuzz", "rules.quality", "KINDS"),
    "filters.gopher_quality.count_signs": Pair(
        f"{GOPHER}::test_fuzz_count_signs", "naive.count_signs"
    ),
    "filters.gopher_quality.stop_table": Pair(f"{QUALITY}::check", "stop_table"),
    "filters.gopher_repetition.count": Pair(f"{RULES}::test_fuzz", "rules.repetition", "KINDS"),
    "filters.sentences.find_sentences": Pair(
        "kernels/filters/test_sentences.py::test_fuzz_find_sentences", "sentences"
    ),
    "filters.sentences.count_sentences": Pair(f"{RULES}::test_fuzz_c4", "rules.c4", "C4"),
    "filters.simple_counts.count": Pair(f"{RULES}::test_fuzz_simple", "rules.simple", "Simple"),
    "folding.compared.compared": FOLDED,
    "folding.compared.locate_words": Pair(
        f"{FOLDING}::test_words_are_found_where_they_stand", "naive_folding.words"
    ),
    "folding.folded_text.room_for": FOLDED,
    "folding.spaces.fold_spaces": FOLDED,
    "folding.spaces.fold_unicode": FOLDED,
    "folding.words.find_words": FOLDED_WORDS,
    "hashing.band_keys.Repeated": Pair(f"{BANDS}::test_fuzz_repeated", "naive.Repeated"),
    "hashing.band_keys.split": Pair(f"{BANDS}::test_fuzz_split", "naive.split"),
    "hashing.blake2b.hash_texts": Pair(
        "kernels/hashing/test_blake2b.py::test_fuzz_hash_texts", "hashlib:blake2b"
    ),
    "hashing.minhash.band_keys": Pair(f"{MINHASH}::test_fuzz_band_keys", "naive.band_keys"),
    "hashing.minhash.distinct_shingles": Pair(
        f"{MINHASH}::test_fuzz_distinct_shingles", "naive.distinct_shingles"
    ),
    "hashing.minhash.permutations": Pair(f"{MINHASH}::test_permutations", "naive.permutations"),
    "hashing.minhash.sign": Pair(f"{MINHASH}::test_fuzz_sign", "naive.sign"),
    "hashing.pairs.agreement": Pair(f"{PAIRS}::test_fuzz_agreement", "naive.agreement"),
    "hashing.pairs.components": Pair(f"{PAIRS}::test_fuzz_components", "naive.connect"),
    "hashing.pairs.connect": Pair(f"{PAIRS}::test_fuzz_components", "naive.connect"),
    "hashing.pairs.decide": Pair(f"{PAIRS}::test_fuzz_decide", "naive.decide"),
    "hashing.pairs.jaccard": Pair(f"{PAIRS}::test_fuzz_jaccard", "naive.jaccard"),
    "hashing.primitives.fnv_1a": Pair("kernels/hashing/test_primitives.py::test_fnv_1a", "fnv"),
    "hashing.primitives.splitmix64": Pair(
        f"{MINHASH}::test_permutations", "naive.permutations", "minhash"
    ),
    "hashing.shuffle.gather": Pair(
        "kernels/hashing/test_shuffle.py::test_fuzz_gather", "naive.gather"
    ),
    "hashing.shuffle.order_keys": Pair(
        "kernels/hashing/test_shuffle.py::test_fuzz_order_keys", "naive.order_keys"
    ),
    "html.alike.find_alike": ROWS,
    "html.blocks.build": BLOCKS,
    "html.blocks.room": BLOCKS,
    "html.copies.leave_copies": Pair(
        "kernels/html/test_copies.py::test_copies_are_those_of_plain_python", "naive_copies"
    ),
    "html.counts.count": ROWS,
    "html.counts.room": ROWS,
    "html.features.features": ROWS,
    "html.names.key_of": TOKENS,
    "html.names.name_table": TOKENS,
    "html.parse_cost.bound": Pair(
        "kernels/html/test_parse_cost.py::test_equal_to_the_slow_twin", "naive_bound", "bounds"
    ),
    "html.parts.add_comments": Pair(
        "kernels/html/test_parts.py::test_comments_that_are_added", "marked_blocks"
    ),
    "html.parts.leave_out": Pair(
        "kernels/html/test_parts.py::test_what_is_left_out", "marked_blocks"
    ),
    "html.tokens.room": TOKENS,
    "html.tokens.tokenize": TOKENS,
    "html.written.write": Pair(
        "kernels/html/test_written.py::test_plain_text_has_the_kept_blocks",
        "naive_blocks.build",
        "written_of",
    ),
    "lists.aho_corasick.build": Pair(f"{AHO}::check", "find_first"),
    "lists.aho_corasick.count": Pair(f"{AHO}::test_fuzz_count", "count"),
    "lists.aho_corasick.find_bounded": Pair(f"{AHO}::check", "find_bounded"),
    "lists.aho_corasick.find_first": Pair(f"{AHO}::check", "find_first"),
    "lists.entries.find_whole": Pair(f"{LISTS}::test_fuzz_find_whole", "list:index"),
    "lists.entries.gather": Pair(f"{LISTS}::test_fuzz_gather", "gather"),
    "lists.entries.index": Pair(f"{LISTS}::test_fuzz_find_whole", "list:index", "table_of"),
    "lists.urls.find_domains": Pair(f"{LISTS}::test_fuzz_find_domains", "find_domains"),
    "lists.urls.find_subwords": Pair(f"{LISTS}::test_fuzz_find_words", "find_subwords"),
    "lists.urls.find_words": Pair(f"{LISTS}::test_fuzz_find_words", "find_words"),
    "loading.feistel.permute": Pair(
        "kernels/loading/test_feistel.py::test_fuzz_permute", "naive_loading.permute"
    ),
    "loading.runs.find_spans": Pair(
        "kernels/loading/test_runs.py::test_fuzz_find_spans", "naive_loading.find_spans"
    ),
    "loading.runs.gather": Pair(
        "kernels/loading/test_runs.py::test_fuzz_gather", "naive_loading.gather"
    ),
    "models.fasttext.predict": Pair(f"{FASTTEXT}::check", "fasttext:predict"),
    "models.fasttext.lay_out_labels": Pair(f"{FASTTEXT}::check", "fasttext:predict", "predict"),
    "models.fasttext_words.limits": Pair(f"{FASTTEXT}::check", "fasttext:predict", "predict"),
    "models.fasttext_words.no_words": Pair(f"{FASTTEXT}::check", "fasttext:predict", "predict"),
    "models.fasttext_words.text_block": Pair(f"{FASTTEXT}::check", "fasttext:predict", "predict"),
    "models.linear_classifier.features": Pair(f"{LINEAR}::test_fuzz_features", "features"),
    "models.linear_classifier.score": Pair(f"{LINEAR}::test_fuzz_score", "score"),
    "models.linear_classifier.train": Pair(f"{LINEAR}::test_fuzz_train", "train"),
    "models.ngram_model.cost": Pair(f"{PERPLEXITY}::test_fuzz_cost", "cost"),
    "models.ngram_model.find_ids": Pair(f"{PERPLEXITY}::test_fuzz_words_and_ids", "find_ids"),
    "models.ngram_model.hash_words": Pair(f"{PERPLEXITY}::test_fuzz_words_and_ids", "hash_words"),
    "models.ngram_model.list_grams": Pair(f"{PERPLEXITY}::test_fuzz_score", "score", "fitted"),
    "models.ngram_model.list_words": Pair(f"{PERPLEXITY}::test_fuzz_words_and_ids", "find_ids"),
    "models.ngram_model.perplexity": Pair(f"{PERPLEXITY}::test_fuzz_score", "math:exp"),
    "models.ngram_model.score": Pair(f"{PERPLEXITY}::test_fuzz_score", "score"),
    "pieces.literals.find": Pair(f"{LITERALS}::test_fuzz_find", "naive_find"),
    "pieces.literals.build_trie": Pair(f"{LITERALS}::test_fuzz_find", "naive_find"),
    "pieces.patterns.mark": Pair(f"{PIECES}::check", "naive_pieces.pieces", "cut"),
    "packing.aligned.starts": Pair(
        "kernels/packing/test_aligned.py::test_fuzz_starts", "naive_packing.starts"
    ),
    "packing.best_fit.pack": Pair("kernels/packing/test_best_fit.py::check", "naive_packing.pack"),
    "packing.choose.choose": Pair(f"{CHOOSE}::test_fuzz_choose", "naive_packing.choose"),
    "packing.choose.plan_pieces": Pair(f"{CHOOSE}::test_fuzz_choose", "naive_packing.choose"),
    "packing.choose.salted": Pair(
        f"{CHOOSE}::test_a_length_has_the_permutation_of_its_salted_keys", "naive_packing.salt"
    ),
    "packing.lengths.cut": Pair(f"{CUT}::test_fuzz_cut", "naive_packing.cut"),
    "packing.lengths.cut_texts": Pair(f"{CUT}::test_fuzz_cut_texts", "naive_packing.cut_texts"),
    "packing.lengths.sort_block": Pair(f"{CUT}::test_fuzz_sort_block", "naive_packing.sort_block"),
    "packing.row_documents.count": Pair(f"{ROW_DOCUMENTS}::test_fuzz_count", "naive_packing.count"),
    "packing.row_documents.number": Pair(
        f"{ROW_DOCUMENTS}::test_fuzz_number", "naive_packing.number"
    ),
    "pieces.blocks_cl100k.mark": Pair(f"{PIECES}::check", "naive_pieces.pieces", "cut"),
    "pieces.blocks_deepseek.mark": Pair(f"{PIECES}::check", "naive_pieces.pieces", "cut"),
    "pieces.blocks_gpt2.mark": Pair(f"{PIECES}::check", "naive_pieces.pieces", "cut"),
    "pieces.blocks_o200k.mark": Pair(f"{PIECES}::check", "naive_pieces.pieces", "cut"),
    "models.page_forest.choose": Pair(
        f"{PAGES}::test_a_page_s_threshold_makes_the_expected_f_largest", "expected_f"
    ),
    "models.page_forest.make_scorer": Pair(f"{PAGES}::test_a_forest_is_its_trees", "score_of"),
    "models.page_forest.score": Pair(f"{PAGES}::test_a_forest_is_its_trees", "score_of"),
    "models.page_types.Mean": Pair(
        "kernels/models/test_page_types.py::test_a_mean_weighs_blocks_by_their_words", "mean_of"
    ),
    "models.page_types.mean_row": Pair(
        "kernels/models/test_page_types.py::test_a_mean_weighs_blocks_by_their_words", "mean_of"
    ),
    "models.page_types.shares": Pair(
        "kernels/models/test_page_types.py::test_shares_are_the_softmax_of_the_trees", "softmax_of"
    ),
    "reading.file_pieces.read_pieces": Pair(
        "kernels/reading/test_file_pieces.py::test_fuzz_read_pieces", "naive.read_pieces"
    ),
    "reading.json_lines.read": Pair(
        "kernels/reading/test_json_lines.py::test_fuzz_read",
        "naive_reading.read_lines",
        "kernel_rows",
    ),
    "reading.spans.gather": Pair(f"{READING}::test_fuzz_gather", "naive_reading.gather"),
    "reading.warc_records.frame": Pair(f"{READING}::test_fuzz_frame", "naive_reading.frame"),
    "substrings.cut.cut": Pair(
        "kernels/substrings/test_cut.py::test_fuzz_cut", "naive_substrings.cut"
    ),
    "substrings.repeats.repeated": Pair(
        "kernels/substrings/test_repeats.py::test_fuzz_repeated", "naive_substrings.spans"
    ),
    "substrings.repeats.same_contexts": Pair(
        "kernels/substrings/test_repeats.py::test_fuzz_same_contexts", "first_equal"
    ),
    "substrings.runs.find_runs": Pair(
        "kernels/substrings/test_runs.py::test_fuzz_runs", "naive_substrings.windows", "runs_of"
    ),
    "substrings.runs.gather": Pair("kernels/substrings/test_runs.py::test_fuzz_gather", "joined"),
    "text.lines.cut_lines": Pair(f"{LINES}::test_fuzz_lines_and_cutting", "cut_lines"),
    "text.lines.find": Pair(f"{LINES}::test_fuzz_lines_and_cutting", "find"),
    "text.lines.hash_lines": Pair(f"{LINES}::test_fuzz_hashes_of_normalised_lines", "hash_lines"),
    "text.ngrams.top": Pair(f"{GOPHER}::check", "naive.count", "gopher_lines"),
    "text.pieces.table": Pair(f"{RULES}::test_fuzz", "rules.repetition", "KINDS"),
    "text.words.find": Pair("kernels/text/test_words.py::check", "naive.find"),
    "text.words.separate": Pair(f"{RULES}::test_separate", "rules.separate"),
    "tokens.counts.add_counts": Pair(
        "kernels/tokens/test_counts.py::test_fuzz_add_counts", "naive.add_counts"
    ),
    "tokens.counts.add_counts_by_group": Pair(
        "kernels/tokens/test_counts.py::test_fuzz_add_counts_by_group", "naive.add_counts_by_group"
    ),
    "unicode.composition.unsettled": Pair(
        "kernels/unicode/test_composition.py::test_what_is_settled_never_changes",
        "naive.composing_seconds",
    ),
    "unicode.normalised.locate": Pair(f"{OVERLAP}::test_fuzz_locate", "naive.locate"),
    "unicode.normalised.normalise": Pair(
        "kernels/unicode/test_normalised.py::check", "naive.normalise"
    ),
    "unicode.script_counts.count_letters": Pair(
        "filters/language/test_language.py::test_fuzz_scripts", "dominant", "scripts"
    ),
    "unicode.tidy.tidy": Pair("kernels/unicode/test_tidy.py::check", "tidy"),
}


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text("utf-8"))


def public_functions() -> Iterator[str]:
    """What filters and phases may call of kernels/: functions, and classes with methods of their
    own; not the helpers, nor kernels/jit and the tables.
    """
    for path in sorted(KERNELS.rglob("*.py")):
        if path.parent.name == "jit" or path.stem in ("__init__", "tables"):
            continue
        module = ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                public = True
            else:
                public = isinstance(node, ast.ClassDef) and any(
                    isinstance(member, ast.FunctionDef) and member.name == "__init__"
                    for member in node.body
                )
            if public and not node.name.startswith("_"):  # type: ignore[attr-defined]
                yield f"{module}.{node.name}"  # type: ignore[attr-defined]


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """A file's functions and classes."""
    return {
        node.name: node
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def add_twins_by_name() -> None:
    """Pair functions that the table does not name with the `twin` of a test that calls both."""
    for function in set(public_functions()) - TWINS.keys():
        for path in TESTS.rglob("test_*.py"):
            called = spellings(path, function)
            for name, node in definitions(path).items() if called else ():
                used = names_in(node) | attributes_in(node)
                if name.startswith("test_") and "twin" in used and used & called:
                    TWINS[function] = Pair(f"{path.relative_to(TESTS)}::{name}", "twin")


@cache
def names_in(node: ast.AST) -> set[str]:
    """The names and the attributes that a piece of source uses."""
    used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return used | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


@cache
def attributes_in(node: ast.AST) -> set[str]:
    """`a.b` of a piece of source, as written."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Attribute)}


@cache
def spellings(path: Path, function: str) -> set[str]:
    """What a kernel's function is called by in a test file, by its imports."""
    module, _, name = f"gristmill.kernels.{function}".rpartition(".")
    room, _, stem = module.rpartition(".")
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.module == room and alias.name == stem:
                    found.add(f"{alias.asname or stem}.{name}")
                if node.module == module and alias.name == name:
                    found.add(alias.asname or name)
    return found


@cache
def is_run(path: Path, name: str) -> bool:
    """Whether a function of a test file is a test, or one calls it; soak tests do not count."""
    functions = definitions(path)
    if name.startswith("test_"):
        return not any("soak" in ast.unparse(mark) for mark in functions[name].decorator_list)  # type: ignore[attr-defined]
    return any(
        name in names_in(node) and is_run(path, other)
        for other, node in functions.items()
        if other != name
    )


def complaint(function: str, pair: Pair, gone: str = "") -> str | None:
    """What is wrong with a kernel's comparison, or None; `gone`: a twin taken for removed."""
    file, _, name = pair.test.partition("::")
    path = TESTS / file
    compared = definitions(path).get(name) if path.exists() else None
    if compared is None or not is_run(path, name):
        return f"{function}: no test runs {pair.test}"
    called = [node for other, node in definitions(path).items() if other in names_in(compared)]
    if not any(
        isinstance(part, ast.Assert) for node in (compared, *called) for part in ast.walk(node)
    ):
        return f"{function}: {pair.test} asserts nothing"
    whole = compared if pair.via != "KINDS" else tree_of(path)  # the test's table of its cases
    used = names_in(whole) | attributes_in(whole)
    if not used & ({pair.via} if pair.via else spellings(path, function)):
        return f"{function}: {pair.test} does not call it"
    library, colon, method = pair.twin.partition(":")
    if colon:
        return None if method in used else f"{function}: {pair.test} asks no {library}"
    home, twin = place_of(path, pair.twin)
    if pair.twin not in used:
        return f"{function}: {pair.test} does not call {pair.twin}"
    if twin not in definitions(home) or gone == f"{home}:{twin}":
        return f"{function}: its twin {pair.twin} is not there"
    return None


@cache
def place_of(path: Path, twin: str) -> tuple[Path, str]:
    """The file that a test's twin is in, and its name there."""
    holder, dot, name = twin.rpartition(".")
    if dot:
        return TESTS / f"support/{holder}.py", name
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.support"):
            file = ROOT / f"{(node.module or '').replace('.', '/')}.py"
            if file.exists() and twin in {alias.asname or alias.name for alias in node.names}:
                return file, twin
    return path, twin


def twin_places() -> set[str]:
    """Where each twin of our own is: `path:name`."""
    places = (
        place_of(TESTS / pair.test.partition("::")[0], pair.twin)
        for pair in TWINS.values()
        if ":" not in pair.twin
    )
    return {f"{home}:{name}" for home, name in places}


add_twins_by_name()
