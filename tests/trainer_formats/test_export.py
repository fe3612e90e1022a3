"""Exports of tokens beside plain readers of each format: equal tokens, equal boundaries."""

import hashlib
import json
import pickle
import random
import shutil
import subprocess
from itertools import accumulate
from pathlib import Path
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import Damaged, MachineError, RecipeError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.system.ownership import MARKER
from gristmill.tokens import tokenizer as tokenizers
from gristmill.trainer_formats import FORMATS, nanogpt
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.export_folder import (
    ExportDescription,
    ExportFolder,
    read_description,
)
from gristmill.trainer_formats.mixing import mixed
from gristmill.trainer_formats.token_blocks import TokenBlock, read_blocks, whole, with_side
from gristmill.trainer_formats.token_format import TrainerFormat, pieces
from tests.support import ROOT, spelling_families
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import READERS, divided, word_tokenizer

END = 0


def documents(count: int, seed: str, vocabulary: int = 1000) -> list[list[int]]:
    """Documents of random tokens with their end of text; some are an end of text alone."""
    pick = random.Random(seed)
    return [
        [pick.randrange(1, vocabulary) for _ in range(pick.choice((0, 1, 5, 30, 200)))] + [END]
        for _ in range(count)
    ]


def made(root: Path, vocabulary: int = 1000, **options: object) -> Path:
    """A corpus of two sources."""
    return token_corpus(
        root,
        {"web": documents(60, "web", vocabulary), "books": documents(20, "books", vocabulary)},
        {"web": documents(7, "val", vocabulary)},
        vocabulary=vocabulary,
        tokenizer=word_tokenizer(vocabulary),
        tokens_per_shard=500,
        **options,
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("corpus") / "corpus")


def expected(vocabulary: int = 1000) -> dict[tuple[str, str], list[list[int]]]:
    """The documents by split and source, in the order of the corpus."""
    return {
        ("train", "web"): documents(60, "web", vocabulary),
        ("train", "books"): documents(20, "books", vocabulary),
        ("val", "web"): documents(7, "val", vocabulary),
    }


def turned(rows: list[list[int]], side: str) -> list[list[int]]:
    return [[END, *row[:-1]] for row in rows] if side == "before" else rows


@pytest.mark.parametrize("to", READERS)
def test_a_source_is_as_it_was_with_its_boundaries(to: str, corpus: Path, tmp_path: Path) -> None:
    result = export(corpus, tmp_path / "out", to=to, sources=["web"])
    found = READERS[to](tmp_path / "out", END)
    for (split, _), rows in found.items():
        side = "before" if to == "llmc" else "after"
        assert rows == turned(expected()[split, "web"], side), split
    assert sorted(split for split, _ in found) == ["train", "val"]
    assert result["documents"] == 67
    assert result["tokens"] == sum(len(row) for rows in found.values() for row in rows)


@pytest.mark.parametrize("to", READERS)
def test_several_sources_are_apart_or_mixed_whole(to: str, corpus: Path, tmp_path: Path) -> None:
    export(corpus, tmp_path / "out", to=to)
    found = READERS[to](tmp_path / "out", END)
    every = expected()[("train", "web")] + expected()[("train", "books")]
    names = {name for split, name in found if split == "train"}
    if names == {""}:
        side = "before" if to == "llmc" else "after"
        assert sorted(found["train", ""]) == sorted(turned(every, side))
    else:
        assert {key: rows for key, rows in found.items() if key[0] == "train"} == {
            key: rows for key, rows in expected().items() if key[0] == "train"
        }


@pytest.mark.parametrize(
    ("to", "size"),
    [("llmc", 100), ("olmo", 300), ("datatrove", 300), ("hf-parquet", 300), ("llmc", 9)],
)
def test_many_files_hold_what_one_holds(to: str, size: int, corpus: Path, tmp_path: Path) -> None:
    export(corpus, tmp_path / "one", to=to, sources=["web"], split="train")
    export(corpus, tmp_path / "n", to=to, sources=["web"], split="train", tokens_per_file=size)
    one, many = (READERS[to](tmp_path / name, END) for name in ("one", "n"))
    assert one == many
    suffix = {"llmc": "*.bin", "olmo": "**/*.npy", "datatrove": "**/*.ds"}.get(to, "**/*.parquet")
    assert len(list((tmp_path / "n").glob(suffix))) > 3


def test_what_was_written_is_listed_and_described(corpus: Path, tmp_path: Path) -> None:
    for to in ("nanogpt", "megatron", "jsonl"):
        if to == "jsonl":
            continue
        out = tmp_path / to
        result = export(corpus, out, to=to)
        files = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
        listed = dict(
            reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines()
        )
        assert sorted([*listed, MARKER, "SHA256SUMS"]) == files
        for name, digest in listed.items():
            assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
        said = json.loads((out / "gristmill.json").read_text())
        manifest = (corpus / "manifest.json").read_bytes()
        assert said["corpus"] == hashlib.sha256(manifest).hexdigest()
        assert said["tokens"]["format"]["tokenizer"] == listed["tokenizer.json"]
        assert (said["tokens"]["dtype"], said["tokens"]["format"]["end_of_text_side"]) == (
            "uint16",
            "after",
        )
        assert [stream["tokens"] for stream in said["streams"]] == [
            stream["tokens"] for stream in result["streams"]
        ]
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=out, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("to", READERS)
def test_equal_corpora_give_equal_bytes_and_a_second_call_the_same(
    to: str, corpus: Path, tmp_path: Path
) -> None:
    for name in ("a", "b", "a"):
        export(corpus, tmp_path / name, to=to)
    sums = [(tmp_path / name / "SHA256SUMS").read_bytes() for name in ("a", "b")]
    assert sums[0] == sums[1]


def test_an_interrupted_export_is_begun_again_and_other_files_are_refused(
    corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(corpus, out, to="nanogpt")
    whole_export = (out / "SHA256SUMS").read_bytes()
    (out / "SHA256SUMS").unlink()
    description = json.loads((out / "gristmill.json").read_text())
    (out / "val.bin.0badcafe.writing").write_bytes(b"half")
    with pytest.raises(RecipeError, match="no export of the same corpus with the same options"):
        export(corpus, out, to="nanogpt", split="train")
    with pytest.raises(RecipeError, match="no export of the same corpus"):
        export(corpus, out, to="megatron")
    export(corpus, out, to="nanogpt")
    assert (out / "SHA256SUMS").read_bytes() == whole_export
    assert json.loads((out / "gristmill.json").read_text()) == description
    assert not list(out.glob("*writing")) + list(out.glob("*unfinished*"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    with pytest.raises(MachineError, match="holds 'thesis.txt', and no .* an export"):
        export(corpus, tmp_path / "mine", to="nanogpt")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match="a file, not a folder"):
        export(corpus, tmp_path / "file", to="nanogpt")


class Killed(BaseException):
    """Stands for a kill: nothing that handles errors catches it."""


@pytest.mark.parametrize("to", ["nanogpt", "llmc", "olmo", "hf-parquet"])
def test_a_killed_export_keeps_its_whole_files(
    to: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = None if to in ("nanogpt", "megatron") else 700
    assert export(corpus, tmp_path / "whole", to=to, tokens_per_file=size)["kept"] == 0
    expected = {
        path.relative_to(tmp_path / "whole"): path.read_bytes()
        for path in (tmp_path / "whole").rglob("*")
        if path.is_file() and path.name != MARKER
    }
    rename, left, survives = Path.rename, [0], 0

    def dying(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return rename(self, target)

    for survives in range(1, 100, 1 if to == "nanogpt" else 5):
        out, left[0] = tmp_path / f"killed-{survives}", survives
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", dying)
            try:
                export(corpus, out, to=to, tokens_per_file=size)
            except Killed:
                pass
            else:
                break
        if survives in (4, 6):  # a line of the record that is not whole
            with open(out / "gristmill.progress.jsonl", "a") as file:
                file.write('{"path":"train.')
        # Neither an import nor a reader of SHA256SUMS takes it for an export.
        assert not (out / "SHA256SUMS").exists()
        with pytest.raises(RecipeError, match="an export that is not finished"):
            read_description(out)
        before = {
            path.relative_to(out): path.stat().st_ino for path in out.rglob("*") if path.is_file()
        }
        result = export(corpus, out, to=to, tokens_per_file=size)
        found = {
            path.relative_to(out): path
            for path in out.rglob("*")
            if path.is_file() and path.name != MARKER
        }
        assert {name: path.read_bytes() for name, path in found.items()} == expected
        kept = [name for name, path in found.items() if before.get(name) == path.stat().st_ino]
        assert result["kept"] >= len(kept) - 1  # a kill between the rename and the record
        assert len(kept) >= min(survives - 2, len(expected) - 2)
    assert survives > 4


def test_what_an_interrupted_export_does_not_keep(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(name: str, to: str = "llmc") -> Path:
        """An export that was killed when all files of tokens were whole."""
        out = tmp_path / name
        with monkeypatch.context() as patched:
            patched.setattr(ExportFolder, "describe", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                export(corpus, out, to=to, tokens_per_file=700 if to == "llmc" else None)
        return out

    export(corpus, tmp_path / "whole", to="llmc", tokens_per_file=700)
    sums = (tmp_path / "whole/SHA256SUMS").read_bytes()
    out = begun("damaged")
    files = sorted(out.glob("*.bin"))
    assert len(files) > 3
    data = bytearray(files[0].read_bytes())
    data[-1] ^= 1
    files[0].write_bytes(data)  # of the size that it had
    files[1].unlink()
    result = export(corpus, out, to="llmc", tokens_per_file=700)
    assert (out / "SHA256SUMS").read_bytes() == sums
    assert result["kept"] == len(files) - 2 + 1  # and the tokenizer
    # Another version may write other bytes.
    out = begun("version")
    monkeypatch.setattr("gristmill.__version__", "99")
    assert export(corpus, out, to="llmc", tokens_per_file=700)["kept"] == 0
    assert (out / "SHA256SUMS").read_bytes() == sums
    # A file that is as its record says, and not as it would be written.
    out = begun("other", "nanogpt")
    (out / "train.bin").write_bytes(b"short")
    part = {"path": "train.bin", "size": 5, "sha256": hashlib.sha256(b"short").hexdigest()}
    with open(out / "gristmill.progress.jsonl", "a") as file:
        file.write(json.dumps(part) + "\n")
    with pytest.raises(VerificationError, match=r"train.bin: an earlier start .* wrote 5 bytes"):
        export(corpus, out, to="nanogpt")


def test_two_exports_do_not_write_into_one_folder(corpus: Path, tmp_path: Path) -> None:
    description = ExportDescription(format="llmc", corpus="0", options={})
    with (
        ExportFolder(tmp_path / "out", description),
        pytest.raises(MachineError, match="another export writes into this folder"),
    ):
        ExportFolder(tmp_path / "out", description)


@pytest.mark.parametrize(
    ("to", "most"), [("llmc", 6), ("olmo", 5), ("datatrove", 5), ("hf-parquet", 5)]
)
def test_more_files_than_a_format_has_names_for(
    to: str, most: int, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = FORMATS.find(to)
    assert isinstance(chosen, TrainerFormat) and chosen.most_files == 10**most
    tokens = sum(len(row) for row in expected()["train", "web"])
    monkeypatch.setattr("gristmill.trainer_formats.export.MOST_SMALL_FILES", 100)
    with pytest.raises(RecipeError) as error:
        export(corpus, tmp_path / "out", to=to, sources=["web"], tokens_per_file=2)
    least = -(-tokens // 100)
    assert f"up to {-(-tokens // 2):,} files of train; the limit of {to} is 100" in str(error.value)
    assert f"write {least:,} or more" in str(error.value)
    assert not (tmp_path / "out").exists()
    export(corpus, tmp_path / "out", to=to, sources=["web"], tokens_per_file=least)


def test_vocabularies_that_a_format_cannot_hold(tmp_path: Path) -> None:
    large = made(tmp_path / "large", vocabulary=70_000)
    with pytest.raises(RecipeError, match=r"a vocabulary of 70,000 tokens, and nanoGPT reads"):
        export(large, tmp_path / "out", to="nanogpt")
    assert not (tmp_path / "out").exists()
    for to, dtype in {"llmc": "uint32", "megatron": "int32", "olmo": "uint32"}.items():
        export(large, tmp_path / to, to=to, sources=["web"], split="train")
        said = json.loads((tmp_path / to / "gristmill.json").read_text())
        assert said["tokens"]["dtype"] == dtype
    rows = expected(70_000)["train", "web"]
    assert READERS["llmc"](tmp_path / "llmc", END)["train", ""] == turned(rows, "before")
    assert READERS["megatron"](tmp_path / "megatron", END)["train", "web"] == rows
    assert READERS["olmo"](tmp_path / "olmo", END, "I")["train", "web"] == rows  # type: ignore[call-arg]
    # Megatron changes to int32 before uint16 is full; a small vocabulary is one byte for OLMo.
    middle = made(tmp_path / "middle", vocabulary=65_500)
    export(middle, tmp_path / "m", to="megatron", sources=["books"])
    assert (
        READERS["megatron"](tmp_path / "m", END)["train", "books"]
        == expected(65_500)["train", "books"]
    )
    assert json.loads((tmp_path / "m/gristmill.json").read_text())["tokens"]["dtype"] == "int32"
    small = made(tmp_path / "small", vocabulary=256)
    export(small, tmp_path / "s", to="olmo", sources=["books"])
    assert (
        READERS["olmo"](tmp_path / "s", END, "B")["train", "books"]
        == expected(256)[  # type: ignore[call-arg]
            "train", "books"
        ]
    )


def test_options_that_do_not_fit(corpus: Path, tmp_path: Path) -> None:
    for options, said in (
        ({"to": "nanogtp"}, "no such format; did you mean 'nanogpt'"),
        ({"to": "nanogpt", "split": "test"}, "no such split"),
        ({"to": "nanogpt", "sources": ["wbe"]}, "no such source with tokens; there are books, web"),
        ({"to": "nanogpt", "tokens_per_file": 5}, "nanogpt has one file"),
        ({"to": "llmc", "tokens_per_file": 1 << 31}, "below 2"),
        ({"to": "llmc", "mix": "web"}, "write a weight for each source"),
        ({"to": "llmc", "mix": "web=-1"}, "write a weight for each source"),
        ({"to": "llmc", "mix": "web=0,books=1"}, "one weight above 0"),
        ({"to": "llmc", "mix": "web=1,other=1"}, "no source 'other'"),
        ({"to": "jsonl", "split": "train"}, "jsonl is text"),
    ):
        with pytest.raises(RecipeError, match=said):
            export(corpus, tmp_path / "out", **options)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="--mix web=1,web=2: give each source one weight"):
        export(corpus, tmp_path / "out", to="llmc", mix="web=1,web=2")
    books = token_corpus(tmp_path / "books", {"books": [[1, 0]]}, tokenizer=word_tokenizer(9))
    with pytest.raises(RecipeError, match="no val tokens: set tokens.validation"):
        export(books, tmp_path / "out", to="llmc", split="val")


def test_damaged_shards_are_not_exported(tmp_path: Path) -> None:
    root = made(tmp_path / "corpus")
    path = root / "tokens/web/train_00001.bin"
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Damaged):
        export(root, tmp_path / "out", to="nanogpt")
    assert not (tmp_path / "out").exists()
    (root / "tokens/web/train_00001.bin").write_bytes(bytes(data[:-2]))
    with pytest.raises(VerificationError):
        export(root, tmp_path / "out", to="nanogpt")


def test_meta_of_nanogpt_is_plain_and_says_the_vocabulary(corpus: Path, tmp_path: Path) -> None:
    result = export(corpus, tmp_path / "out", to="nanogpt")
    meta = pickle.loads((tmp_path / "out/meta.pkl").read_bytes())
    assert meta["vocab_size"] == 1000
    # Words are joined by spaces when sample.py joins texts.
    assert meta["itos"][7] == " w7"
    assert set(map(type, meta.values())) == {int, dict}
    assert any("val.bin has" in note for note in result["notes"])


@pytest.mark.parametrize("name", ["Llama 2", "BERT"])
def test_meta_of_nanogpt_has_the_token_of_a_character(name: str) -> None:
    """Llama 2 has `<0x61>` and `a`; BERT has `a` and `##a`."""
    tokenizer = tokenizers.Tokenizer(name, spelling_families.written(name).encode())
    meta = pickle.loads(nanogpt.meta(tokenizer))
    number = spelling_families.library(name).token_to_id("a")
    assert number is not None
    assert [meta["stoi"]["a"], meta["itos"][number].strip()] == [number, "a"]
    joined = "".join(
        meta["itos"][token] for token in tokenizer.encode_text("a river, a wheel").tolist()
    )
    assert joined.strip() == {"Llama 2": "a river, a wheel", "BERT": "a river , a wheel"}[name]


def test_gpt2_is_nanogpts_default_and_has_no_meta(tiktoken_folder: Path, tmp_path: Path) -> None:
    ranks = tokenizers.load("gpt2", tmp_path, tmp_path).data
    root = token_corpus(
        tmp_path / "corpus", {"web": [[15496, 50256]]}, vocabulary=50257, tokenizer=ranks
    )
    manifest = manifests.decode((root / "manifest.json").read_bytes())
    tokens = msgspec.structs.replace(manifest.tokens, end_of_text=50256)
    data = manifests.encode(msgspec.structs.replace(manifest, tokens=tokens))
    (root / "manifest.json").write_bytes(data)
    (root / "manifest.lock").write_bytes(manifests.make_lock(data))
    export(root, tmp_path / "out", to="nanogpt")
    assert not (tmp_path / "out/meta.pkl").exists()
    assert np.fromfile(tmp_path / "out/train.bin", "<u2").tolist() == [15496, 50256]


def block_rows(blocks: list[TokenBlock]) -> list[list[int]]:
    """The documents of blocks, in plain Python."""
    rows: list[list[int]] = []
    for block in blocks:
        at = 0
        for place, length in enumerate(block.lengths.tolist()):
            found = block.tokens[at : at + length].tolist()
            if place == 0 and not block.begins:
                rows[-1] += found
            else:
                rows.append(found)
            at += length
        assert at == len(block.tokens)
    return rows


ROWS = st.lists(
    st.lists(st.integers(1, 9), max_size=12).map(lambda row: [*row, END]), min_size=1, max_size=20
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS, shard=st.integers(1, 30), size=st.integers(1, 15), per_file=st.integers(1, 20))
def test_blocks_sides_and_files_of_any_size(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[int]],
    shard: int,
    size: int,
    per_file: int,
) -> None:
    root = token_corpus(tmp_path_factory.mktemp("rows"), {"web": rows}, tokens_per_shard=shard)
    stream = TokenCorpus.open(root).stream("web")

    def blocks() -> list[TokenBlock]:
        return list(read_blocks(stream, 0, size))

    assert block_rows(blocks()) == rows
    assert block_rows(list(with_side(blocks(), END, "after", "before"))) == turned(rows, "before")
    assert block_rows(list(with_side(blocks(), END, "after", "none"))) == [row[:-1] for row in rows]
    bare = [row[:-1] for row in rows]
    without = list(with_side(blocks(), END, "after", "none"))
    for side, wanted in (("after", rows), ("before", turned(bare and rows, "before"))):
        assert block_rows(list(with_side(without, END, "none", side))) == wanted  # type: ignore[arg-type]
    found = list(whole(blocks()))
    assert block_rows(found) == rows
    assert all(block.begins and block.ends for block in found)
    for cut in (True, False):
        numbered = list(pieces(blocks(), per_file, cut=cut))
        assert block_rows([piece for _, piece in numbered]) == rows
        filled: dict[int, int] = {}
        for number, piece in numbered:
            filled[number] = filled.get(number, 0) + len(piece.tokens)
        assert list(filled) == list(range(len(filled)))
        total = sum(map(len, rows))
        if cut:
            assert list(filled.values())[:-1] == [per_file] * (len(filled) - 1)
        else:  # each file ends behind the document that fills it
            ends = list(accumulate(map(len, rows)))
            bounds, last = [], 0
            for end in ends:
                if end - last >= per_file:
                    bounds.append(end)
                    last = end
            assert list(accumulate(filled.values())) == [*bounds, *([total] * (last < total))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sources=st.lists(ROWS, min_size=2, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    size=st.integers(1, 40),
)
def test_a_mix_keeps_its_shares_at_every_prefix_and_each_source_its_order(
    tmp_path_factory: pytest.TempPathFactory,
    sources: list[list[list[int]]],
    weights: list[int],
    size: int,
) -> None:
    root = token_corpus(
        tmp_path_factory.mktemp("mix"), {f"s{n}": rows for n, rows in enumerate(sources)}
    )
    corpus = TokenCorpus.open(root)
    streams = [corpus.stream(f"s{number}") for number in range(len(sources))]
    for given_weights in (None, [float(weight) for weight in weights[: len(sources)]]):
        blocks = list(mixed(streams, given_weights, size))
        rows = block_rows(blocks)
        places = np.concatenate([block.sources for block in blocks]).tolist()
        shares = given_weights or [float(stream.tokens) for stream in streams]
        # In plain Python: always the source with the earliest next document.
        wanted, at, read = [], [0] * len(sources), [0] * len(sources)
        until = min(s.tokens / share for s, share in zip(streams, shares, strict=True))
        while True:
            times = [
                (read[n] / shares[n], n)
                for n in range(len(sources))
                if at[n] < len(sources[n]) and read[n] / shares[n] < until
            ]
            if not times:
                break
            chosen = min(times)[1]
            wanted.append((chosen, sources[chosen][at[chosen]]))
            read[chosen] += len(sources[chosen][at[chosen]])
            at[chosen] += 1
        assert list(zip(places, rows, strict=True)) == wanted
        if given_weights is None:
            assert sum(map(len, sources)) == len(rows)
        longest = [max(map(len, rows)) for rows in sources]
        counts = [0] * len(sources)
        for place, row in zip(places, rows, strict=True):
            counts[place] += len(row)
            for n in range(len(sources)):
                due = sum(counts) * shares[n] / sum(shares)
                assert abs(counts[n] - due) <= sum(longest)


def test_a_mix_says_what_it_leaves_out(corpus: Path, tmp_path: Path) -> None:
    result = export(corpus, tmp_path / "out", to="hf-parquet", mix="web=0.5,books=0.5")
    assert any("are not in the mix" in note and "web" in note for note in result["notes"])
    rows = READERS["hf-parquet"](tmp_path / "out", END)
    assert rows["val", ""] == expected()["val", "web"]
    train = next(stream for stream in result["streams"] if stream["split"] == "train")
    shares = train["sources"]
    assert abs(shares["web"] - shares["books"]) <= 400
    alone = export(corpus, tmp_path / "alone", to="megatron", mix="web=1")
    assert {stream["name"] for stream in alone["streams"]} == {"web"}


def test_a_format_of_ones_own(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ROOT / "tests/additions/format/src/gristmill/trainer_formats/plain_int32.py"
    shutil.copy(code, tmp_path / "formats_of_own.py")
    monkeypatch.chdir(tmp_path)
    export(corpus, "out", to="formats_of_own:PLAIN_INT32", sources=["web"])
    data = np.fromfile("out/train.i32", "<i4").tolist()
    assert divided(data, END) == expected()["train", "web"]
    assert json.loads(Path("out/gristmill.json").read_text())["format"] == "plain-int32"
    with pytest.raises(RecipeError, match="it is no TextFormat or TrainerFormat, but <function"):
        export(corpus, "other", to="formats_of_own:write")
    with pytest.raises(RecipeError, match="--to plain: no such format"):
        export(corpus, "other", to="plain")
