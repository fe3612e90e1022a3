"""Masks, position by position from lists; and attention, in which no document sees another."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader import masks
from gristmill.loader.batch import Batch
from tests.support import strategies
from tests.support.batches import PACKINGS, batch_of, windows_of
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

LENGTH = 24


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_PACKING", str(tmp_path_factory.mktemp("packing")))


def corpus_of(root: Path, lengths: list[int]) -> TokenCorpus:
    """Documents that count up, with the end-of-text token inside them, too: it says nothing."""
    tokens = itertools.count(1)
    documents = [[0 if n % 3 else next(tokens) % 900 for n in range(size)] for size in lengths]
    return TokenCorpus.open(token_corpus(root, {"web": documents}, tokens_per_shard=50))


def cells(batch: Batch) -> list[list[tuple[int, int, bool]]]:
    """Of every position the number of its segment in the row (-1: padding), its column in it, and
    whether it is a segment's last.
    """
    rows, length = batch.inputs.shape
    found = [[(-1, 0, False)] * length for _ in range(rows)]
    numbers = [0] * rows
    for row, start, size in zip(*(field.tolist() for field in batch.segments[:3]), strict=True):
        for j in range(size):
            found[row][start + j] = (numbers[row], j, j == size - 1)
        numbers[row] += 1
    for row in range(rows):
        columns = [at for at in range(length) if found[row][at][0] < 0]
        assert columns == list(range(length - int(batch.padding[row]), length))
        for j, at in enumerate(columns):
            found[row][at] = (-1, j, False)
    return found


@strategies.fuzz(60)
@given(
    st.lists(st.integers(1, 40), min_size=3, max_size=25), st.sampled_from(PACKINGS), st.randoms()
)
def test_every_mask_is_what_its_segments_say(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], packing: str, random: object
) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), [*lengths, LENGTH])
    windows = windows_of(corpus, packing, LENGTH)
    batch = batch_of(corpus, windows, list(range(windows.count)), LENGTH)
    found = cells(batch)
    flat = [cell for row in found for cell in row]
    starts = [at for at, (_, column, _) in enumerate(flat) if column == 0]
    assert masks.cu_seqlens(batch).tolist() == [*starts, len(flat)]
    sizes = np.diff([*starts, len(flat)])
    assert masks.max_seqlen(batch) == max(sizes)
    size = len(starts) + 4
    assert masks.cu_seqlens(batch, size).tolist() == [*starts, *[len(flat)] * 4]
    with pytest.raises(RecipeError, match=f"use a size of {len(starts) + 1:,} or more"):
        masks.cu_seqlens(batch, len(starts))
    assert masks.document_ids(batch).tolist() == [[cell[0] for cell in row] for row in found]
    assert masks.position_ids(batch).tolist() == [[cell[1] for cell in row] for row in found]
    expected = [[cell[1] == 0 for cell in row] for row in found]
    assert masks.document_starts(batch).tolist() == expected
    dense = masks.dense_mask(batch)
    for row, i, j in itertools.product(range(len(found)), range(LENGTH), range(LENGTH)):
        same = found[row][i][0] == found[row][j][0]
        assert dense[row, i, j] == (same and j <= i)
    # Counted on from the document's beginning: by the position in the stream.
    ends = np.cumsum([*lengths, LENGTH])
    expected = [[cell[1] for cell in row] for row in found]
    every = np.arange(windows.count)
    for row, column, position, size in np.stack(windows.runs(0, every), axis=1).tolist():
        for at in range(position, position + size):
            document = int(np.searchsorted(ends, at, "right"))
            begin = ends[document] - [*lengths, LENGTH][document]
            expected[row][column + at - position] = at - begin
    assert masks.position_ids(batch, restart=False).tolist() == expected


@strategies.fuzz(60)
@given(st.lists(st.integers(1, 40), min_size=3, max_size=25), st.sampled_from(PACKINGS))
def test_labels_are_tokens_of_the_same_document(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], packing: str
) -> None:
    """Against the stream: a label counts where the token behind it in the corpus is the target and
    of the same document.
    """
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), [*lengths, LENGTH])
    stream = corpus.stream("web")
    owner = np.repeat(np.arange(len(lengths) + 1), [*lengths, LENGTH])
    tokens = stream.read(0, stream.tokens)
    windows = windows_of(corpus, packing, LENGTH)
    every = np.arange(windows.count)
    batch = batch_of(corpus, windows, every.tolist(), LENGTH)
    masked = masks.loss_mask(batch)
    unmasked = masks.loss_mask(batch, mask_boundaries=False)
    expected = np.zeros_like(masked)
    for row, column, position, size in np.stack(windows.runs(0, every), axis=1).tolist():
        for j in range(size):
            behind = position + j + 1
            # What follows in the row is what follows in the corpus, within a run or at its end.
            follows = j < size - 1 or column + j == LENGTH - 1
            expected[row, column + j] = (
                follows and behind < len(owner) and owner[behind] == owner[position + j]
            )
            if expected[row, column + j]:
                assert batch.targets[row, column + j] == tokens[behind]
    assert (masked == expected).all()
    padded = np.arange(LENGTH) >= LENGTH - batch.padding[:, None] - (batch.padding[:, None] > 0)
    assert (unmasked == ~padded).all()
    labels = masks.labels(batch)
    assert labels.dtype == np.int64
    assert (labels[masked] == batch.targets[masked]).all()
    assert (labels[~masked] == -100).all()
    table = np.arange(1000, dtype=np.uint16) % 7
    found = masks.bytes_of_labels(batch, table)
    assert found.sum() == sum(int(table[label]) for label in labels[masked])


# -- attention: what changes in document A is not seen in document B


def real_batch(root: Path, packing: str) -> tuple[Batch, np.ndarray]:
    """A batch, and the cells whose tokens are changed: those of one document in each row that has
    another one.
    """
    rng = np.random.default_rng(7)
    lengths = [*rng.integers(2, 30, 60).tolist(), 3 * LENGTH]
    corpus = corpus_of(root, lengths)
    windows = windows_of(corpus, packing, LENGTH)
    batch = batch_of(corpus, windows, list(range(windows.count)), LENGTH)
    changed = masks.document_ids(batch) == 0
    assert 100 < changed.sum() < changed.size - 100
    return batch, changed


def embedded(batch: Batch, changed: np.ndarray, *, change: bool) -> np.ndarray:
    """(3, b, 1, L, 16) float32: queries, keys and values of the inputs."""
    table = np.random.default_rng(8).normal(size=(3, 1000, 16)).astype(np.float32)
    inputs = np.where(changed & change, (batch.inputs.astype(int) + 17) % 1000, batch.inputs)
    return table[:, inputs][:, :, None]


def check_isolated(batch: Batch, changed: np.ndarray, attend: object) -> None:
    """B's outputs are bit-equal when A changes; without the mask they are not."""
    before = attend(embedded(batch, changed, change=False), masked=True)  # type: ignore[operator]
    after = attend(embedded(batch, changed, change=True), masked=True)  # type: ignore[operator]
    others = ~changed
    assert (before[others] == after[others]).all()
    assert (before[changed] != after[changed]).any()
    leaky = [
        attend(embedded(batch, changed, change=change), masked=False)  # type: ignore[operator]
        for change in (False, True)
    ]
    assert (leaky[0][others] != leaky[1][others]).any()


@pytest.mark.parametrize("packing", PACKINGS)
def test_attention_in_numpy(tmp_path: Path, packing: str) -> None:
    batch, changed = real_batch(tmp_path, packing)

    def attend(qkv: np.ndarray, *, masked: bool) -> np.ndarray:
        q, k, v = qkv
        mask = masks.dense_mask(batch)[:, None] if masked else np.tri(LENGTH, dtype=bool)
        scores = np.where(mask, q @ k.swapaxes(-1, -2) / 4, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return ((weights / weights.sum(-1, keepdims=True)) @ v)[:, 0]

    check_isolated(batch, changed, attend)


@pytest.mark.parametrize("packing", PACKINGS)
def test_attention_of_each_segment_alone_by_cu_seqlens(tmp_path: Path, packing: str) -> None:
    """What FlashAttention's varlen functions compute: a causal attention for each segment."""
    batch, changed = real_batch(tmp_path, packing)
    bounds = masks.cu_seqlens(batch).tolist()

    def attend(qkv: np.ndarray, *, masked: bool) -> np.ndarray:
        flat = qkv.reshape(3, -1, 16)
        out = np.empty_like(flat[0])
        edges = bounds if masked else [0, flat.shape[1]]
        for start, stop in itertools.pairwise(edges):
            q, k, v = flat[:, start:stop]
            scores = np.where(np.tri(stop - start, dtype=bool), q @ k.T / 4, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[start:stop] = (weights / weights.sum(-1, keepdims=True)) @ v
        return out.reshape(*batch.inputs.shape, 16)

    check_isolated(batch, changed, attend)


@pytest.mark.parametrize("packing", PACKINGS)
def test_attention_of_torch(tmp_path: Path, packing: str) -> None:
    """scaled_dot_product_attention with the dense mask."""
    try:
        import torch
    except ImportError:
        missing("torch", "torch is not installed")
    batch, changed = real_batch(tmp_path, packing)

    def attend(qkv: np.ndarray, *, masked: bool) -> np.ndarray:
        q, k, v = (torch.from_numpy(part.copy()) for part in qkv)
        mask = torch.from_numpy(masks.dense_mask(batch)[:, None]) if masked else None
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=not masked
        )
        return out[:, 0].numpy()

    check_isolated(batch, changed, attend)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("packing", PACKINGS)
def test_flex_attention_of_torch(tmp_path: Path, packing: str) -> None:
    """FlexAttention, not compiled, with a mask_mod of document ids."""
    try:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError:
        missing("torch", "torch is not installed, or has no FlexAttention")
    batch, changed = real_batch(tmp_path, packing)
    ids = torch.from_numpy(masks.document_ids(batch))

    def attend(qkv: np.ndarray, *, masked: bool) -> np.ndarray:
        def mask_mod(b: object, h: object, q: object, k: object) -> object:
            causal = q >= k  # type: ignore[operator]
            return causal & (ids[b, q] == ids[b, k]) if masked else causal

        block = create_block_mask(mask_mod, ids.shape[0], None, LENGTH, LENGTH, device="cpu")
        q, k, v = (torch.from_numpy(part.copy()) for part in qkv)
        return flex_attention(q, k, v, block_mask=block)[:, 0].numpy()

    check_isolated(batch, changed, attend)
