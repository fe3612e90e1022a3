"""Validation and training: no near-duplicate that was compared is in both, against all pairs of
the texts; what the run says where it cannot know.
"""

import itertools
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import run, verify
from gristmill.corpus.similar_documents import TABLE, digests, similar_documents
from gristmill.dedup.near.near_stage import PAIRS_FOUND
from gristmill.dedup.near.similar_kept import SIMILAR, similar_kept
from gristmill.errors import Damaged
from gristmill.phases.output.validation import caveat
from gristmill.recipe import Recipe, Source
from tests.support import strategies
from tests.support.corpora import WORDS, article, jsonl, lay_out
from tests.support.corpora import digests as digests_of

RECIPE = """
seed = 7
[[source]]
name = "web"
files = ["web/*"]
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
validation = 0.3
"""
SOURCES = RECIPE.replace(
    "[deduplicate]",
    '[[source]]\nname = "books"\nfiles = ["books/*"]\n[deduplicate]\nscope = "source"',
)


def edited(text: str, share: float, pick: random.Random) -> str:
    """The text with a share of its words replaced."""
    words = text.split(" ")
    for place in pick.sample(range(len(words)), int(share * len(words))):
        words[place] = pick.choice(WORDS)
    return " ".join(words)


@cache
def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.sub(r"[^\w\s]", " ", text.lower()).split()
    return {tuple(words[place : place + 5]) for place in range(len(words) - 4)}


def near(left: str, right: str) -> float:
    one, other = shingles(left), shingles(right)
    return len(one & other) / max(len(one | other), 1)


def planted(count: int) -> list[str]:
    """Texts and copies of them with 0.5 to 15 % of the words replaced: similarities 0.3 to 0.95."""
    pick = random.Random("planted")
    texts = [article(f"planted {number}", 30) for number in range(count)]
    return texts + [edited(text, pick.uniform(0.005, 0.15), pick) for text in texts * 2]


def splits(corpus: Path) -> dict[str, list[int]]:
    """The documents of each split, from the token shards."""
    found: dict[str, list[int]] = {"train": [], "val": []}
    for path in (corpus / "tokens").rglob("*.docs"):
        numbers = np.fromfile(path, "<i8")
        found[path.name.partition("_")[0]] += numbers[: len(numbers) // 2].tolist()
    return found


def texts_of(corpus: Path) -> dict[int, str]:
    return {
        row["document"]: row["text"]
        for path in (corpus / "documents").iterdir()
        for row in pq.read_table(path, columns=["document", "text"]).to_pylist()
    }


def make(folder: Path, recipe: str, **sources: list[str]) -> Path:
    path = lay_out(folder, count=4, recipe=recipe)
    for name, texts in sources.items():
        (folder / name).mkdir()
        for number in range(2):
            rows: list[dict[str, object]] = [{"text": text} for text in texts[number::2]]
            (folder / name / f"{number}.jsonl").write_bytes(jsonl(rows))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    recipe = make(folder, RECIPE, web=planted(120))
    run(recipe, out=folder / "corpus", workers=1)
    run(recipe, out=folder / "append", workers=1, settings={"tokens.order": "append"})
    return folder


def across(corpus: Path, floor: float) -> list[tuple[int, int]]:
    """Pairs of a validation and a training document with a similarity of at least `floor`."""
    parts, texts = splits(corpus), texts_of(corpus)
    assert parts["train"]
    assert parts["val"]
    return [
        (held, other)
        for held, other in itertools.product(parts["val"], parts["train"])
        if near(texts[held], texts[other]) >= floor
    ]


def test_no_validation_document_has_a_near_duplicate_in_training(made: Path) -> None:
    corpus = made / "corpus"
    assert across(corpus, 0.7) == []
    # By the hash alone there are some: the same documents, with order = "append".
    assert len(across(made / "append", 0.7)) >= 3
    verify(corpus)


def test_documents_are_moved_for_a_compared_pair_alone(made: Path) -> None:
    corpus = made / "corpus"
    rows = pq.read_table(corpus / "duplicates/pairs.parquet").to_pylist()
    dropped = {
        row["document"]
        for path in (corpus / "verdicts").iterdir()
        for row in pq.read_table(path).to_pylist()
        if row["reason"] is not None
    }
    expected = {
        document
        for row in rows
        if row["similarity"] >= 0.7 and not {row["document"], row["candidate"]} & dropped
        for document in (row["document"], row["candidate"])
    }
    found = pq.read_table(corpus / TABLE)["document"].to_pylist()
    assert found == sorted(expected)
    by_hash, now = splits(made / "append"), splits(corpus)
    assert set(now["val"]) == set(by_hash["val"]) - expected
    funnel = json.loads((corpus / "manifest.json").read_bytes())["funnel"]
    assert funnel["validation_moved"] == len(by_hash["val"]) - len(now["val"]) > 0
    assert funnel["validation_documents"] == len(now["val"])


def test_the_split_is_the_same_for_any_number_of_workers(made: Path) -> None:
    run(made / "recipe.toml", out=made / "three", workers=3)
    assert digests_of(made / "three") == digests_of(made / "corpus")


@pytest.mark.parametrize("order", ["append", pytest.param("shuffled", marks=pytest.mark.soak)])
def test_a_corpus_that_grows_moves_no_document_into_validation(tmp_path: Path, order: str) -> None:
    """With order = "append" the hash alone decides: no document moves, and full shards keep their
    bytes. With order = "shuffled" validation documents whose near-duplicate comes go to train.
    """
    texts = planted(60)[:60]
    recipe = make(tmp_path, RECIPE, web=texts)
    pick = random.Random("grows")
    settings = {"tokens.order": order, "tokens.tokens_per_shard": "2000"}
    found, shards = [], []
    for _ in range(2):
        run(recipe, out=tmp_path / "corpus", workers=1, settings=settings)
        found.append({name: set(one) for name, one in splits(tmp_path / "corpus").items()})
        tokens = (tmp_path / "corpus/tokens").rglob("*.bin")
        shards.append({str(path): path.read_bytes() for path in tokens})
        # Near-duplicates between the floor and the threshold, and others.
        more = [edited(text, share, pick) for text in texts for share in (0.035, 0.5)]
        rows: list[dict[str, object]] = [{"text": text} for text in more]
        (tmp_path / "web/9.jsonl").write_bytes(jsonl(rows))
    before, after = found
    assert before["train"] < after["train"]
    if order == "shuffled":
        assert before["val"] & after["train"]
        return
    assert before["val"] < after["val"]
    full = {path: data for path, data in shards[0].items() if len(data) == 4000}
    assert len(full) >= 2
    assert all(shards[1][path] == data for path, data in full.items())


def test_equal_texts_of_two_sources_stay_in_one_split(tmp_path: Path) -> None:
    texts = planted(60)
    lines: list[str] = []

    def show(event: dict[str, Any]) -> None:
        lines.append(event.get("text", ""))

    recipe = make(tmp_path, SOURCES, web=texts, books=texts[:60])
    funnel = run(recipe, out=tmp_path / "corpus", workers=1, show=show)
    assert any('scope = "source"' in line for line in lines)
    assert funnel.table["validation_moved"] > 0
    assert any("moved to train" in line for line in funnel.lines())
    parts, found = splits(tmp_path / "corpus"), texts_of(tmp_path / "corpus")
    held = {found[document] for document in parts["val"]}
    assert held
    assert not held & {found[document] for document in parts["train"]}


def recipe_of(deduplicate: dict[str, Any] | None, sources: int = 1, **tokens: Any) -> Recipe:
    import msgspec

    table = {
        "source": [{"name": f"s{number}", "files": ["x"]} for number in range(sources)],
        "deduplicate": deduplicate,
        "tokens": {"tokenizer": "gpt2", **tokens},
    }
    return msgspec.convert(table, Recipe)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (recipe_of(None), "does not look for any"),
        (recipe_of({}), "does not look for any"),
        (recipe_of({"near": {}}), None),
        (recipe_of({"near": {}}, order="append"), 'order = "append"'),
        (recipe_of({"near": {}, "scope": "source"}), None),
        (recipe_of({"near": {}, "scope": "source"}, sources=2), 'scope = "source"'),
        (
            recipe_of({"near": {}, "scope": "language", "by_language": {"en": {"near": False}}}),
            "looks for none in en",
        ),
        (recipe_of(None, validation=0.0), None),
        (Recipe(source=[Source(name="s")]), None),
    ],
)
def test_what_is_said_where_near_duplicates_may_be_on_both_sides(
    recipe: Recipe, said: str | None
) -> None:
    found = caveat(recipe)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


numbers = st.integers(0, 8)


@strategies.fuzz(100)
@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from((None, "old")), st.floats(0, 1))),
    st.sets(numbers),
    st.floats(0.01, 1),
)
def test_fuzz_similar_kept(
    pairs: list[tuple[int, int, str | None, float]], dropped: set[int], floor: float
) -> None:
    columns = list(zip(*pairs, strict=True)) or [[], [], [], []]
    batch = pa.table([list(column) for column in columns], schema=PAIRS_FOUND)
    found = similar_kept(batch.to_batches(), np.array(sorted(dropped), np.int64), floor)
    expected = set()
    for left, right, other, similarity in pairs:
        if other is None and similarity >= floor and not {left, right} & dropped:
            expected |= {left, right}
    assert found.tolist() == sorted(expected)


def test_a_changed_table_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "similar.parquet"
    documents = [3, 1 << 32, (1 << 32) + 5]
    pq.write_table(pa.table([documents], schema=SIMILAR), path)
    by_shard = digests(path)
    assert set(by_shard) == {0, 1}
    assert similar_documents(path, 1, by_shard[1]).tolist() == documents[1:]
    pq.write_table(pa.table([documents[:2]], schema=SIMILAR), path)
    with pytest.raises(Damaged, match="rows of shard 00001"):
        similar_documents(path, 1, by_shard[1])
