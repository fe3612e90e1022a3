"""Tasks between relations: however they are grouped, wherever and however often they run, the same
bytes; their errors as they are.
"""

import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import MachineError
from gristmill.dedup import disk_arrays, shard_tables
from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.near import candidates, signature_rows
from gristmill.dedup.near.comparison import KnownPairs
from gristmill.dedup.near.jaccard import Shingles
from gristmill.dedup.near.signature_rows import Signatures
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.engine.engine import Event, Job
from gristmill.engine.executor import AHEAD, Executor, in_turn, threads_with
from gristmill.engine.local import run_here
from gristmill.engine.relations import duckdb_with
from gristmill.engine.spark import in_order
from gristmill.kernels.hashing import pairs as kernels
from tests.support.duplicates import in_small_pieces, tables, templated


class Parts:
    """DuckDB that answers in many files, as Spark does."""

    def __init__(self, temporary: Path, folders: list[Path]) -> None:
        self._inner = duckdb_with(1, 300)(temporary, folders)

    def __enter__(self) -> "Parts":
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, relation: str, target: Path) -> list[Path]:
        (whole,) = self._inner.write(relation, target)
        table = pq.read_table(whole)
        whole.unlink()
        parts = [target.with_suffix(f".{start:06d}") for start in range(0, max(len(table), 1), 60)]
        for number, path in enumerate(parts):
            pq.write_table(table.slice(60 * number, 60), path, row_group_size=25)
        return parts


def twice_elsewhere(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Each task is sent, and runs again beside an answer that nobody waits for: a node that was
    given up for lost.
    """
    for task in tasks:
        sent = pickle.dumps((function, task))
        answers = []
        for _ in range(2):
            again, copy = pickle.loads(sent)
            answers.append(again(copy))
        yield answers[0]


def found(
    folder: Path, settings: Deduplicate, executor: Executor, opener: Any, **more: Any
) -> tuple[Any, ...]:
    folder.mkdir()
    pick = random.Random(6)
    texts = templated(150, pick)
    shards = [texts[:40], [], texts[40:41], texts[41:100], texts[100:]]
    laid = tables(folder, shards, settings, [1, 1, 1, 2, 1])
    deduplicated = deduplicate(
        laid,
        settings,
        folder / "work",
        opener=opener,
        on_progress=lambda _: None,
        executor=executor,
        dropped=np.array([3, 4]),
        **more,
    )
    left = sorted(path.name for path in (folder / "work").rglob("*"))
    if executor is not twice_elsewhere:  # what nobody waits for goes with the folder
        assert not [
            name
            for name in left
            if name.startswith(("keys-", "likely", "compared", "known", "pairs", "keeper_pairs"))
        ]
    return (
        deduplicated.drops,
        pq.read_table(deduplicated.pairs),
        [path.read_bytes() for path in deduplicated.entries],
    )


WAYS = [
    Deduplicate(near=Near(), index=True),
    Deduplicate(exact=False, near=Near(group="components"), order="longest"),
    Deduplicate(near=Near(verify="signatures")),
]


@pytest.mark.parametrize("settings", WAYS)
def test_groups_threads_and_second_runs_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Deduplicate, soak: int
) -> None:
    """The first two ways of grouping, all four under `make soak`."""
    in_small_pieces(monkeypatch, 2000)
    whole = found(tmp_path / "whole", settings, in_turn, duckdb_with(1, 300))
    assert len(whole[0]) > 20 < len(whole[1])
    assert len(whole[2]) == (4 * 2 if settings.index else 0)
    for group, held, run, executor in (
        (1, 1, 1, threads_with(3)),
        (60, 200, 100, twice_elsewhere),
        (60, 200, 1, threads_with(2)),
        (1 << 17, 1 << 20, 1 << 18, threads_with(1)),
    )[: 2 if soak == 1 else 4]:
        monkeypatch.setattr(shard_tables, "GROUP", group)
        monkeypatch.setattr(signature_rows, "HELD", held)
        monkeypatch.setattr(candidates, "RUN", run)
        drops, pairs, entries = found(tmp_path / f"{group}.{run}", settings, executor, Parts)
        assert drops.equals(whole[0])
        assert pairs.equals(whole[1])
        assert entries == whole[2]


def counting_tasks(ran: Counter[str]) -> Executor:
    """Run tasks here, and count them in `ran` by the names of their functions."""

    def counting(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            ran[function.__name__] += 1
            yield function(task)

    return counting


def test_there_are_as_many_tasks_as_groups_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what is told of groups above is told of several. An empty table goes with the next."""
    ran: Counter[str] = Counter()
    counting = counting_tasks(ran)
    monkeypatch.setattr(signature_rows, "KEYS", 2000)
    monkeypatch.setattr(candidates, "RUN", 100)
    for group, groups in ((1, 4), (41, 3), (1 << 17, 1)):
        monkeypatch.setattr(shard_tables, "GROUP", group)
        ran.clear()
        _, pairs, _ = found(tmp_path / f"{group}", WAYS[0], counting, Parts)
        assert ran["lay_out"] == ran["write_group"] == groups
        assert ran["write_pairs"] == 4
        assert ran["write_likely"] == ran["compare_pairs"] >= len(pairs) / 100 > 2


def test_only_pairs_that_nobody_knows_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    jaccard = kernels.jaccard

    def counting(*given: Any) -> np.ndarray:
        compared.append(len(given[2]))
        return jaccard(*given)

    monkeypatch.setattr(kernels, "jaccard", counting)
    monkeypatch.setattr(candidates, "RUN", 50)
    drops, pairs, _ = found(tmp_path / "all", WAYS[0], threads_with(2), Parts)
    assert sum(compared) == len(pairs)
    compared.clear()
    told = pairs.filter(pa.array(np.arange(len(pairs)) % 3 > 0))
    known = KnownPairs(*(told[name].to_numpy() for name in ("document", "candidate", "similarity")))
    again = found(tmp_path / "some", WAYS[0], threads_with(2), Parts, known=known)
    assert sum(compared) == len(pairs) - len(told)
    assert again[0].equals(drops)
    assert again[1].equals(pairs)


def test_signatures_are_read_from_several_files(tmp_path: Path) -> None:
    pick = np.random.default_rng(3)
    values = pick.integers(0, 1 << 32, (1000, 8), np.uint32)
    begins = [0, 1, 400, 990]
    files = [tmp_path / f"{number}" for number in range(4)]
    for path, start, stop in zip(files, begins, [*begins[1:], 1000], strict=True):
        disk_arrays.write_array(path, values[start:stop])
    places = pick.permutation(1000)
    disk_arrays.write_array(tmp_path / "places", places)
    for wanted in (
        np.arange(1000),
        np.sort(pick.choice(1000, 60, replace=False)),
        np.array([0, 999]),
        np.arange(0),
    ):
        out = np.empty((len(wanted), 8), np.uint32)
        Signatures(files, begins, None).read(wanted, out)
        assert np.array_equal(out, values[wanted])
        Signatures(files, begins, tmp_path / "places").read(wanted, out)
        assert np.array_equal(out, values[places[wanted]])


def test_shingles_are_read_from_several_files(tmp_path: Path) -> None:
    """Sets of none, one and many hashes; those side by side, in any order, and each twice."""
    pick = np.random.default_rng(4)
    hashes = pick.integers(0, 1 << 64, 3000, np.uint64)
    ends = np.sort(np.r_[np.zeros(3, int), pick.integers(0, 3001, 300), [700, 700, 3000, 3000]])
    sizes = np.diff(ends)
    begins, cuts = ends[:-1], sorted([0, 700, 700, int(ends[150])])
    files = [tmp_path / f"{number}" for number in range(len(cuts))]
    for path, start, stop in zip(files, cuts, [*cuts[1:], 3000], strict=True):
        disk_arrays.write_array(path, hashes[start:stop])
    shingles = Shingles(files, cuts, tmp_path, tmp_path, tmp_path)
    every = np.arange(len(sizes))
    for wanted in (
        every,
        every[::-1],
        pick.permutation(every),
        np.sort(pick.choice(every, 60, replace=False)),
        np.repeat(every, 2),
        every[:0],
    ):
        offsets = np.r_[0, np.cumsum(sizes[wanted])]
        right = [hashes[begins[one] : begins[one] + sizes[one]] for one in wanted]
        assert np.array_equal(
            shingles.read(begins[wanted], offsets), np.concatenate([hashes[:0], *right])
        )


def test_few_pairs_and_keys_are_divided_among_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Counter[str] = Counter()
    counting = counting_tasks(ran)
    settings = Deduplicate(near=Near())
    whole = found(tmp_path / "whole", settings, counting, duckdb_with(1, 300))
    assert ran["write_pairs"] == ran["write_likely"] == 1
    monkeypatch.setattr(signature_rows, "LEAST", 100)
    monkeypatch.setattr(candidates, "LEAST", len(whole[1]) // 6)
    ran.clear()
    divided = found(tmp_path / "divided", settings, counting, duckdb_with(1, 300))
    assert ran["write_pairs"] == 4
    assert 2 <= ran["write_likely"] <= 4
    assert divided[0].equals(whole[0])
    assert divided[1].equals(whole[1])


class Nodes:
    """Nodes that end their tasks in any order."""

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        for event in random.Random(3).sample(list(run_here(jobs)), len(jobs)):
            yield Event(event.job, progress=0)  # units are told before a result
            yield event


def half(number: int) -> int | None:
    if number == 1001:
        raise MachineError("no space left")
    return None if number % 2 else number // 2


def test_nodes_answers_come_in_order_and_their_errors_as_they_are() -> None:
    executor = partial(in_order, Nodes().run)
    assert list(executor(half, iter(range(30)))) == [half(number) for number in range(30)]
    assert list(executor(half, [])) == []
    with pytest.raises(MachineError, match="no space left"):
        list(executor(half, [1, 1001, 2]))


def test_threads_answer_in_order_draw_few_and_tell_errors_as_they_are() -> None:
    drawn: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            drawn.append(number)
            yield number

    turn = threading.Barrier(3, timeout=10)

    def meet(number: int) -> int:
        turn.wait()  # all three threads are at work together
        return -number

    answers = threads_with(3)(meet, tasks())
    assert next(answers) == 0
    assert len(drawn) <= 3 * AHEAD
    assert [next(answers) for _ in range(50)] == [-number for number in range(1, 51)]
    turn.abort()
    failure = MachineError("no space left")
    began: list[int] = []

    def fail(number: int) -> int:
        began.append(number)
        if number == 5:
            raise failure
        return number

    heard = []
    with pytest.raises(MachineError) as told:
        heard.extend(threads_with(2)(fail, range(1000)))
    assert told.value is failure
    assert heard == [0, 1, 2, 3, 4]
    assert len(began) < 20
