"""Sources with targets: where each ends, against the definition (naive_targets.py), whatever is
read at once and whatever was killed; and what a target cannot be combined with.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gristmill import run, train_tokenizer, verify
from gristmill.errors import RecipeError
from gristmill.recipe import parse
from gristmill.store.proof import Reading
from gristmill.tokens import shards as shards_module
from tests.support import strategies
from tests.support.corpora import article, digests, jsonl, pages
from tests.support.every_phase import in_process
from tests.support.naive_targets import Corpus, Source

TEXTS = [
    " ".join(article(f"text {number}", 6).lower().split()[: 4 + number]) for number in range(9)
]
NAMES = ("first", "second")
TOKENS_PER_SHARD = 40


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "texts.jsonl").write_bytes(jsonl([{"text": text} for text in TEXTS]))
    train_tokenizer([folder / "texts.jsonl"], folder / "tokenizer.json", vocabulary=300)
    return folder / "tokenizer.json"


@pytest.fixture(scope="module")
def lengths(tokenizer: Path) -> dict[str, int]:
    library = tokenizers.Tokenizer.from_file(str(tokenizer))
    return {text: len(library.encode(text).ids) + 1 for text in TEXTS}


def recipe_of(
    folder: Path, targets: list[int | None], tokenizer: Path, order: str, more: str = ""
) -> Path:
    """A recipe of the sources in `folder`, the first with the higher priority."""
    text = ""
    for place, (name, target) in enumerate(zip(NAMES, targets, strict=True)):
        limit = "" if target is None else f"target_tokens = {target}"
        text += f'[[source]]\nname = "{name}"\nfiles = ["{name}/*"]\n'
        text += f"priority = {2 - place}\n{limit}\n"
    text += f'{more}\n[deduplicate]\n[tokens]\ntokenizer = "{tokenizer}"\norder = "{order}"\n'
    text += f"tokens_per_shard = {TOKENS_PER_SHARD}\nvalidation = 0.0\n"
    (folder / "recipe.toml").write_text(text)
    return folder / "recipe.toml"


def lay_out(folder: Path, sources: list[Source]) -> None:
    for name, source in zip(NAMES, sources, strict=True):
        (folder / name).mkdir(parents=True)
        for number, shard in enumerate(source.shards):
            rows = [{"id": 1} if text is None else {"text": text} for text in shard]
            (folder / name / f"{number}.jsonl").write_bytes(jsonl(rows))


def compare(corpus: Path, expected: Corpus) -> None:
    """Every verdict, every token shard's documents, and the plan's absent shards."""
    found = {}
    for path in (corpus / "verdicts").iterdir():
        for row in pq.read_table(path).to_pylist():
            values: tuple[Any, ...] = (row["reason"], None, None)
            if row["reason"] == "target.reached":
                values = (row["reason"], row["value"], row["threshold"])
            found[row["document"] >> 32, row["document"] & 0xFFFFFFFF] = values
    assert found == expected.verdicts
    plan = json.loads((corpus / "plan.json").read_text())["shards"]
    assert {one["number"] for one in plan if "missing" in one} == expected.absent
    for place, name in enumerate(NAMES):
        documents: list[int] = []
        tokens = 0
        for path in sorted((corpus / "tokens" / name).glob("train_*.docs")):
            table = np.fromfile(path, "<i8")
            documents += table[: len(table) // 2].tolist()
            tokens += path.with_suffix(".bin").stat().st_size // 2
        kept = [number << 32 | row for number, row in expected.kept[place]]
        assert sorted(set(documents)) == kept
        assert tokens == expected.tokens[place]


shards = st.lists(
    st.lists(st.sampled_from([*TEXTS, None]), min_size=1, max_size=4), min_size=1, max_size=4
)
targets = st.none() | st.integers(1, 120)


@strategies.fuzz(3, least=4)
@given(
    both=st.lists(st.tuples(shards, targets, st.integers(0, 60)), min_size=2, max_size=2),
    waves=st.tuples(st.sampled_from([1, 2, 9]), st.sampled_from([1, 2, 9])),
    order=st.sampled_from(["append", "shuffled"]),
)
def test_each_source_ends_where_the_definition_says_and_goes_on_when_its_target_is_raised(
    both: list[tuple[list[list[str | None]], int | None, int]],
    waves: tuple[int, int],
    order: str,
    tokenizer: Path,
    lengths: dict[str, int],
) -> None:
    sources = []
    for shards, target, more in both:
        later = None if target is None else target + more
        sources.append(Source(shards, [target, later]))
    expected = Corpus(sources, lengths)
    with TemporaryDirectory() as name, in_process():
        folder = Path(name).resolve()
        lay_out(folder, sources)
        options: dict[str, Any] = {"cache_dir": folder / "cache"}
        full: dict[Path, bytes] = {}
        for generation in (0, 1):
            now = [source.targets[generation] for source in sources]
            recipe = recipe_of(folder, now, tokenizer, order)
            expected.grow(generation)
            run(recipe, out=folder / "corpus", workers=waves[generation], **options)
            compare(folder / "corpus", expected)
            if order == "append":
                assert {path: path.read_bytes() for path in full} == full
                for path in (folder / "corpus/tokens").rglob("*.bin"):
                    if path.stat().st_size == 2 * TOKENS_PER_SHARD:
                        full[path] = path.read_bytes()
            assert verify(folder / "corpus")["parts"]
        plan = folder / "corpus/plan.json"
        run(recipe, out=folder / "again", workers=3, plan_file=plan, **options)
        assert digests(folder / "again") == digests(folder / "corpus")


HEAD = '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n'
TOKENS = '[tokens]\ntokenizer = "gpt2"\n'


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (f"{HEAD}target_tokens = 5\n", r"no \[tokens\]"),
        (f"{HEAD}target_tokens = 5\ntarget_shards = 1\n{TOKENS}", "give one of them"),
        (f'{HEAD}target_shards = 1\n[deduplicate]\norder = "longest"\n{TOKENS}', "order"),
        (
            f'{HEAD}target_shards = 1\n[deduplicate]\nnear = {{ group = "components" }}\n{TOKENS}',
            "components",
        ),
        (
            f"{HEAD}target_shards = 1\n[deduplicate]\nlines = {{ most = 3 }}\n{TOKENS}",
            "counts lines over the corpus",
        ),
        (f"{HEAD}enabled = false\n", "nothing would be read"),
        (f'{HEAD}subset = "x"\n', "name it with hub"),
        (f'{HEAD}hub = "x"\n', "no dataset of the hub"),
        (f"{HEAD}target_shards = 0\n{TOKENS}", "target_shards"),
    ],
)
def test_what_a_target_cannot_be_combined_with_is_refused_with_the_reason(
    text: str, match: str
) -> None:
    with pytest.raises(RecipeError, match=match):
        parse(text, "recipe.toml")


def test_a_lowered_target_is_refused_where_shards_never_change(
    tmp_path: Path, tokenizer: Path
) -> None:
    sources = [Source([[TEXTS[0], TEXTS[1]], [TEXTS[2]]], [40]), Source([[TEXTS[3]]], [None])]
    lay_out(tmp_path, sources)
    options: dict[str, Any] = {"out": tmp_path / "corpus", "cache_dir": tmp_path / "cache"}
    with in_process():
        run(recipe_of(tmp_path, [40, None], tokenizer, "append"), **options)
        before = digests(tmp_path / "corpus")
        with pytest.raises(RecipeError, match="would lose documents of raw shard 0"):
            run(recipe_of(tmp_path, [1, None], tokenizer, "append"), **options)
        with pytest.raises(RecipeError, match="token shards that are written never do"):
            run(
                recipe_of(tmp_path, [40, None], tokenizer, "append"),
                settings={"tokens.tokens_per_shard": "30"},
                **options,
            )
        assert digests(tmp_path / "corpus") == before


def test_a_disabled_source_is_not_read_and_keeps_what_it_has(
    tmp_path: Path, tokenizer: Path
) -> None:
    sources = [Source([[TEXTS[0]]], [None]), Source([[TEXTS[3]]], [None])]
    lay_out(tmp_path, sources)
    options: dict[str, Any] = {"out": tmp_path / "corpus", "cache_dir": tmp_path / "cache"}
    recipe = recipe_of(tmp_path, [None, None], tokenizer, "append")
    text = recipe.read_text()
    with in_process():
        recipe.write_text(text.replace('name = "first"', 'name = "first"\nenabled = false'))
        run(recipe, **options)
        assert sorted(path.name for path in (tmp_path / "corpus/tokens").iterdir()) == ["second"]
        recipe.write_text(text.replace('name = "second"', 'name = "second"\nenabled = false'))
        (tmp_path / "second/1.jsonl").write_bytes(jsonl([{"text": TEXTS[5]}]))
        run(recipe, **options)
    plan = json.loads((tmp_path / "corpus/plan.json").read_text())["shards"]
    assert [shard["url"] for shard in plan] == ["second/0.jsonl", "first/0.jsonl"]


NEAR = """
[[source]]
name = "first"
files = ["first/*"]
priority = 1
target_tokens = 9_000
[[source]]
name = "second"
files = ["second/*"]
target_shards = 3
[[step]]
use = "gopher"
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 2_000
validation = 0.1
"""


def test_near_duplicates_filters_and_workers_give_the_same_corpus(tmp_path: Path) -> None:
    for source in NAMES:
        (tmp_path / source).mkdir()
        for number in range(4):
            rows = pages(10, f"{source} {number}") + pages(6, f"first {number}")
            (tmp_path / source / f"{number}.jsonl").write_bytes(jsonl(rows))
    train_tokenizer([tmp_path / "first/0.jsonl"], tmp_path / "tokenizer.json", vocabulary=400)
    (tmp_path / "recipe.toml").write_text(NEAR)
    found = []
    for workers in (1, 4):
        out = tmp_path / f"corpus-{workers}"
        with in_process():
            funnel = run(
                tmp_path / "recipe.toml", out=out, workers=workers, cache_dir=tmp_path / "cache"
            )
        assert verify(out)["parts"]
        found.append(digests(out))
    assert found[0] == found[1]
    steps = {step["step"]: step for step in funnel.table["steps"]}
    assert steps["target"]["reasons"] == {"target.reached": steps["target"]["dropped"]}
    assert funnel.table["train_tokens"] + funnel.table["validation_tokens"] >= 15_000


def test_what_is_in_full_shards_is_not_read_again(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[TEXTS[8], TEXTS[5]], [TEXTS[7], TEXTS[6]], [TEXTS[4], TEXTS[3]], [TEXTS[2]]]
    sources = [Source(rows[:3], [None]), Source([[TEXTS[0]]], [None])]
    lay_out(tmp_path, sources)
    options: dict[str, Any] = {"cache_dir": tmp_path / "cache"}
    recipe = recipe_of(tmp_path, [None, None], tokenizer, "append")
    read = []

    def reading(path: Path, sha256: str | None) -> Any:
        read.append(path.name)
        return Reading(path, sha256)

    with in_process():
        run(recipe, out=tmp_path / "corpus", **options)
        # Its second document is a copy of one in the first raw shard.
        coming = [{"text": text} for text in [*rows[3], TEXTS[8]]]
        (tmp_path / "first/3.jsonl").write_bytes(jsonl(coming))
        verdicts = tmp_path / "corpus/work/state/write_verdicts"
        before = {path.name: path.stat().st_mtime_ns for path in verdicts.iterdir()}
        monkeypatch.setattr(shards_module, "Reading", reading)
        run(recipe, out=tmp_path / "corpus", **options)
        # 31 + 30, 37 + 38, 26 + 17 tokens in shards of 40: the third raw shard is in the last one.
        assert [name for name in read if "train" in name] == ["00002.train", "00004.train"]
        # Nor are verdicts written again that are as they were.
        after = {path.name: path.stat().st_mtime_ns for path in verdicts.iterdir()}
        assert set(after.items()) - set(before.items()) == {("00004.json", after["00004.json"])}
        run(recipe, out=tmp_path / "again", plan_file=tmp_path / "corpus/plan.json", **options)
    assert digests(tmp_path / "again") == digests(tmp_path / "corpus")
