"""Windows that begin with a token of their own: all else as of windows one position shorter."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gristmill import TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader import masks
from gristmill.loader.ledger import Ledger
from gristmill.loader.loader import Loader
from gristmill.loader.packing_report import lines, packing_report
from gristmill.loader.plan import LoaderPlan
from gristmill.store import manifest as manifests
from tests.support.token_corpora import token_corpus

LENGTH, BEGIN = 24, 7
PACKING = {"kind": "concat", "begin": BEGIN}
SIZES = [40, 3, 1, 17, 60, 25, 24, 23, 9, 5, 80, 2, 2, 2, 31]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    tokens = itertools.count(1)
    documents = [[next(tokens) % 900 for _ in range(size)] for size in SIZES * 4]
    root = tmp_path_factory.mktemp("begin")
    return TokenCorpus.open(token_corpus(root, {"web": documents}, tokens_per_shard=200))


def loader(corpus: TokenCorpus, length: int = LENGTH, **more: Any) -> Loader:
    return Loader(corpus, sequence_length=length, batch_size=4, seed=3, **more)


def test_rows_are_the_token_and_the_window_that_is_one_shorter(corpus: TokenCorpus) -> None:
    pairs = zip(
        loader(corpus, packing=PACKING, steps=40), loader(corpus, LENGTH - 1, steps=40), strict=True
    )
    for batch, plain in pairs:
        assert batch.inputs.shape == batch.targets.shape == (4, LENGTH)
        assert (batch.tokens[:, 0] == BEGIN).all()
        assert (batch.tokens[:, 1:] == plain.tokens).all()
        assert (batch.windows == plain.windows).all()


def test_masks_count_the_token_to_the_first_document(corpus: TokenCorpus) -> None:
    pairs = zip(
        loader(corpus, packing=PACKING, steps=40), loader(corpus, LENGTH - 1, steps=40), strict=True
    )
    table = np.arange(1000, dtype=np.int64) % 9
    leads = np.arange(1000) % 3 == 0
    for batch, plain in pairs:
        ids, before = batch.document_ids(), plain.document_ids()
        assert (ids[:, 1:] == before).all()
        assert (ids[:, 0] == before[:, 0]).all()
        assert batch.cu_seqlens()[-1] == batch.inputs.size
        assert batch.document_starts().sum() == len(batch.segments.rows)
        mask = batch.loss_mask()
        assert (mask[:, 1:] == plain.loss_mask()).all()
        assert mask[:, 0].all()  # the window's first token is a label now
        places, real = batch.position_ids(restart=False), plain.position_ids(restart=False)
        assert (places[:, 1:] == real).all()
        assert (places[:, 0] == np.maximum(real[:, 0] - 1, 0)).all()
        first = batch.segments.starts == 0
        begins = batch.segments.begins[first]
        sizes = masks.bytes_of_labels(batch, table, leads=leads)
        wanted = table[batch.targets[:, 0]] - (begins & leads[batch.targets[:, 0]])
        assert (sizes[:, 0] == wanted).all()
        assert (sizes[:, 1:] == masks.bytes_of_labels(plain, table, leads=leads)).all()


def test_it_goes_on_where_it_was_and_in_other_ranks(corpus: TokenCorpus) -> None:
    whole = [batch.tokens for batch in loader(corpus, packing=PACKING, steps=30)]
    with loader(corpus, packing=PACKING) as first:
        head = [next(first).tokens for _ in range(11)]
        state = first.state_dict()
    tail = [batch.tokens for batch in loader(corpus, packing=PACKING, steps=30, state=state)]
    assert all((a == b).all() for a, b in zip([*head, *tail], whole, strict=True))
    ranks = [
        [batch.tokens for batch in loader(corpus, packing=PACKING, steps=30, rank=r, world_size=2)]
        for r in range(2)
    ]
    for step, rows in enumerate(whole):
        assert (np.concatenate([ranks[0][step], ranks[1][step]]) == rows).all()


def test_a_plan_keeps_it_and_a_ledger_knows_its_column(corpus: TokenCorpus, tmp_path: Path) -> None:
    plan = LoaderPlan.start(corpus, sequence_length=LENGTH, batch_size=4, packing=PACKING)
    plan.save(tmp_path / "plan.json")
    assert LoaderPlan.load(tmp_path / "plan.json") == plan
    assert plan.segments[0].packing == PACKING
    plain = LoaderPlan.start(corpus, sequence_length=LENGTH - 1, batch_size=4)
    assert "begin" not in plain.segments[0].packing
    columns = [
        [
            document["first_column"]
            for document in Ledger(corpus, one).step(3)["windows"][0]["documents"]
        ]
        for one in (plan, plain)
    ]
    assert columns[0] == [column + 1 for column in columns[1]]
    with pytest.raises(RecipeError):
        Loader(corpus, plan=plan, packing="concat")


def test_a_report_counts_what_the_token_costs(corpus: TokenCorpus) -> None:
    report = packing_report(corpus, LENGTH, PACKING)
    plain = packing_report(corpus, LENGTH - 1)
    assert {**report["all"]} == {**plain["all"]}
    assert "begin = 7" in lines(report)[0]


@pytest.mark.parametrize("begin", [-1, "x", 1.5, True, None])
def test_what_is_no_token_is_refused(corpus: TokenCorpus, begin: object) -> None:
    with pytest.raises(RecipeError, match="begin"):
        loader(corpus, packing={"kind": "concat", "begin": begin})


def test_what_cannot_begin_a_window_is_refused(corpus: TokenCorpus) -> None:
    with pytest.raises(RecipeError, match=r"vocabulary of [\d,]+ tokens"):
        loader(corpus, packing={"kind": "concat", "begin": 1 << 20})
    with pytest.raises(RecipeError, match="two positions or more"):
        loader(corpus, 1, packing=PACKING)
    for kind in ("best_fit", "aligned"):
        with pytest.raises(RecipeError, match="there is no parameter 'begin'"):
            loader(corpus, packing={"kind": kind, "begin": 1})


def test_a_window_gets_no_second_begin_of_text(tmp_path: Path) -> None:
    root = token_corpus(tmp_path / "corpus", {"web": [[5, 1, 2, 3, 0]] * 20})
    manifest = manifests.decode((root / manifests.MANIFEST).read_bytes())
    assert manifest.tokens is not None
    data = manifests.encode(replace(manifest, tokens=replace(manifest.tokens, begin_of_text=5)))
    (root / manifests.MANIFEST).write_bytes(data)
    (root / manifests.LOCK).write_bytes(manifests.make_lock(data))
    with pytest.raises(RecipeError, match="begin with token 5 themselves"):
        loader(TokenCorpus.open(root), packing=PACKING)


def test_a_state_of_other_windows_is_refused(corpus: TokenCorpus) -> None:
    with loader(corpus, packing=PACKING) as first:
        next(first)
        state = first.state_dict()
    with pytest.raises((RecipeError, VerificationError)):
        loader(corpus, state=state)


def test_the_torch_data_set_has_the_same_rows(corpus: TokenCorpus) -> None:
    pytest.importorskip("torch")
    from gristmill.loader.torch_dataset import TokenDataset

    data = TokenDataset(
        corpus, sequence_length=LENGTH, batch_size=4, seed=3, packing=PACKING, steps=5
    )
    for item, batch in zip(data, loader(corpus, packing=PACKING, steps=5), strict=True):
        assert (np.asarray(item["inputs"]) == batch.inputs).all()
