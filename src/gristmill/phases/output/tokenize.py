"""Tokenize: what `finish` leaves of a shard, as tokens with the end of text after each document.

And `text/`, where no tokens are asked for: the same stream as Parquet.

    work/tokens/<shard>.train      tokens, document after document
    work/tokens/<shard>.val        the same, of the documents that are validation
    work/tokens/<shard>.parquet    document, tokens, validation

Which documents are validation: validation.py.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.corpus.clusters import TABLE, found_in
from gristmill.corpus.copy_counts import Copies, digests
from gristmill.corpus.corpus import Corpus, content_key
from gristmill.corpus.kept_documents import (
    FOLDER,
    PostDedup,
    load_rewriter,
    post_dedup_steps,
    read_kept,
)
from gristmill.corpus.similar_documents import TABLE as SIMILAR
from gristmill.corpus.similar_documents import digests as similar_digests
from gristmill.corpus.similar_documents import similar_documents
from gristmill.dedup.disk_arrays import in_sorted
from gristmill.phases.output.validation import has_hash_of_validation, moves_similar
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.deduplicate import DEDUPLICATE
from gristmill.phases.relations.frequent_lines import FREQUENT_LINES, LIST, Cut, make_cut
from gristmill.phases.relations.repeated_substrings import LIST as SUBSTRINGS
from gristmill.phases.relations.repeated_substrings import REPEATED_SUBSTRINGS, SpanCut, span_cuts
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS
from gristmill.recipe import Recipe
from gristmill.store.http.transfer import Transfer
from gristmill.store.loaded import loaded
from gristmill.store.parts import Part, write_bytes, writing, writing_table
from gristmill.store.proof import proven
from gristmill.tables import schema
from gristmill.tables.schema import shard_name
from gristmill.tokens.tokenizer import Tokenizer, load

INDEX = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("validation", pa.bool_(), nullable=False),
    ]
)


class CutCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was cut out of a shard's documents as frequent lines."""

    cut: int
    characters: int
    documents: int
    emptied: int


class SpanCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was cut out of a shard's documents as repeated spans."""

    cut: int
    characters: int
    bytes: int
    documents: int
    emptied: int


class TokenizeCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was written of a shard."""

    documents: int
    characters: int
    bytes: int  # of text
    tokens: int
    seconds: float
    # documents that would be validation, and have a near-duplicate among the kept ones
    moved: int = 0
    lines: CutCounts | None = None  # null: the recipe cuts no lines
    substrings: SpanCounts | None = None  # null: the recipe looks for no substrings


class TokenizeTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shard needs after its verdicts; goes to a worker."""

    root: Runtime[str]
    number: int
    source: str
    documents: str  # sha256 of the shard's documents
    verdicts: str  # and of its verdicts
    cut: Cut | None  # the frequent lines that are cut; null: none
    post_dedup: PostDedup | None  # post-dedup steps; null: none
    seed: int
    tokenizer: Runtime[str | None]  # the part with the tokenizer; null: write text/
    tokenizer_name: Runtime[str | None] = None
    tokenizer_sha256: str | None = None
    libraries: dict[str, str] = {}  # what encodes besides our kernel, and of which version
    end_of_text: str | None = None
    validation: float = 0.0
    substrings: SpanCut | None = None  # the repeated spans that are cut; null: none
    # sha256 of the shard's rows of duplicates/copies.parquet, which text/ shows; null: there are
    # none
    copies: str | None = None
    # and of duplicates/similar.parquet, which are no validation; null: there are none
    similar: str | None = None
    begin_of_text: int | None = None  # the token before each document; null: there is none


def _tokenizer(task: TokenizeTask, path: Path) -> Tokenizer:
    """Return the tokenizer of a task, which a process reads once and not for each shard."""
    assert task.tokenizer_name is not None and task.tokenizer_sha256 is not None
    name, sha256 = task.tokenizer_name, task.tokenizer_sha256
    marks = (task.end_of_text, task.begin_of_text)

    def read() -> Tokenizer:
        data = proven(path, sha256).read_bytes()
        return Tokenizer(name, data, marks[0], begin_of_text=marks[1], tried=True)

    key = content_key("tokenizer", name=name, sha256=sha256, marks=marks)
    return loaded("tokenizer", {key: read})[key]


def tokenize(task: TokenizeTask, on_progress: Callable[[int], None]) -> Output:
    """Tokenize one shard, or write its text."""
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    cutter = task.cut.cutter(corpus.find(LIST), task.source) if task.cut else None
    spans = task.substrings.cutter(corpus.find(SUBSTRINGS)) if task.substrings else None
    rewriter = load_rewriter(task.post_dedup)
    start = time.perf_counter()
    with ExitStack() as stack:
        on_measures: Callable[[pa.RecordBatch], None] = _ignore
        finished: list[Part] = []
        if rewriter is not None:
            measures, finished = stack.enter_context(
                writing_table(corpus.stage, f"{FOLDER}/{name}.parquet", rewriter.schema)
            )
            on_measures = measures.write
        documents = proven(corpus.find(f"documents/{name}.parquet"), task.documents)
        verdicts = proven(corpus.find(f"verdicts/{name}.parquet"), task.verdicts)
        stream = read_kept(documents, verdicts, cutter, spans, rewriter, on_measures)
        parts, work, counted = _write(corpus, task, stream, on_progress)
    counts = TokenizeCounts(
        **counted,
        seconds=time.perf_counter() - start,
        lines=msgspec.convert(cutter.counts, CutCounts) if cutter is not None else None,
        substrings=msgspec.convert(spans.counts, SpanCounts) if spans is not None else None,
    )
    return Output(counts, parts + finished, work)


def _ignore(measures: pa.RecordBatch) -> None:
    """Nothing is measured where nothing is rewritten."""


def _write(
    corpus: Corpus,
    task: TokenizeTask,
    stream: Iterator[pa.RecordBatch],
    on_progress: Callable[[int], None],
) -> tuple[list[Part], list[Part], dict[str, int]]:
    """Write a shard's documents as tokens, or as text: (the parts, the files under work/, what was
    counted).
    """
    name = shard_name(task.number)
    counts = {"documents": 0, "characters": 0, "bytes": 0, "tokens": 0, "moved": 0}
    parts: list[Part] = []
    work: list[Part] = []
    if task.tokenizer is None:
        copies = Copies(corpus.find(TABLE) if task.copies else None, task.number, task.copies)
        with writing_table(corpus.stage, f"text/{task.source}/{name}.parquet", schema.TEXT) as (
            table,
            parts,
        ):
            for batch in stream:
                _count(counts, batch)
                table.write(copies.added_to(batch))
                on_progress(batch["text"].nbytes)
    else:
        tokenizer = _tokenizer(task, corpus.find(task.tokenizer))
        similar = np.empty(0, np.int64)
        if task.similar is not None:
            similar = similar_documents(corpus.find(SIMILAR), task.number, task.similar)
        with (
            writing(corpus.work, f"tokens/{name}.train") as train,
            writing(corpus.work, f"tokens/{name}.val") as val,
            writing_table(corpus.work, f"tokens/{name}.parquet", INDEX) as (table, index),
        ):
            for batch in stream:
                _count(counts, batch)
                tokens, lengths = with_ends(tokenizer, batch["text"])
                counts["tokens"] += len(tokens)
                validation = has_hash_of_validation(
                    batch["text"], share=task.validation, seed=task.seed
                )
                moved = validation & in_sorted(batch["document"].to_numpy(), similar)
                counts["moved"] += int(moved.sum())
                validation &= ~moved
                if validation.any():
                    held_out = np.repeat(validation, lengths)
                    val.write(tokens[held_out])
                    tokens = tokens[~held_out]
                train.write(tokens)
                columns = [batch["document"], pa.array(lengths), pa.array(validation)]
                table.write(pa.RecordBatch.from_arrays(columns, schema=INDEX))
                on_progress(batch["text"].nbytes)
        work = [
            Part(f"tokens/{name}.{end}", file.size, file.hexdigest())
            for end, file in (("train", train), ("val", val))
        ]
        work += index
    return parts, work, counts


def load_tokenizer(recipe: Recipe, folder: Path, transfer: Transfer) -> Tokenizer | None:
    """Return the recipe's tokenizer, by a path in `folder` or fetched; None: the recipe has no
    [tokens].
    """
    tokens = recipe.tokens
    if tokens is None:
        return None
    return load(
        tokens.tokenizer,
        folder,
        transfer.cache.root,
        tokens.end_of_text,
        transfer.resume_only,
        tokens.begin_of_text,
    )


def tasks(state: State) -> Iterator[dict[int, TokenizeTask]]:
    """Yield a task for each shard that was processed; lays the tokenizer down for them."""
    recipe, tokenizer, tokens = state.recipe, state.tokenizer, state.recipe.tokens
    processed, written = state.of(PROCESS), state.of(WRITE_VERDICTS)
    part: Part | None = None
    if tokenizer:
        part = write_bytes(state.corpus.stage, f"tokenizer/{tokenizer.file_name}", tokenizer.data)
    listed = state.one(FREQUENT_LINES)
    substrings = state.one(REPEATED_SUBSTRINGS)
    spans = {}
    if substrings is not None:
        path, sha256 = state.corpus.find(SUBSTRINGS), substrings.parts[0].sha256
        spans = span_cuts(recipe.deduplicate, path, sha256, list(processed))
    copied = state.one(DEDUPLICATE) is not None and tokenizer is None
    copies = digests(found_in(state.corpus), list(processed)) if copied else {}
    moving = state.one(DEDUPLICATE) is not None and moves_similar(recipe)
    similar = similar_digests(found_in(state.corpus, SIMILAR)) if moving else {}
    sources = {number: state.plan.shards[number].source for number in processed}
    yield {
        number: TokenizeTask(
            root=str(state.corpus.root),
            number=number,
            source=sources[number],
            documents=record.part("documents/").sha256,
            verdicts=written[number].parts[0].sha256,
            cut=make_cut(recipe.deduplicate, listed.parts) if listed else None,
            seed=recipe.seed,
            post_dedup=post_dedup_steps(recipe, sources[number], state.inputs),
            tokenizer=part.path if part else None,
            tokenizer_name=tokenizer.name if tokenizer else None,
            tokenizer_sha256=tokenizer.sha256 if tokenizer else None,
            libraries=tokenizer.libraries if tokenizer else {},
            end_of_text=tokenizer.ending.literal if tokenizer else None,
            begin_of_text=tokenizer.begin_of_text if tokenizer else None,
            validation=tokens.validation if tokens else 0.0,
            substrings=spans.get(number),
            copies=copies.get(number),
            similar=similar.get(number),
        )
        for number, record in processed.items()
    }


def opens(task: TokenizeTask) -> set[str]:
    """Return the folders that a task opens."""
    tables = (task.cut, task.substrings, task.copies, task.similar)
    return {"documents", "verdicts", *(["duplicates"] if any(tables) else [])}


def with_ends(tokenizer: Tokenizer, texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of n texts, each with the end of text behind it and the begin of text
    before it, if there is one; and their lengths (n,) int64, these included.
    """
    offsets, tokens = tokenizer.encode(texts)
    marks = 1 + (tokenizer.begin_of_text is not None)
    lengths = np.diff(offsets) + marks
    ends = np.cumsum(lengths)
    out = np.empty(int(ends[-1]) if len(ends) else 0, tokenizer.dtype)
    plain = np.ones(len(out), np.bool_)
    plain[ends - 1] = False
    if tokenizer.begin_of_text is not None:
        plain[ends - lengths] = False
        out[ends - lengths] = tokenizer.begin_of_text
    out[plain] = tokens
    out[ends - 1] = tokenizer.end_of_text
    return out, lengths


def _count(counts: dict[str, int], batch: pa.RecordBatch) -> None:
    counts["documents"] += len(batch)
    counts["characters"] += int(pa.compute.sum(pa.compute.utf8_length(batch["text"])).as_py() or 0)
    counts["bytes"] += int(pa.compute.sum(pa.compute.binary_length(batch["text"])).as_py() or 0)


TOKENIZE = Phase(
    name="tokenize",
    scope="shard",
    recipe=(
        "seed",
        "source.name",
        "step",
        "deduplicate.lines",
        "deduplicate.substrings",
        "deduplicate.near",
        "deduplicate.scope",
        "tokens.tokenizer",
        "tokens.end_of_text",
        "tokens.begin_of_text",
        "tokens.validation",
        "tokens.order",
    ),
    reads=("documents", "verdicts", "duplicates"),
    opens=opens,
    writes=("text", FOLDER, "work/tokens"),
    formats=("tokenize", "unicode", "compared"),
    counts=TokenizeCounts,
    function=tokenize,
    tasks=tasks,
)
