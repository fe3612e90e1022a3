"""Repeats and partitions: every copy counted again from scores and texts, the same bytes for any
workers, and what reads the corpus understands them.
"""

import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import TokenCorpus, diff, export, run, size, stats, status, verify, why
from gristmill.errors import RecipeError, VerificationError
from gristmill.recipe import parse
from gristmill.reports.documents.why import lines as why_lines
from gristmill.tokens import shards, sorted_runs
from gristmill.tokens.shards import Apart
from gristmill.tokens.sorted_runs import placed
from tests.support.corpora import digests
from tests.support.every_phase import in_process
from tests.support.manifests import forge
from tests.support.scored import RECIPE, lay_out, score_of, topic_of


class Made(NamedTuple):
    """A corpus, and what its documents are."""

    root: Path
    recipe: Path
    funnel: dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("repeats")
    recipe = lay_out(folder)
    funnel = run(recipe, out=folder / "corpus", workers=1).table
    return Made(folder / "corpus", recipe, funnel)


def docs(root: Path) -> dict[str, list[list[int]]]:
    """By folder and split, the documents of each shard."""
    found: dict[str, list[list[int]]] = {}
    for path in sorted((root / "tokens").glob("*/*.docs")):
        table = np.fromfile(path, "<i8")
        stream = f"{path.parent.name}/{path.name.partition('_')[0]}"
        found.setdefault(stream, []).append(table[: len(table) // 2].tolist())
    return found


def copies(root: Path) -> dict[str, list[int]]:
    """By folder and split, the documents in order: one that goes on in the next shard once."""
    found: dict[str, list[int]] = {}
    for stream, members in docs(root).items():
        row = found.setdefault(stream, [])
        for shard in members:
            row += shard[1:] if row and shard and row[-1] == shard[0] else shard
    return found


def kept(root: Path) -> dict[int, str]:
    """The kept documents and their URLs."""
    rows = pq.read_table(root / "verdicts").to_pylist()
    return {row["document"]: row["url"] for row in rows if row["reason"] is None}


def test_every_copy_is_where_it_must_be(made: Made) -> None:
    urls = kept(made.root)
    # Buckets are of all documents that reach deduplication, copies too.
    read = {
        row["document"]: row["url"] for row in pq.read_table(made.root / "verdicts").to_pylist()
    }
    scores = {document: score_of(url) for document, url in read.items()}
    known = sorted(score for score in scores.values() if score is not None)
    found = copies(made.root)
    validation = {one for stream, row in found.items() if stream.endswith("/val") for one in row}
    written = Counter(
        (document, stream.partition("/")[0]) for stream, row in found.items() for document in row
    )
    left_out = made.funnel["repeats"]["left_out"]
    short = 0
    fractions = []
    for document, url in urls.items():
        score = scores[document]
        bucket = None if score is None else sum(k < score for k in known) * 4 // len(known)
        times = {0: 0.0, 1: 1.0, 2: 1.5, 3: 4.0, None: 1.0}[bucket]
        label = {None: "none", "Science & Tech": "science"}.get(topic_of(url), topic_of(url))
        source = url.partition("//")[2].partition(".")[0]
        own = written.pop((document, f"{source}~{label}"), 0)
        if document in validation:
            assert own == min(times, 1), "a validation document is there once"
        elif times == 1.5:
            fractions.append(own)
        else:
            short += int(times) - own
            assert own <= times
    assert not written, "documents in a partition of another label, or that were dropped"
    assert short <= left_out
    assert set(fractions) <= {1, 2}
    assert len(set(fractions)) == 2
    for stream, row in found.items():
        assert all(a != b for a, b in pairwise(row)), f"neighbours in {stream}"
        other = stream.replace("/train", "/val")
        assert stream == other or not set(row) & set(found.get(other, []))


def test_the_funnel_adds_up(made: Made) -> None:
    funnel = made.funnel
    table = funnel["repeats"]["table"]
    assert [row["times"] for row in table] == [0, 1, 1.5, 4, 1]
    train = sum(len(row) for stream, row in copies(made.root).items() if stream.endswith("/train"))
    assert funnel["train_documents"] == train
    assert funnel["train_documents"] == (
        sum(row["written_documents"] for row in table) - funnel["repeats"]["left_out"]
    )
    sizes = {
        part["path"]: part["counts"]["tokens"]
        for part in json.loads((made.root / "manifest.json").read_bytes())["parts"]
        if part["path"].endswith(".bin")
    }
    assert funnel["tokens"] == sum(sizes.values())
    for name, counts in funnel["partitions"].items():
        own = sum(size for path, size in sizes.items() if path.split("/")[1] == name)
        assert counts["train_tokens"] + counts["val_tokens"] == own
    once = sum(row["tokens"] for row in table)
    assert funnel["tokens_per_byte"] < 1.2 * once / funnel["bytes"]


def test_the_same_bytes_for_any_workers_and_buckets(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(made.recipe, out=tmp_path / "two", workers=2)
    assert digests(tmp_path / "two") == digests(made.root)
    monkeypatch.setattr(shards, "BLOCK_BYTES", 2_000)
    for name in ("RUN_BYTES", "MOST_RUN_BYTES", "BUCKET_BYTES", "MERGED_BYTES", "PIECE_BYTES"):
        monkeypatch.setattr(sorted_runs, name, 3_000)
    with in_process():
        run(made.recipe, out=tmp_path / "small", workers=1)
    assert digests(tmp_path / "small") == digests(made.root)


def test_other_repeats_only_assemble_again(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.root, tmp_path / "corpus")
    events: list[dict[str, Any]] = []
    run(
        made.recipe,
        out=tmp_path / "corpus",
        workers=1,
        settings={"tokens.repeat.table.3": "2"},
        show=events.append,
    )
    phases = {event["phase"] for event in events if event.get("event") == "progress"}
    assert phases <= {"fetch", "assemble"}
    before, after = copies(made.root), copies(tmp_path / "corpus")
    assert before.keys() == after.keys()
    for stream in before:
        fewer, more = Counter(after[stream]), Counter(before[stream])
        assert fewer.keys() == more.keys()
        assert all(fewer[one] <= more[one] for one in fewer)


def test_readers_understand_them(made: Made, tmp_path: Path) -> None:
    verify(made.root)
    found = {source["name"]: source for source in status(made.root)["sources"]}
    assert set(found) == {"web", "books"}
    assert set(found["web"]["partitions"]) == {"web~news", "web~none", "web~science", "web~sport"}
    assert sum(found["web"]["partitions"].values()) == found["web"]["tokens"]
    often = next(
        document
        for stream, row in copies(made.root).items()
        if stream == "web~sport/train"
        for document, count in Counter(row).items()
        if count == 4
    )
    (answer,) = why(made.root, str(often))
    assert sum(answer["tokens"].values()) == 4
    assert all(path.startswith("tokens/web~sport/train_") for path in answer["tokens"])
    assert "in the tokens 4 times" in "\n".join(why_lines(answer))
    told = stats(made.root)
    assert told["tokens"] == made.funnel["tokens"]
    assert {row["name"] for row in told["sources"]} >= {"web~news", "books~sport"}
    assert diff(made.root, made.root)["equal"]
    whole = export(made.root, tmp_path / "npy", to="nanogpt", sources=["books"])
    one = export(made.root, tmp_path / "one", to="nanogpt", sources=["books~sport"])
    assert whole["tokens"] > one["tokens"] > 0
    stream = TokenCorpus.open(made.root).stream("web~news")
    assert stream.tokens == found["web"]["partitions"]["web~news"]


def test_verify_notices_a_wrong_funnel(made: Made, tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    shutil.copytree(made.root, root)

    def fewer(manifest: dict[str, Any]) -> None:
        manifest["funnel"]["repeats"]["table"][3]["written_tokens"] -= 1
        manifest["funnel"]["partitions"]["web~news"]["train_tokens"] += 1

    forge(root, fewer)
    with pytest.raises(VerificationError, match=r"funnel.repeats: .* tokens, and") as error:
        verify(root)
    assert "funnel.partitions.web~news.train_tokens" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tokens.repeat]", 'order = "append"\n[tokens.repeat]', 'repeat needs order = "shuffled"'),
        ('by = "ensemble.bucket"', 'by = "classifier.score"', "no step before dedup.*'classifier"),
        ('by = "ensemble.bucket"', 'by = "ensemble.rank"', "ensemble.score and ensemble.bucket"),
        ('by = "ensemble.bucket"', 'by = "bucket"', 'expected "copies" or a measure'),
        ("{ 0 = 0,", "{ x = 0,", "'x' is no number"),
        ("3 = 4 }", "3 = -1 }", "-1 times: expected 0 to 100"),
        ("3 = 4 }", "3 = nan }", "nan times"),
        ('"science" }', '"a/b" }', "'a/b' is part of a folder's name"),
        ('by = ["scores.topic"]', "by = []", "length >= 1"),
        ("[deduplicate]\nexact = true\n", "", None),
        ('name = "web"', 'name = "web"\ntarget_tokens = 5', "compares with the corpus"),
        ('use = "scores"', 'use = "scores"\nkeep = {}', None),
    ],
)
def test_recipes_that_ask_for_what_cannot_be(old: str, new: str, message: str | None) -> None:
    assert old in RECIPE
    text = RECIPE.replace(old, new)
    if message is None:
        parse(text, "r")
        return
    with pytest.raises(RecipeError, match=message):
        parse(text, "r")


def test_copies_need_a_dedup_and_targets_none() -> None:
    plain = RECIPE.partition("[[step]]")[0] + '[tokens]\ntokenizer = "gpt2"\n'
    repeat = 'repeat = { by = "copies", table = { 1 = 1, 2 = 2 } }\n'
    with pytest.raises(RecipeError, match=r"no \[deduplicate\] that counts them"):
        parse(plain + repeat, "r")
    parse(plain + repeat + "[deduplicate]\n", "r")
    target = plain.replace('name = "web"', 'name = "web"\ntarget_tokens = 5')
    with pytest.raises(RecipeError, match="'web' has a target, which counts every document once"):
        parse(target + repeat + "[deduplicate]\n", "r")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('{ "Science & Tech" = "science" }', "{}"),
            "label 'Science & Tech', which cannot be part",
        ),
        (('"science" }', '"NEWS" }'), "one folder on some file systems"),
        (
            ('by = ["scores.topic"]', 'by = ["scores.topic"]\nmost = 3'),
            "has 4 labels, and most = 3",
        ),
        (('by = ["scores.topic"]', 'by = ["scores.edu"]'), "is a number, and no label"),
        (('by = "ensemble.bucket"', 'by = "scores.topic"'), "it is no number"),
        (('by = "ensemble.bucket"', 'by = "scores.nothing"'), "no step measures it"),
    ],
)
def test_labels_that_are_no_path(
    made: Made, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """They are refused when shards are assembled; what was done before is kept."""
    folder = tmp_path / "again"
    shutil.copytree(made.root.parent, folder)
    assert change[0] in RECIPE
    (folder / "recipe.toml").write_text(RECIPE.replace(*change))
    with pytest.raises(RecipeError, match=message):
        run(folder / "recipe.toml", out=folder / "corpus", workers=1)


def test_by_copies(made: Made, tmp_path: Path) -> None:
    """FineWeb2's rehydration: by the size of a document's cluster."""
    folder = tmp_path / "again"
    shutil.copytree(made.root.parent, folder)
    start, end = RECIPE.index("[tokens.repeat]"), RECIPE.index("[tokens.partition]")
    table = '[tokens.repeat]\nby = "copies"\ntable = { 1 = 1, 2 = 3 }\n'
    (folder / "recipe.toml").write_text(RECIPE[:start] + table)
    assert end > start
    run(folder / "recipe.toml", out=folder / "corpus", workers=1)
    verify(folder / "corpus")
    rows = pq.read_table(folder / "corpus/duplicates/copies.parquet").to_pylist()
    copied = {row["keeper"] for row in rows}
    assert copied
    for stream, row in copies(folder / "corpus").items():
        for document, count in Counter(row).items():
            once = stream.endswith("/val") or document not in copied
            assert count == (1 if once else 3)


@settings(max_examples=60, deadline=None)
@given(repeats=st.lists(st.integers(0, 9), min_size=1, max_size=40), key=st.integers(0, 2**64 - 1))
def test_copies_are_spread(repeats: list[int], key: int) -> None:
    documents = np.arange(len(repeats), dtype=np.int64) * 977
    rows, places = placed(documents, np.array(repeats), key)
    assert Counter(rows.tolist()) == Counter({i: r for i, r in enumerate(repeats) if r})
    first = placed(documents, np.ones_like(documents), key)
    alone = dict(zip(*(one.tolist() for one in first), strict=True))
    for row, times in enumerate(repeats):
        own = [int(place) for place, of in zip(places, rows, strict=True) if of == row]
        if times:
            assert own[0] == alone[row], "the first copy is where it would be without others"
        gaps = [(b - a) % 2**64 for a, b in zip(own, own[1:] + own[:1], strict=True)]
        if times > 1:
            assert min(gaps) >= 2**64 // times // 2 - 16


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=6),
    lengths=st.lists(st.integers(1, 3), min_size=4, max_size=4),
)
def test_no_copy_follows_another(blocks: list[list[int]], lengths: list[int]) -> None:
    """And nothing else changes: however the row is cut into blocks, and with their own tokens."""

    def given_blocks(cut: list[list[int]]) -> Any:
        for block in cut:
            own = np.array([lengths[one] for one in block], np.int64)
            yield np.repeat(block, own).astype(np.uint16), np.array(block, np.int64), own

    def flat(cut: list[list[int]]) -> tuple[list[int], int]:
        apart = Apart(given_blocks(cut))
        row: list[int] = []
        for tokens, documents, own in apart:
            assert tokens.tolist() == np.repeat(documents, own).tolist()
            row += documents.tolist()
        return row, apart.left_out

    row, left_out = flat(blocks)
    every = [one for block in blocks for one in block]
    assert (row, left_out) == flat([every])
    assert all(a != b for a, b in pairwise(row))
    assert len(row) + left_out == len(every)
    assert not Counter(row) - Counter(every)
    if not any(a == b for a, b in pairwise(every)):
        assert row == every


@pytest.mark.soak
def test_size_knows_repeats_and_does_without_numbers(made: Made) -> None:
    """By URL the sample has its scores; by number it has none, and is measured without them."""
    by_number = size(made.recipe)
    assert by_number["kept"] == made.funnel["kept"]
    once = sum(row["tokens"] for row in made.funnel["repeats"]["table"])
    assert once < by_number["tokens"] < once * 1.2, "validation is there as well"
    by_url = size(made.recipe, settings={"step.scores.by": '"url"', "tokens.repeat.table.2": "3"})
    assert by_url["tokens"] > by_number["tokens"] * 1.3
