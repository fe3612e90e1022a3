"""Plans: changes of mix, corpus and sequence length without repeats; what is refused."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus, grow_tokenizer
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from gristmill.store.proof import PROOF, seal
from tests.support import strategies
from tests.support.naive_order import numbered, stream
from tests.support.token_corpora import token_corpus

SETTINGS = {"sequence_length": 10, "batch_size": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("plan"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90), "code": numbered(3, 30, 5)},
        {"web": numbered(4, 20, 10)},
        tokens_per_shard=100,
    )


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("grown"),
        {"web": numbered(1, 80, 20), "code": numbered(3, 30, 5), "maths": numbered(5, 30, 9)},
        tokens_per_shard=100,
    )


MIXES = (None, {"web": 0.5, "books": 0.5}, {"web": 1, "books": 2, "code": 5}, {"books": 1})


@strategies.fuzz(60)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from(MIXES), st.sampled_from((2, 4, 6))),
        max_size=4,
    )
)
def test_fuzz_a_change_of_the_mix_repeats_nothing_and_leaves_no_hole(
    root: Path, changes: list[tuple[int, dict[str, float] | None, int]]
) -> None:
    """Each source's windows are those of its own order from the first on, whatever the mix was."""
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    window = 0
    for steps, weights, size in changes:
        window += steps * plan.segments[-1].batch_size
        plan = plan.changed(
            root, from_window=window, weights=weights or {"code": 0}, batch_size=size
        )
    windows = list(stream(TokenCorpus.open(root), plan, window + 60))
    by_source: dict[str, list[tuple[int, int]]] = {}
    for one in windows:
        by_source.setdefault(one.source, []).append((one.epoch, one.number))
    counts = {one.name: one.tokens // 10 for one in plan.segments[0].sources}
    for name, found in by_source.items():
        assert len(set(found)) == len(found)
        for epoch in range(found[-1][0] + 1):
            numbers = [number for of, number in found if of == epoch]
            if epoch < found[-1][0]:
                assert sorted(numbers) == list(range(counts[name]))
    with Loader(root, plan=plan) as loader:
        rows = []
        while loader.windows < window + 12:
            rows += next(loader).tokens.tolist()
    assert rows == [one.tokens for one in windows[: len(rows)]]


@strategies.fuzz(60)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.sampled_from(MIXES[:2])), max_size=8)
)
def test_fuzz_no_epoch_of_a_source_is_begun_twice_by_two_corpora(
    root: Path, grown: Path, changes: list[tuple[int, bool, dict[str, float] | None]]
) -> None:
    """As a node's plan has it, which goes from shards to shards: what a source has begun is looked
    for in all segments, window after window.
    """
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    window = 0
    for steps, other, weights in changes:
        window += steps * plan.segments[-1].batch_size
        before = plan.segments[-1].corpus
        corpus = TokenCorpus.open(grown if other else root)
        mix = None if other else weights
        plan = plan.changed(corpus, from_window=window, weights=mix or {"web": 1, "code": 1})
        last = plan.segments[-1]
        if last.corpus == before:
            continue
        begun = dict.fromkeys(corpus.sources(), -1)
        ends = [segment.from_window for segment in plan.segments[1:]]
        for segment, end in zip(plan.segments, ends, strict=False):
            places, _ = segment.mixture.place(np.arange(end - segment.from_window))
            read = Counter(segment.sources[place].name for place in places)
            for source in segment.sources:
                for place in range(source.rank, source.rank + read[source.name]):
                    epoch = source.epoch + place // source.windows
                    begun[source.name] = max(begun.get(source.name, -1), epoch)
                if source.rank:
                    begun[source.name] = max(begun.get(source.name, -1), source.epoch)
        assert {one.name: (one.epoch, one.rank) for one in last.sources} == {
            one.name: (begun[one.name] + 1, 0) for one in last.sources
        }


def test_steps_count_through_all_changes(root: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    plan = plan.changed(root, from_window=12, batch_size=6)
    plan = plan.changed(root, from_window=24, batch_size=2)
    firsts = [0, 4, 8, 12, 18, 24, 26, 28]
    assert [plan.window_of(step) for step in range(8)] == firsts
    assert [plan.step_of(window) for window in firsts] == list(range(8))
    assert plan.step_of(29) == 7


@pytest.mark.parametrize(
    "change", [{"sequence_length": 7}, {"corpus": True}, {"sequence_length": 14, "corpus": True}]
)
def test_another_length_or_corpus_begins_epochs_that_no_step_has_seen(
    root: Path, grown: Path, change: dict[str, object]
) -> None:
    plan = LoaderPlan.start(root, **SETTINGS, weights={"web": 1, "code": 1})  # type: ignore[arg-type]
    first = plan.segments[0]
    corpus = grown if change.pop("corpus", False) else root
    plan = plan.changed(corpus, from_window=40, **change)  # type: ignore[arg-type]
    # 20 windows of code, which has 8 an epoch: epoch 2 is under way, 4 of it stay unread.
    sources = {one.name: one for one in plan.segments[1].sources}
    count = {one.name: one.windows for one in first.sources}
    for name in ("web", "code"):
        epochs, rank = divmod(20, count[name])
        assert sources[name].epoch == epochs + (1 if rank else 0)
        assert sources[name].rank == 0
        assert sources[name].unread == (count[name] - rank if rank else 0)
    again = plan.changed(root, from_window=80, sequence_length=10)
    for one in again.segments[2].sources:
        before = sources.get(one.name)
        if before is not None and before.slots:
            assert one.epoch > before.epoch


def test_a_source_that_comes_back_goes_on_where_it_was(root: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS, weights={"web": 1, "code": 1})  # type: ignore[arg-type]
    plan = plan.changed(root, from_window=8, weights={"web": 1})
    plan = plan.changed(root, from_window=16, weights={"web": 1, "code": 1})
    windows = list(stream(TokenCorpus.open(root), plan, 40))
    assert [one.source for one in windows[8:16]] == ["web"] * 8
    found = Counter((one.source, one.epoch, one.number) for one in windows)
    assert max(found.values()) == 1
    code = [(one.epoch, one.number) for one in windows if one.source == "code"]
    assert len({number for epoch, number in code if epoch == 0}) == 8


def test_a_loader_of_the_new_corpus_begins_at_the_change(root: Path, grown: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    changed = plan.changed(grown, from_window=40, sequence_length=20)
    with Loader(root, plan=plan) as loader:
        for _ in range(10):
            next(loader)
        state = loader.state_dict()
    with Loader(grown, plan=changed, state=state) as loader:
        assert (loader.windows, loader.step) == (40, 10)
        assert next(loader).inputs.shape == (4, 20)
        with pytest.raises(RecipeError, match="reads the windows from 0 on from the corpus with"):
            loader.seek(0)
    # The old corpus serves what is before the change, and no more.
    with Loader(root, plan=changed) as loader:
        loader.seek(36)
        assert next(loader).inputs.shape == (4, 10)
        with pytest.raises(RecipeError, match="open that corpus"):
            next(loader)


def test_a_change_before_what_was_consumed_is_refused(root: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    with Loader(root, plan=plan) as loader:
        for _ in range(10):
            next(loader)
        state = loader.state_dict()
    early = plan.changed(root, from_window=36, weights={"web": 1})
    said = "it has a change from window 36 on, and the state has already consumed 40 windows"
    with pytest.raises(RecipeError, match=said):
        Loader(root, plan=early, state=state)
    late = plan.changed(root, from_window=40, weights={"web": 1})
    with Loader(root, plan=late, state=state) as loader:
        assert loader.windows == 40
        state = loader.state_dict()
    with pytest.raises(RecipeError, match="it lacks the state's change from window 40 on"):
        Loader(root, plan=plan, state=state)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"from_window": 0}, "window 0: the plan already changes at window 0"),
        ({"from_window": 6}, "window 6 is not the first of a step of 4 windows; 4 and 8 are"),
        ({"from_window": 8, "weights": {"wbe": 1}}, "the corpus has no source 'wbe'"),
        ({"from_window": 8, "sequence_length": 5000}, "fewer than a window of 5,000"),
    ],
)
def test_changes_that_are_refused(root: Path, change: dict[str, object], said: str) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match=re.escape(said)):
        plan.changed(root, **change)  # type: ignore[arg-type]


def test_a_plan_that_no_checkpoint_could_give_back_is_not_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    longer = plan.changed(root, from_window=8)
    for size, fits in ((len(seal(longer)), True), (len(seal(longer)) - 1, False)):
        monkeypatch.setattr("gristmill.loader.plan.LARGEST", size)
        if fits:
            assert LoaderPlan.decode(seal(plan.changed(root, from_window=8))) == longer
        else:
            with pytest.raises(RecipeError, match="a plan of 2 segments has more than"):
                plan.changed(root, from_window=8)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"tokenizer": b"another"}, "tokenizer is"),
        ({"vocabulary": 1001}, "vocabulary is 1001, that of the plan is 1000"),
        ({"vocabulary": 100_000}, "vocabulary is 100000"),
        ({"end_of_text": 7}, "end_of_text is 7, that of the plan is 0"),
    ],
)
def test_another_tokenizer_is_refused(
    root: Path, tmp_path: Path, form: dict[str, object], said: str
) -> None:
    other = token_corpus(tmp_path, {"web": numbered(1, 60, 30)}, **form)  # type: ignore[arg-type]
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match=said):
        plan.changed(other, from_window=8)


def test_a_plan_is_written_and_read_and_not_edited(root: Path, tmp_path: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS).changed(root, from_window=8, batch_size=2)  # type: ignore[arg-type]
    path = tmp_path / "plan.json"
    plan.save(path)
    assert LoaderPlan.load(path) == plan
    assert len(plan.digest) == 64
    text = path.read_text()
    for edited in (text.replace('"seed": 0', '"seed": 1'), text[:-9], "{}", "[]", ""):
        assert edited != text
        path.write_text(edited)
        with pytest.raises(VerificationError, match="no plan, or changed after it was written"):
            LoaderPlan.load(path)
    with pytest.raises(RecipeError, match=r"none.json: cannot be read: No such file"):
        Loader(root, plan=tmp_path / "none.json")


def test_a_plan_that_contradicts_itself_is_refused(root: Path) -> None:
    """A digest proves who wrote it, not what it says."""
    table = json.loads(seal(LoaderPlan.start(root, **SETTINGS)))  # type: ignore[arg-type]
    del table[PROOF]
    segment = table["segments"][0]
    for change in (
        {"from_window": 4},
        {"batch_size": 0},
        {"sources": []},
        {"sources": [{**segment["sources"][0], "rank": -1}]},
        {"extra": 1},
    ):
        data = seal({**table, "segments": [{**segment, **change}]})
        with pytest.raises(VerificationError, match="no plan, or changed"):
            LoaderPlan.decode(data)
    sources = [{**one, "windows": one["windows"] + 1} for one in segment["sources"]]
    plan = LoaderPlan.decode(seal({**table, "segments": [{**segment, "sources": sources}]}))
    with pytest.raises(VerificationError, match="it is not the plan of this corpus"):
        Loader(root, plan=plan)


def test_a_run_goes_on_with_a_later_version_of_a_tokenizer_that_grows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat on the mat and the hat\n" * 40)
    versions = []
    for number in (1, 2):
        out = tmp_path / f"{number}.json"
        before = versions[-1] if versions else None
        grow_tokenizer({"web": [tmp_path / "a.txt"]}, out, tokenizer=before, merges=5 * number)
        versions.append(out)
    sizes = (271, 281)
    corpora = [
        token_corpus(
            tmp_path / f"corpus{number}",
            {"web": numbered(1, 60, 30)},
            vocabulary=70_000 if number else 271,
            tokenizer=version.read_bytes(),
        )
        for number, version in enumerate(versions)
    ]
    assert [
        json.loads(version.read_bytes())["model"]["gristmill"]["vocab_size"] for version in versions
    ] == list(sizes)
    plan = LoaderPlan.start(corpora[0], **SETTINGS)  # type: ignore[arg-type]
    later = plan.changed(corpora[1], from_window=8)
    assert [one.dtype for one in later.segments] == ["uint16", "uint32"]
    loader = Loader(corpora[1], plan=later)
    assert (loader.windows, next(loader).tokens.dtype.itemsize) == (8, 4)
    # but not with an earlier one, nor with one that has not grown from it
    with pytest.raises(RecipeError, match="a run cannot change it"):
        LoaderPlan.start(corpora[1], **SETTINGS).changed(corpora[0], from_window=8)  # type: ignore[arg-type]
    other = token_corpus(tmp_path / "other", {"web": numbered(1, 60, 30)})
    with pytest.raises(RecipeError, match="tokenizer is .*, that of the plan is"):
        plan.changed(other, from_window=8)
