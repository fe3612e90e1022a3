"""The ledger against a count of the order in plain Python, and as a verb."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader import coverage
from gristmill.loader.ledger import lines, seen
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from gristmill.tables.schema import document_name
from tests.support import strategies
from tests.support.command import command_line
from tests.support.naive_order import numbered
from tests.support.token_corpora import token_corpus

SETTINGS = {"sequence_length": 10, "batch_size": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("ledger"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90), "code": numbered(3, 30, 5)},
        tokens_per_shard=100,
    )


@pytest.fixture(scope="module", params=["concat", "best_fit", "aligned"])
def plan(
    request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> LoaderPlan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRISTMILL_PACKING", str(tmp_path_factory.mktemp("packing")))
        plan = LoaderPlan.start(root, **SETTINGS, packing=request.param)  # type: ignore[arg-type]
        return plan.changed(root, from_window=40, weights={"web": 1, "code": 1}, batch_size=2)


def test_a_step_has_the_documents_that_the_loader_yields(root: Path, plan: LoaderPlan) -> None:
    with Loader(root, plan=plan) as loader:
        for step in range(25):
            names = loader.sources
            batch = next(loader)
            answer = seen(root, plan, step=step)
            assert [row["window"] for row in answer["windows"]] == batch.windows.tolist()
            for number, row in enumerate(answer["windows"]):
                mine = batch.segments.rows == number
                assert row["source"] == names[batch.sources[number]]
                found = [
                    (one["document"], one["first_column"], one["tokens"], one["from_its_start"])
                    for one in row["documents"]
                ]
                expected = zip(
                    map(document_name, batch.segments.documents[mine].tolist()),
                    batch.segments.starts[mine].tolist(),
                    batch.segments.lengths[mine].tolist(),
                    batch.segments.begins[mine].tolist(),
                    strict=True,
                )
                assert found == list(expected)
            assert lines(answer)[0] == f"step {step}: {len(batch.windows)} windows"


def test_when_a_document_is_seen(root: Path, plan: LoaderPlan) -> None:
    """Every step that sees it, and no other, by asking all steps."""
    steps: dict[str, list[int]] = {}
    for step in range(60):
        for row in seen(root, plan, step=step)["windows"]:
            for one in row["documents"]:
                steps.setdefault(one["document"], []).append(step)
    for document in list(steps)[::5]:
        answer = seen(root, plan, document=document)
        found = [one["step"] for one in answer["seen"] if one["step"] < 60]
        assert Counter(found) == Counter(steps[document])
        assert f"{document}: {answer['tokens']} tokens of {answer['source']}" in lines(answer)[0]
        some = seen(root, plan, document=document, steps=(3, 41))
        assert Counter(one["step"] for one in some["seen"]) == Counter(
            step for step in steps[document] if 3 <= step < 41
        )
        assert "seen in steps 3 to 40:" in lines(some)[0]


def test_a_document_is_looked_for_in_all_epochs_of_a_range(root: Path) -> None:
    """Behind the first 16 epochs too; too many are refused."""
    plan = LoaderPlan.start(root, **SETTINGS, weights={"code": 1})  # type: ignore[arg-type]
    document = seen(root, plan, step=1000)["windows"][0]["documents"][0]["document"]
    found = seen(root, plan, document=document, steps=(990, 1010))["seen"]
    assert 1000 in [one["step"] for one in found]
    assert min(one["epoch"] for one in found) > 400
    assert 1000 not in [one["step"] for one in seen(root, plan, document=document)["seen"]]
    with pytest.raises(
        RecipeError, match="epochs of source 'code', too many to look at one by one"
    ):
        seen(root, plan, document=document, steps=(0, 10**8))


@strategies.fuzz(100)
@given(st.data(), st.integers(1, 60), st.integers(1, 12))
def test_fuzz_times_read_is_a_count_of_every_token(
    data: st.DataObject, tokens: int, buffered: int
) -> None:
    ends = np.array([*sorted(data.draw(st.sets(st.integers(1, tokens), max_size=9))), tokens])
    counts = np.zeros(tokens, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "BUFFERED", buffered)
        times = coverage.TimesRead(tokens)
        for _ in range(data.draw(st.integers(0, 6))):
            runs = [sorted(data.draw(st.tuples(*[st.integers(0, tokens)] * 2))) for _ in range(3)]
            for start, stop in runs:
                counts[start:stop] += 1
            starts, stops = np.array(runs, np.int64).T
            times.add(starts, stops - starts)
    assert times.tokens_by_times() == {
        str(time): int(n) for time, n in enumerate(np.bincount(counts)) if n
    }
    # Documents in three shards; one at a seam stands in both.
    cuts = sorted(data.draw(st.tuples(*[st.integers(0, tokens)] * 2)))
    shards, before = [], 0
    for stop in (*cuts, tokens):
        inside = [(n, min(end, stop)) for n, end in enumerate(ends.tolist()) if end > before]
        inside = inside[: 1 + sum(end < stop for _, end in inside)] if stop > before else []
        shards.append((np.array([n for n, _ in inside]), np.array([e for _, e in inside], int)))
        before = stop
    starts = np.append(0, ends[:-1])
    least = [int(counts[a:b].min()) for a, b in zip(starts, ends, strict=True) if b > a]
    assert times.documents_by_times(iter(shards)) == {
        str(time): least.count(time) for time in sorted(set(least))
    }


def test_coverage_is_a_count_of_every_token(root: Path, plan: LoaderPlan) -> None:
    corpus = TokenCorpus.open(root)
    for first, stop in ((0, 3), (5, 22), (0, 40)):
        tokens = {name: np.zeros(corpus.stream(name).tokens, int) for name in corpus.sources()}
        windows: Counter[str] = Counter()
        with Loader(root, plan=plan) as loader:
            loader.seek_step(first)
            while loader.step < stop:
                batch = next(loader)
                order = loader._maker.orders.at(int(batch.windows[0]))
                of, runs = order.runs(batch.windows)
                for row, _, position, length in zip(*(f.tolist() for f in runs), strict=True):
                    start = position - int(order.reader.base[of[row]])
                    tokens[order.names[of[row]]][start : start + length] += 1
                windows.update(order.names[source] for source in of)
        answer = seen(root, plan, steps=(first, stop))
        assert {n: e["windows"] for n, e in answer["sources"].items() if e["windows"]} == windows
        for name, entry in answer["sources"].items():
            assert entry["tokens"] == tokens[name].sum()
            counts = Counter(tokens[name].tolist())
            assert entry["tokens_seen_times"] == {str(k): counts[k] for k in sorted(counts)}
            least: dict[int, int] = {}
            at = 0
            for documents, ends in corpus.stream(name).every_document():
                for document, end in zip(documents.tolist(), ends.tolist(), strict=True):
                    if end > at:
                        now = int(tokens[name][at:end].min())
                        least[document] = min(least.get(document, now), now)
                    at = end
            times = Counter(least.values())
            assert entry["documents_seen_times"] == {str(k): times[k] for k in sorted(times)}
        assert answer["digest"] == seen(root, plan, steps=(first, stop))["digest"]
    digests = {seen(root, plan, steps=(0, stop))["digest"] for stop in range(1, 6)}
    assert len(digests) == 5


def test_an_epoch_covers_every_document_once(root: Path) -> None:
    plan = LoaderPlan.start(root, sequence_length=1, batch_size=1, weights={"web": 1})
    answer = seen(root, plan, steps=(0, plan.segments[0].sources[2].windows))
    assert answer["sources"]["web"]["documents_seen_times"] == {"1": 60}
    assert answer["sources"]["web"]["epochs"] == 1.0
    assert answer["sources"]["code"]["documents_seen_times"] == {"0": 30}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "ask for one of"),
        ({"step": 1, "document": "0:1"}, "ask for one of"),
        ({"document": "0:999"}, "document 0:999: the corpus has no train tokens of it"),
        ({"document": "x"}, "document 'x': name it as shard:row, or by its number"),
        ({"steps": (3, 3)}, "steps 3 to 3"),
        ({"step": -1}, "step -1: steps are counted from 0"),
    ],
)
def test_questions_that_are_refused(root: Path, asked: dict[str, object], said: str) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match=re.escape(said)):
        seen(root, plan, **asked)  # type: ignore[arg-type]


def test_the_verbs(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    LoaderPlan.start(root, **SETTINGS).save(path)  # type: ignore[arg-type]

    def mill(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)

    done = mill("seen", root, "--plan", path, "--step", 3, "--json")
    assert json.loads(done.stdout) == seen(root, path, step=3)
    document = seen(root, path, step=3)["windows"][0]["documents"][0]["document"]
    done = mill("seen", root, "--plan", path, "--document", document)
    assert done.stdout.splitlines() == lines(seen(root, path, document=document))
    done = mill("seen", root, "--plan", path, "--from", 0, "--to", 9, "--json")
    assert json.loads(done.stdout)["windows"] == 36
    done = mill("seen", root, "--plan", path, "--from", 0)
    assert (done.returncode, done.stderr) == (2, "gristmill: --from and --to come together\n")
    ask = ("bench-loader", root, "--sequence-length", 10, "--batch-size", 4, "--seconds", 0.5)
    done = mill(*ask, "--tokens-per-second", 10, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["enough"]
    assert answer["headroom"] > 10
    done = mill(*ask, "--tokens-per-second", 1e12)
    assert done.returncode == 1
    assert "NOT ENOUGH" in done.stdout
