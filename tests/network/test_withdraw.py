"""Withdrawal of documents: what the corpus has of them afterwards, and what the loss sees."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import Loader, TokenCorpus, TokenDocuments, export, stats, verify, why
from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases.publish import withdrawn_documents
from gristmill.network.withdrawal.withdraw import withdraw
from gristmill.store.manifest import decode
from tests.support.corpora import article, jsonl
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

PHRASE = "Wittgenstein's zither"
END = 0


def page(name: str, number: int) -> dict[str, Any]:
    return {"text": article(f"{name} {number}", 12), "url": f"https://{name}.example/{number}"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus in which documents 0:2, 0:5 and 1:3 have one text; 1:1 was dropped by a filter."""
    folder = tmp_path_factory.mktemp("withdraw")
    web = [page("web", number) for number in range(12)]
    web[2]["text"] = f"{PHRASE} {web[2]['text']}"
    web[5]["text"] = web[2]["text"]
    other = [page("other", number) for number in range(6)]
    other[1]["text"] = f"{PHRASE} too short"
    other[3]["text"] = web[2]["text"]
    (folder / "a.jsonl").write_bytes(jsonl(web))
    (folder / "b.jsonl").write_bytes(jsonl(other))
    gristmill.train_tokenizer([folder / "a.jsonl"], folder / "tokenizer.json", vocabulary=300)
    (folder / "recipe.toml").write_text(
        '[[source]]\nname = "web"\nfiles = ["a.jsonl", "b.jsonl"]\n'
        '[[step]]\nuse = "simple"\nmin_words = 20\n[deduplicate]\n'
        '[tokens]\ntokenizer = "tokenizer.json"\ntokens_per_shard = 300\nvalidation = 0.1\n'
    )
    gristmill.run(folder / "recipe.toml", out=folder / "corpus", workers=1)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def spans(corpus: Path) -> dict[int, np.ndarray]:
    """The tokens of each document, by its number in `.docs`."""
    found: dict[int, list[np.ndarray]] = {}
    for path in sorted(corpus.glob("tokens/web/*.docs")):
        table = np.fromfile(path, "<i8")
        tokens = np.fromfile(path.with_suffix(".bin"), "<u2")
        start = 0
        for number, end in zip(*np.split(table, 2), strict=True):
            found.setdefault(int(number), []).append(tokens[start:end])
            start = end
    return {number: np.concatenate(pieces) for number, pieces in found.items()}


def holds(corpus: Path, text: str) -> list[str]:
    """The files below a folder that hold a text, Parquet unpacked."""
    found = []
    for path in corpus.rglob("*"):
        if path.suffix == ".parquet":
            data = str(pq.read_table(path).to_pylist()).encode()
        else:
            data = path.read_bytes() if path.is_file() else b""
        if text.encode() in data or text.replace("'", "\\'").encode() in data:
            found.append(path.relative_to(corpus).as_posix())
    return found


def test_a_document_and_its_copies_are_taken_out(folder: Path) -> None:
    corpus = folder / "corpus"
    before, sizes = spans(corpus), {p.name: p.stat().st_size for p in corpus.rglob("*.bin")}
    assert {"documents/00000.parquet", "samples/00001.parquet"} <= set(holds(corpus, PHRASE))
    result = withdraw(corpus, ["https://web.example/5", "1:1"])
    assert result["documents"] == result["withdrawn"] == 4  # with the copies 0:2 and 1:3
    assert result["raw_shards"] == ["a.jsonl", "b.jsonl"]
    assert holds(corpus, PHRASE) == []
    after = spans(corpus)
    assert {p.name: p.stat().st_size for p in corpus.rglob("*.bin")} == sizes
    gone = 2
    assert after.keys() == before.keys() - {gone} | {-1 - gone}
    assert (after[-1 - gone] == TokenCorpus.open(corpus).format.end_of_text).all()
    assert len(after[-1 - gone]) == len(before[gone]) == result["tokens"]
    assert all((after[number] == before[number]).all() for number in before.keys() - {gone})
    verify(corpus)
    assert hashlib.sha256((corpus / "manifest.json").read_bytes()).hexdigest() == result["manifest"]
    for document in ("0:2", "0:5", "1:1", "1:3"):
        assert why(corpus, document)[0]["reason"] == "withdrawn.listed"
    manifest = decode((corpus / "manifest.json").read_bytes())
    assert manifest.funnel["steps"][1] == {
        "step": "withdrawn",
        "dropped": 4,
        "left": 14,
        "reasons": {"withdrawn.listed": 4},
    }
    assert manifest.funnel["kept"] == sum(shard.unique_documents for shard in manifest.raw_shards)
    assert len(withdrawn_documents(corpus, manifest)) == 4
    again = withdraw(corpus, ["0:5"])
    assert (again["documents"], again["manifest"]) == (0, result["manifest"])
    more = withdraw(corpus, ["0:0"])
    assert (more["documents"], more["withdrawn"]) == (1, 5)
    verify(corpus)
    assert stats(corpus)


def test_a_rebuild_drops_them_again(folder: Path) -> None:
    corpus, recipe = folder / "corpus", folder / "recipe.toml"
    withdraw(corpus, ["0:2"])
    with pytest.raises(RecipeError, match="3 documents were withdrawn from it and the recipe"):
        gristmill.run(recipe, out=corpus, workers=1)
    step = f'[[step]]\nuse = "withdrawn"\nlist = "{corpus / "withdrawn.txt"}"\n'
    text = recipe.read_text().replace('[[step]]\nuse = "simple"', f'{step}[[step]]\nuse = "simple"')
    recipe.write_text(text.replace("validation = 0.1", "validation = 0.2"))  # all is made anew
    gristmill.run(recipe, out=corpus, workers=1)
    verify(corpus)
    assert not {2, 5, -3} & spans(corpus).keys()
    assert [why(corpus, one)[0]["reason"] for one in ("0:2", "0:5", "1:3")] == [
        "withdrawn.listed"
    ] * 3
    # 1:1 was dropped by a filter and is not withdrawn.
    assert holds(corpus, PHRASE) == ["samples/00001.parquet"]
    assert len((corpus / "withdrawn.txt").read_text().splitlines()) == 4  # with the comment
    # Another plan of raw shards: the list's URLs say so.
    (folder / "a.jsonl").rename(folder / "c.jsonl")
    recipe.write_text(text.replace('"a.jsonl", "b.jsonl"', '"b.jsonl", "c.jsonl"'))
    with pytest.raises(Exception, match="another plan of raw shards"):
        gristmill.run(recipe, out=folder / "new", workers=1)


def test_tables_have_the_bytes_that_a_run_with_the_list_writes(tmp_path: Path) -> None:
    """Documents, measures, signatures, pairs, index and all other tables: nothing that was made
    from a withdrawn document is left. But for the list of frequent lines, which still counts it.
    """
    rows = [page("web", number) for number in range(12)]
    rows[5]["text"] = f"{rows[2]['text']} a few more words"
    rows[7]["text"] = rows[2]["text"]
    for number in (2, *range(8, 12)):
        rows[number]["text"] += f"\n{'SIGN UP ' if number == 2 else 'Sign up '}for our letters now"
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows[:6]))
    (tmp_path / "b.jsonl").write_bytes(jsonl([*rows[6:], {"no": "text"}]))
    recipe = (
        '[[source]]\nname = "web"\nfiles = ["*.jsonl"]\n[[step]]\nuse = "simple"\nmin_words = 5\n'
        "[deduplicate]\nindex = true\nnear = {}\n[deduplicate.lines]\nmost = 2\n"
        '[[step]]\nuse = "private"\nafter_dedup = true\n'
    )
    (tmp_path / "recipe.toml").write_text(recipe)
    corpus, again = tmp_path / "corpus", tmp_path / "again"
    gristmill.run(tmp_path / "recipe.toml", out=corpus, workers=1)
    lines = pq.read_table(corpus / "duplicates/lines.parquet").to_pylist()
    assert [row["text"][:7] for row in lines] == ["SIGN UP"]
    result = withdraw(corpus, ["0:2"])
    assert result["documents"] == 3
    step = f'[[step]]\nuse = "withdrawn"\nlist = "{corpus / "withdrawn.txt"}"\n'
    (tmp_path / "recipe.toml").write_text(recipe.replace("[[step]]", f"{step}[[step]]", 1))
    gristmill.run(tmp_path / "recipe.toml", out=again, workers=1)
    paths = {
        path.relative_to(again).as_posix()
        for path in again.rglob("*.*")
        if path.suffix in (".parquet", ".keys", ".documents") and "work" not in path.parts
    }
    assert {"measures/00001.parquet", "signatures/00000.parquet", "index/0000.keys"} <= paths
    different = {
        name for name in paths if (corpus / name).read_bytes() != (again / name).read_bytes()
    }
    assert different == {"duplicates/lines.parquet"}
    lines = pq.read_table(corpus / "duplicates/lines.parquet").to_pylist()
    assert [row["text"] for row in lines] == [""]
    funnels = [decode((one / "manifest.json").read_bytes()).funnel for one in (corpus, again)]
    for funnel in funnels:
        del funnel["lines"]
    assert funnels[0] == funnels[1]
    verify(corpus)
    result = withdraw(corpus, ["1:0"])  # the column of the measures is there
    assert result["withdrawn"] == 4
    verify(corpus)


def test_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    corpus = folder / "corpus"
    before = (corpus / "manifest.json").read_bytes()
    for wrong in ("0:99", "https://nobody.example/", "77"):
        with pytest.raises(RecipeError, match="no document"):
            withdraw(corpus, ["0:2", wrong])
    assert (corpus / "manifest.json").read_bytes() == before
    assert not (corpus / "withdrawn.txt").exists()


def test_damage_is_not_given_a_new_digest(folder: Path) -> None:
    """A part that is written anew was as the manifest says; nothing changes where it was not."""
    corpus = folder / "corpus"
    before = (corpus / "manifest.json").read_bytes()
    docs = next(one for one in corpus.glob("tokens/web/*.docs") if 2 in np.fromfile(one, "<i8"))
    for path in (docs.with_suffix(".bin"), corpus / "documents/00000.parquet"):
        data = path.read_bytes()
        at = len(data) // 2 if path == docs.with_suffix(".bin") else data.index(b"parquet-cpp")
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(VerificationError, match=path.name):
            withdraw(corpus, ["0:2"])
        path.write_bytes(data)
    table = np.fromfile(docs, "<i8")
    for end in (-1, 0, 1 << 40):
        forged = table.copy()
        forged[len(table) // 2] = end
        forged.tofile(docs)
        with pytest.raises(VerificationError, match=f"{docs.name}.*ends of documents"):
            withdraw(corpus, ["0:2"])
    table.tofile(docs)
    assert (corpus / "manifest.json").read_bytes() == before
    withdraw(corpus, ["0:2"])
    verify(corpus)


def test_exports_leave_them_out(folder: Path, tmp_path: Path) -> None:
    corpus = folder / "corpus"
    kept = TokenCorpus.open(corpus).stream("web")
    before = kept.read(0, kept.tokens).tolist()
    gone = spans(corpus)[2].tolist()
    withdraw(corpus, ["0:2"])
    export(corpus, tmp_path / "out", to="nanogpt", split="train")
    train = np.fromfile(tmp_path / "out/train.bin", "<u2").tolist()
    at = next(n for n in range(len(before)) if before[n : n + len(gone)] == gone)
    assert train == before[:at] + before[at + len(gone) :]
    documents = TokenDocuments(corpus, sources=["web"])
    assert np.concatenate(list(documents)).tolist() == train
    assert len(pickle.loads(pickle.dumps(documents))) == len(documents)
    export(corpus, tmp_path / "text", to="jsonl")
    rows = (tmp_path / "text/web/00000.jsonl").read_text().splitlines()
    assert "https://web.example/2" not in {json.loads(row)["url"] for row in rows}


def test_they_reach_neither_loss_nor_gradient(tmp_path: Path) -> None:
    """Whatever tokens stand in the place of a withdrawn document: the loss, and the gradient of
    every parameter, are the same; and no other label is lost.
    """
    try:
        import torch
    except ImportError:
        missing("torch", "torch is not installed")
    rows = [[5, 6, 7, 8, END], [9, 10, 11, END], [12, 13, END], [14, 15, 16, 17, 18, 19, END]] * 3
    losses, gradients, labels = [], [], []
    for filling in (END, 3):
        root = token_corpus(tmp_path / str(filling), {"web": rows}, vocabulary=20)
        table = np.fromfile(root / "tokens/web/train_00000.docs", "<i8")
        tokens = np.fromfile(root / "tokens/web/train_00000.bin", "<u2")
        for place in (1, 6):
            start, stop = table[len(rows) + place - 1], table[len(rows) + place]
            tokens[start:stop] = filling
            table[place] = ~table[place]
        tokens.tofile(root / "tokens/web/train_00000.bin")
        table.tofile(root / "tokens/web/train_00000.docs")
        with Loader(root, sequence_length=8, batch_size=4, prefetch=0) as loader:
            batch = next(loader)
        labels.append(batch.labels())
        torch.manual_seed(1)
        embedding = torch.nn.Embedding(20, 16)
        out = torch.nn.Linear(16, 20)
        hidden = embedding(torch.from_numpy(batch.inputs.astype(np.int64)))
        mask = torch.from_numpy(batch.dense_mask())
        attended = torch.nn.functional.scaled_dot_product_attention(
            hidden, hidden, hidden, attn_mask=mask
        )
        loss = torch.nn.functional.cross_entropy(
            out(attended).flatten(0, 1), torch.from_numpy(batch.labels()).flatten()
        )
        loss.backward()
        losses.append(loss.item())
        gradients.append([embedding.weight.grad.clone(), out.weight.grad.clone()])
        hit = batch.segments.documents < 0
        assert hit.any()
        for row, start, length in zip(
            batch.segments.rows[hit],
            batch.segments.starts[hit],
            batch.segments.lengths[hit],
            strict=True,
        ):
            assert (batch.labels(mask_boundaries=False)[row, start : start + length] == -100).all()
            assert start == 0 or batch.labels(mask_boundaries=False)[row, start - 1] == -100
    assert losses[0] == losses[1]
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
    assert (labels[0] == labels[1]).all()
    whole = token_corpus(tmp_path / "whole", {"web": rows}, vocabulary=20)
    with Loader(whole, sequence_length=8, batch_size=4, prefetch=0) as loader:
        full = next(loader)
    # The same labels but for those of the two documents.
    lost = (full.labels() != -100) & (labels[0] == -100)
    place = np.zeros(lost.shape, np.bool_)
    for row, start, length, number in zip(
        full.segments.rows,
        full.segments.starts,
        full.segments.lengths,
        full.segments.documents,
        strict=True,
    ):
        if number in (1, 6):
            place[row, start : start + length] = True
    assert not (lost & ~place).any()
    assert (labels[0][~place] == full.labels()[~place]).all()
