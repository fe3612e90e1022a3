"""Tokens sorted in runs and merged: token for token what one sort of all documents gives, whatever
the sizes of runs, buckets and tasks, and in whatever parts it is written; the same without runs.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.reading import file_pieces
from gristmill.tokens import ordered_documents, sorted_runs
from gristmill.tokens.ordered_documents import ordered
from gristmill.tokens.shards import ShardWriter, TokenizedShard, slice_blocks
from gristmill.tokens.sorted_runs import (
    RunWriter,
    SeededOrder,
    SortedRun,
    choose_order,
    merged,
    pieces,
    placed,
)

KEY = 0x1234_5678_9ABC_DEF0


class Document(NamedTuple):
    """A document of a test: its number, tokens, copies and stream."""

    number: int
    tokens: list[int]
    times: int
    stream: int


documents_of = st.lists(
    st.tuples(
        st.lists(st.integers(0, 60_000), min_size=1, max_size=9),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=40,
).map(lambda rows: [Document(3 * place + 1, *row) for place, row in enumerate(rows)])


def tokenized(folder: Path, documents: list[Document], dtype: np.dtype) -> TokenizedShard:
    """Documents as tokenizing leaves them, in a folder."""
    path = folder / "tokens"
    path.write_bytes(np.array([n for one in documents for n in one.tokens], dtype).tobytes())
    numbers, lengths = [one.number for one in documents], [len(one.tokens) for one in documents]
    return TokenizedShard(path, np.array(numbers, np.int64), np.array(lengths, np.int64))


def slow(documents: list[Document]) -> dict[int, list[tuple[int, list[int]]]]:
    """By stream, (number, tokens) of each copy in the order: one sort in plain Python."""
    rows = []
    for one in documents:
        _, places = placed(np.array([one.number]), np.array([one.times]), KEY)
        rows += [(int(place), one) for place in places]
    rows.sort(key=lambda row: (row[0], row[1].number))
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for _, one in rows:
        found.setdefault(one.stream, []).append((one.number, one.tokens))
    return found


def write(
    folder: Path, files: list[list[Document]], order: SeededOrder, dtype: np.dtype
) -> tuple[dict[int, list[SortedRun]], dict[int, np.ndarray], dict[int, int]]:
    """Runs of each file's documents, a block for two of them; runs, sizes, documents by stream."""
    runs: dict[int, list[SortedRun]] = {}
    sizes: dict[int, np.ndarray] = {}
    counts: dict[int, int] = {}
    for place, documents in enumerate(files):
        with RunWriter(folder / f"{place}", order, dtype) as writer:
            for start in range(0, len(documents), 2):
                block = documents[start : start + 2]
                tokens = np.array([token for one in block for token in one.tokens], dtype)
                lengths = np.array([len(one.tokens) for one in block])
                numbers, times, streams = (
                    np.array([one[field] for one in block], np.int64) for field in (0, 2, 3)
                )
                writer.add((tokens, numbers, lengths), times, streams)
        for stream, own in writer.runs.items():
            runs.setdefault(stream, []).extend(own)
            sizes[stream] = sizes.get(stream, 0) + writer.sizes[stream]
            counts[stream] = counts.get(stream, 0) + writer.documents[stream]
    return runs, sizes, counts


@settings(max_examples=25, deadline=None)
@given(
    documents=documents_of,
    files=st.integers(1, 3),
    bits=st.integers(0, 5),
    run_bytes=st.integers(1, 400),
    most=st.integers(1, 60),
    kind=st.sampled_from(["<u2", "<u4"]),
)
def test_merged_runs_are_one_sort(
    documents: list[Document], files: int, bits: int, run_bytes: int, most: int, kind: str
) -> None:
    dtype = np.dtype(kind)
    expected = slow(documents)
    with TemporaryDirectory() as name:
        cut = [documents[place::files] for place in range(files)]
        order = SeededOrder(KEY, bits, run_bytes)
        runs, sizes, counts = write(Path(name), cut, order, dtype)
        assert set(runs) == set(expected)
        for stream, rows in expected.items():
            assert counts[stream] == len(rows)
            assert sizes[stream].sum() == sum(len(tokens) for _, tokens in rows)
            ranges = sorted_runs._ranges(sizes[stream].tolist(), 0, most)
            found = list(merged(runs[stream], bits, dtype, ranges))
            assert [n for _, numbers, _ in found for n in numbers.tolist()] == [n for n, _ in rows]
            assert [n for _, _, own in found for n in own.tolist()] == [len(t) for _, t in rows]
            flat = [token for tokens, _, _ in found for token in tokens.tolist()]
            assert flat == [token for _, tokens in rows for token in tokens]


@settings(max_examples=20, deadline=None)
@given(
    documents=documents_of,
    bits=st.integers(0, 4),
    tokens_per_shard=st.integers(1, 90),
    piece=st.integers(1, 200),
)
def test_tasks_write_the_shards_that_one_writer_would(
    documents: list[Document], bits: int, tokens_per_shard: int, piece: int
) -> None:
    dtype = np.dtype("<u2")
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "PIECE_BYTES", piece)
        patch.setattr(sorted_runs, "MERGED_BYTES", piece)
        own = [one._replace(stream=0, times=1) for one in documents]
        runs, sizes, _ = write(Path(name), [own], SeededOrder(KEY, bits, 100), dtype)
        every = runs.get(0, [])
        found = []
        for one in pieces(sizes.get(0, np.zeros(1, np.int64)), tokens_per_shard, 2, whole=False):
            with ShardWriter(Path(name, "tasks"), "t/x", dtype, tokens_per_shard, one.first) as out:
                blocks = merged(every, bits, dtype, one.ranges)
                for block in slice_blocks(blocks, one.skip, one.tokens):
                    out.write(*block)
            found += out.parts
        _without_runs(Path(name), own, tokens_per_shard)
        rows = slow(own).get(0, [])
        with ShardWriter(Path(name, "alone"), "t/x", dtype, tokens_per_shard) as out:
            for number, tokens in rows:
                out.write(np.array(tokens, dtype), np.array([number]), np.array([len(tokens)]))
        assert found == out.parts
        flat = [token for _, tokens in rows for token in tokens]
        data = b"".join(Path(name, "tasks", part.path).read_bytes() for part in found[::2])
        assert hashlib.sha256(data).digest() == hashlib.sha256(np.array(flat, dtype)).digest()


def _without_runs(folder: Path, documents: list[Document], tokens_per_shard: int) -> None:
    """Pieces out of three files that documents are read from are parts of the same order."""
    dtype, shards = np.dtype("<u2"), []
    for place in range(3):
        (folder / str(place)).mkdir()
        shards.append(tokenized(folder / str(place), documents[place::3], dtype))
    rows = [(number, token) for number, tokens in slow(documents).get(0, []) for token in tokens]
    at = 0
    with ExitStack() as files:
        every = ordered(shards, KEY, files)
        for one in pieces(np.array([every.tokens]), tokens_per_shard, 2, whole=False):
            found = [
                (number, token)
                for tokens, numbers, lengths in every.blocks(one, dtype)
                for number, token in zip(
                    np.repeat(numbers, lengths).tolist(), tokens.tolist(), strict=True
                )
            ]
            assert found == rows[at : at + one.tokens]
            at += one.tokens
    assert at == len(rows)


@pytest.mark.parametrize("kind", ["<u2", "<u4"])
@pytest.mark.parametrize("room", [4, 64, 1 << 20])
def test_documents_are_read_in_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, room: int
) -> None:
    """In blocks of any size; one document may be larger than a block."""
    dtype = np.dtype(kind)
    monkeypatch.setattr(ordered_documents, "READ_BYTES", room)
    own = [Document(n, [n * 50 + k for k in range(n % 30 + 1)], 1, 0) for n in range(200)]
    with ExitStack() as files:
        every = ordered([tokenized(tmp_path, own, dtype)], KEY, files)
        whole = pieces(np.array([every.tokens]), 10, dtype.itemsize, whole=True)
        found = [
            (int(number), tokens[end - length : end].tolist())
            for tokens, numbers, lengths in every.blocks(whole[0], dtype)
            for number, length, end in zip(numbers, lengths, np.cumsum(lengths), strict=True)
        ]
    assert found == slow(own)[0]


def test_a_file_that_lost_its_end_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    own = [Document(number, [number] * 5, 1, 0) for number in range(20)]
    shard = tokenized(tmp_path, own, np.dtype("<u2"))
    shard.tokens.write_bytes(shard.tokens.read_bytes()[:-2])
    with ExitStack() as files:
        every = ordered([shard], KEY, files)
        (piece,) = pieces(np.array([100]), 1000, 2, whole=False)
        with pytest.raises(OSError, match="shorter than it was written"):
            list(every.blocks(piece, np.dtype("<u2")))


def test_reads_that_are_cut_short_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system stops within a block, the document is read by Python, then the rest."""
    real = file_pieces.read_pieces
    own = [Document(number, [number] * 5, 1, 0) for number in range(20)]

    def few(handles: np.ndarray, *pieces_and_out: np.ndarray) -> int:
        *columns, out = pieces_and_out
        return real(handles, *(column[:3] for column in columns), out)

    monkeypatch.setattr(file_pieces, "read_pieces", few)
    with ExitStack() as files:
        every = ordered([tokenized(tmp_path, own, np.dtype("<u2"))], KEY, files)
        (piece,) = pieces(np.array([100]), 1000, 2, whole=False)
        ((tokens, numbers, _),) = every.blocks(piece, np.dtype("<u2"))
    assert tokens.tolist() == [number for number in numbers.tolist() for _ in range(5)]


def test_sizes_of_runs_and_buckets() -> None:
    assert choose_order(1, 0).bits == 0
    small, large, huge = (choose_order(1, size) for size in (100 << 20, 20 << 30, 1 << 43))
    assert small.bits == 6
    assert small.run_bytes == sorted_runs.RUN_BYTES
    assert sorted_runs.RUN_BYTES < large.run_bytes < sorted_runs.MOST_RUN_BYTES
    assert (huge.bits, huge.run_bytes) == (sorted_runs.MOST_BITS, sorted_runs.MOST_RUN_BYTES)


def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    documents = [Document(number, [number] * 5, 1, 0) for number in range(20)]
    runs, _, _ = write(tmp_path, [documents], SeededOrder(KEY, 1, 1000), np.dtype("<u2"))
    path = Path(f"{runs[0][0].path}.tokens")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(OSError, match="shorter than it was written"):
        list(merged(runs[0], 1, np.dtype("<u2"), [(0, 2)]))
