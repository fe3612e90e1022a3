"""Import: what was exported comes back with equal tokens and boundaries; files of others' making;
hostile files.
"""

import gzip
import hashlib
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import TokenCorpus, verify
from gristmill.errors import GristmillError, RecipeError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.system.ownership import MARKER
from gristmill.trainer_formats import IMPORTED
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.import_tokens import import_tokens
from tests.support.command import command_line
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import word_tokenizer

END, VOCABULARY = 0, 1000
ROWS = [[5, 6, 7, END], [END], [8, 9, END], *([n + 1] * (n % 7) + [END] for n in range(40))]
VAL = [[11, 12, END], [13, END]]


def torch_or_skip() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        missing("torch", "torch is not installed")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(word_tokenizer(VOCABULARY))
    return path


def rows_of(root: Path, split: str = "train", source: str = "imported") -> list[list[int]]:
    """The documents of a corpus, in plain Python from its files."""
    rows: list[list[int]] = []
    last = None
    for path in sorted((root / f"tokens/{source}").glob(f"{split}_*.bin")):
        manifest = json.loads((root / "manifest.json").read_text())
        kind = "<u2" if manifest["tokens"]["dtype"] == "uint16" else "<u4"
        tokens = np.fromfile(path, kind).tolist()
        table = np.fromfile(path.with_suffix(".docs"), "<i8").tolist()
        numbers, ends = table[: len(table) // 2], table[len(table) // 2 :]
        at = 0
        for number, end in zip(numbers, ends, strict=True):
            if number == last:
                rows[-1] += tokens[at:end]
            else:
                rows.append(tokens[at:end])
            last, at = number, end
    return rows


@pytest.mark.parametrize("format_", IMPORTED.built_in_names())
@pytest.mark.parametrize("vocabulary", [VOCABULARY, 70_000, 200])
def test_what_was_exported_comes_back(format_: str, vocabulary: int, tmp_path: Path) -> None:
    root = token_corpus(
        tmp_path / "corpus",
        {"web": ROWS},
        {"web": VAL},
        vocabulary=vocabulary,
        tokenizer=word_tokenizer(vocabulary),
        tokens_per_shard=20,
    )
    if format_ == "nanogpt" and vocabulary > 1 << 16:
        with pytest.raises(RecipeError, match="nanoGPT reads uint16"):
            export(root, tmp_path / "out", to=format_)
        return
    size = 30 if format_ in ("llmc", "olmo", "datatrove", "hf-parquet") else None
    export(root, tmp_path / "out", to=format_, tokens_per_file=size)
    result = import_tokens(
        tmp_path / "out", tmp_path / "back", format=format_, source="web", tokens_per_shard=17
    )
    side = "before" if format_ == "llmc" else "after"
    turned = [[END, *row[:-1]] if side == "before" else row for row in ROWS]
    assert rows_of(tmp_path / "back", source="web") == turned
    assert len(rows_of(tmp_path / "back", "val", "web")) == len(VAL)
    assert (result["documents"], result["end_of_text_side"]) == (len(ROWS) + len(VAL), side)
    assert result["boundaries"] == (
        "index" if format_ in ("megatron", "hf-parquet", "olmo", "datatrove") else "end-of-text"
    )
    assert verify(tmp_path / "back")["parts"] > 4
    # The loader's view, and a second export of the same bytes.
    corpus = TokenCorpus.open(tmp_path / "back")
    assert corpus.format.end_of_text_side == side
    export(tmp_path / "back", tmp_path / "again", to=format_, tokens_per_file=size)
    for path in (tmp_path / "out").rglob("*"):
        if path.suffix in (".bin", ".idx", ".npy", ".ds", ".index", ".pt"):
            assert (
                path.read_bytes()
                == (tmp_path / "again" / path.relative_to(tmp_path / "out")).read_bytes()
            )


def test_an_imported_corpus_is_no_run_and_every_verb_says_so(
    tokenizer: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0, 3, 0], "<u2").tofile(folder / "train.bin")
    words = ["import", folder, "--from", "nanogpt", "--tokenizer", tokenizer, "--out", "corpus"]

    def mill(*given: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command_line(*given), cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = mill(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 documents, 5 tokens from 1 files" in done.stdout
    assert "boundaries by end-of-text; end of text: after" in done.stdout
    before = (tmp_path / "corpus/manifest.json").read_bytes()
    (tmp_path / "a.jsonl").write_text('{"text": "a text"}\n')
    (tmp_path / "r.toml").write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n'
    )
    done = mill("run", "r.toml")
    assert done.returncode == 2
    assert "its tokens were imported (nanogpt), and no recipe made them" in done.stderr
    done = mill("export", "corpus", "--to", "jsonl", "--out", "text")
    assert done.returncode == 2
    assert "it has no texts: its tokens were imported" in done.stderr
    for verb in ("verify", "status", "stats"):
        assert mill(verb, "corpus").returncode == 0, verb
    for verb in (["why", "corpus", "0:1"], ["lines", "corpus"], ["duplicates", "corpus"]):
        done = mill(*verb)
        assert "Traceback" not in done.stderr, verb
        assert done.returncode in (0, 2, 4), verb
    assert mill("diff", "corpus", "corpus").returncode == 0
    assert (tmp_path / "corpus/manifest.json").read_bytes() == before
    done = mill(*words)
    assert done.returncode == 2
    assert "choose an empty folder" in done.stderr


def sealed(root: Path, changed: Path) -> None:
    """Write manifest, sums and lock for a part that was changed."""
    manifest = manifests.decode((root / "manifest.json").read_bytes())
    name = changed.relative_to(root).as_posix()
    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    parts = [
        msgspec.structs.replace(part, sha256=digest) if part.path == name else part
        for part in manifest.parts
    ]
    content = manifests.content_digest(parts)
    data = manifests.encode(msgspec.structs.replace(manifest, parts=parts, content=content))
    (root / "manifest.json").write_bytes(data)
    (root / "manifest.lock").write_bytes(manifests.make_lock(data))
    (root / "SHA256SUMS").write_bytes(manifests.sums(parts))


def test_damage_to_an_imported_corpus_is_found(tokenizer: Path, tmp_path: Path) -> None:
    np.array([1, 2, 0, 3, 0], "<u2").tofile(tmp_path / "train.bin")
    import_tokens(tmp_path, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))
    verify(tmp_path / "c")
    manifest = json.loads((tmp_path / "c/manifest.json").read_text())
    assert manifest["imported"]["files"][0]["path"] == "train.bin"
    assert (manifest["recipe"], manifest["raw_shards"]) == ({}, [])
    # Manifests that are not true, with digests that fit.
    for rows, said in (
        ([1, 0, 2, 3, 0], "1 documents without the end of text after them"),
        ([1, 2, 0, 1000, 0], "token 1,000, and the vocabulary is 1,000"),
    ):
        root = tmp_path / f"forged {rows[3]}"
        shutil.copytree(tmp_path / "c", root)
        path = root / "tokens/imported/train_00000.bin"
        path.write_bytes(np.array(rows, "<u2").tobytes())
        sealed(root, path)
        with pytest.raises(VerificationError, match=said):
            verify(root)
    path = tmp_path / "c/tokens/imported/train_00000.bin"
    path.write_bytes(np.array([1, 2, 0, 4, 0], "<u2").tobytes())
    with pytest.raises(VerificationError, match="train_00000.bin: sha256"):
        verify(tmp_path / "c")


def test_an_import_that_was_interrupted_begins_again(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0, 3000, 0], "<u2").tofile(folder / "train.bin")
    with pytest.raises(VerificationError, match="token 3,000, and the tokenizer has 1,000"):
        import_tokens(folder, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))
    assert sorted(os.listdir(tmp_path / "c")) == [MARKER, "work"]
    np.array([1, 2, 0, 3, 0], "<u2").tofile(folder / "train.bin")
    import_tokens(folder, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))
    assert rows_of(tmp_path / "c") == [[1, 2, 0], [3, 0]]


def test_an_import_may_be_killed_at_any_rename(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0, 3, 0, 4, 0], "<u2").tofile(folder / "train.bin")
    options = {"format": "nanogpt", "tokenizer": str(tokenizer), "tokens_per_shard": 3}

    def imported(name: str) -> None:
        import_tokens(folder, tmp_path / name, **options)  # type: ignore[arg-type]

    imported("whole")
    expected = (tmp_path / "whole/manifest.json").read_bytes()
    rename, killed = Path.rename, 0
    left = [0]  # renames before the kill

    def dying(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return rename(self, target)

    for survives in range(100):
        left[0] = survives
        name = f"killed-{survives}"
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", dying)
            try:
                imported(name)
            except KeyboardInterrupt:
                killed += 1
            else:
                break
        imported(name)
        assert (tmp_path / name / "manifest.json").read_bytes() == expected
        verify(tmp_path / name)
    assert killed > 10


def test_the_files_of_an_import_are_checked_where_they_were(
    tokenizer: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("train.bin", "val.bin"):
        np.array([1, 2, 0, 3, 0], "<u2").tofile(folder / name)
    import_tokens(folder, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))
    moved = shutil.move(tmp_path / "c", tmp_path / "moved")
    assert verify(moved, raw=True)["raw_files"] == 2
    assert "raw_files" not in verify(moved)
    np.array([1, 2, 0, 4, 0], "<u2").tofile(folder / "val.bin")
    verify(moved)
    assert verify(moved, raw=True, quick=True)["raw_files"] == 2
    with pytest.raises(VerificationError, match=r"imported file val.bin: sha256 \w+, expected"):
        verify(moved, raw=True)
    np.array([1, 2, 0], "<u2").tofile(folder / "val.bin")
    (folder / "train.bin").unlink()
    with pytest.raises(VerificationError) as error:
        verify(moved, raw=True, quick=True)
    assert "imported file val.bin: 6 bytes, expected 10" in str(error.value)
    assert f"imported file train.bin: its bytes are not at {folder}/train.bin" in str(error.value)
    # The folder's name is no part, but it cannot be changed unseen.
    run = json.loads((moved / "run.json").read_text())
    (moved / "run.json").write_text(json.dumps({**run, "folder": "/elsewhere"}))
    with pytest.raises(VerificationError, match="run.json: not as it was written"):
        verify(moved)


# -- files that are not gristmill's own


def idx(lengths: list[int], documents: list[int] | None = None, **fields: object) -> bytes:
    """An index of Megatron; `fields` replace what is right."""
    size = fields.get("size", 2)
    pointers = [sum(lengths[:place]) * int(size) for place in range(len(lengths))]  # type: ignore[call-overload]
    documents = list(range(len(lengths) + 1)) if documents is None else documents
    head = struct.pack(
        "<9sQBQQ",
        fields.get("magic", b"MMIDIDX\0\0"),
        fields.get("version", 1),
        fields.get("code", 8),
        fields.get("sequences", len(lengths)),
        fields.get("entries", len(documents)),
    )
    return (
        head
        + np.array(lengths, "<i4").tobytes()
        + np.array(fields.get("pointers", pointers), "<i8").tobytes()
        + np.array(documents, "<i8").tobytes()
        + fields.get("tail", b"")  # type: ignore[operator]
    )


def test_megatron_of_others(tokenizer: Path, tmp_path: Path) -> None:
    """Documents of several sequences, and of none; tokens of int32; no end of text."""
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 3, 4, 5, 6], "<i4").tofile(folder / "x_text_document.bin")
    (folder / "x_text_document.idx").write_bytes(idx([2, 1, 0, 3], [0, 2, 2, 3, 4], code=4, size=4))
    result = import_tokens(folder, tmp_path / "c", format="megatron", tokenizer=str(tokenizer))
    assert rows_of(tmp_path / "c") == [[1, 2, 3], [4, 5, 6]]
    assert (result["empty_documents"], result["end_of_text_side"]) == (2, "none")
    corpus = TokenCorpus.open(tmp_path / "c")
    assert [n & 0xFFFFFFFF for n in corpus.stream("imported").boundaries(0)[0].tolist()] == [0, 3]
    export(tmp_path / "c", tmp_path / "out", to="llmc")
    assert np.fromfile(tmp_path / "out/imported_train_000001.bin", "<u2")[512:].tolist() == [
        0, 1, 2, 3, 0, 4, 5, 6
    ]  # fmt: skip


MEGATRON_DAMAGE: dict[str, tuple[Callable[[], bytes], str]] = {
    "magic": (lambda: idx([3, 2], magic=b"MMIDIDX\0\1"), "does not begin with MMIDIDX"),
    "version": (lambda: idx([3, 2], version=2), "version 2, expected 1"),
    "floats": (lambda: idx([3, 2], code=7), "type 7, expected one of"),
    "code": (lambda: idx([3, 2], code=99), "type 99"),
    "cut": (lambda: idx([3, 2])[:-8], "cut short or damaged"),
    "empty": (lambda: b"", "does not begin with MMIDIDX"),
    "longer": (lambda: idx([3, 2], tail=b"\0" * 7), "cut short or damaged"),
    "modes": (lambda: idx([3, 2], tail=b"\0\0"), "multimodal"),
    "2^62 sequences": (lambda: idx([3, 2], sequences=1 << 62), "cut short or damaged"),
    "2^63 documents": (lambda: idx([3, 2], entries=1 << 63), "cut short or damaged"),
    "negative": (lambda: idx([-3, 8], pointers=[0, 6]), "sequence 0 has -3 tokens"),
    "outside": (lambda: idx([3, 2], pointers=[0, 1 << 40]), "sequence 1 begins at byte"),
    "overflow": (lambda: idx([3, 2], pointers=[0, -(1 << 63)]), "sequence 1 begins at byte"),
    "too many": (lambda: idx([3, 3]), "one of them is cut short"),
    "too few": (lambda: idx([3, 1]), "one of them is cut short"),
    "longest": (lambda: idx([2**31 - 1] * 3), "one of them is cut short"),
    "documents": (lambda: idx([3, 2], [0, 1, 1]), "its documents end with sequence 1"),
    "order": (lambda: idx([3, 2], [0, 3, 2]), "its documents are not in order"),
    "begin": (lambda: idx([3, 2], [1, 2, 2]), "do not begin with sequence 0"),
    "no documents": (lambda: idx([3, 2], []), "do not begin with sequence 0"),
}


@pytest.mark.parametrize("what", MEGATRON_DAMAGE)
def test_hostile_indices_of_megatron(what: str, tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0, 3, 0], "<u2").tofile(folder / "x.bin")
    data, said = MEGATRON_DAMAGE[what]
    (folder / "x.idx").write_bytes(data())
    with pytest.raises(VerificationError, match=said):
        import_tokens(folder, tmp_path / "c", format="megatron", tokenizer=str(tokenizer))
    assert not (tmp_path / "c/manifest.json").exists()


def header(magic: int = 20240520, version: int = 1, count: int = 5) -> bytes:
    return np.array([magic, version, count, *[0] * 253], "<i4").tobytes()


TOKENS = np.array([0, 1, 2, 0, 3], "<u2").tobytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (header(magic=20240522) + TOKENS, "begins with 20240522"),
        (header(version=2) + TOKENS, "version 2, expected 1"),
        (header()[:1000], "shorter than a header"),
        (header() + TOKENS[:-1], "no multiple of 2"),
        (header() + TOKENS[:-2], "4 tokens, and its header says 5"),
        (header(count=-(2**31)) + TOKENS, "its header says -2,147,483,648"),
        (header(count=2**31 - 1) + TOKENS, "its header says 2,147,483,647"),
        (header(count=0), "its header says 0"),
        (header(magic=20240801, version=7) + TOKENS, "no multiple of 4"),
        (header() + np.array([1, 2, 0, 3, 0], "<u2").tobytes(), "begins with token 1, not with"),
    ],
)
def test_hostile_shards_of_llmc(data: bytes, said: str, tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "fineweb_train_000001.bin").write_bytes(data)
    with pytest.raises(VerificationError, match=said):
        import_tokens(folder, tmp_path / "c", format="llmc", tokenizer=str(tokenizer))


def parquet(folder: Path, **columns: pa.Array) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / "train-00000.parquet")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([[1.5, 2.0]]), "expected a list of integers"),
        (pa.array(["text"]), "expected a list of integers"),
        (pa.array([[[1, 2]]]), "expected a list of integers"),
        (pa.array([[1, 0], None]), "is null in 1 rows"),
        (pa.array([[1, None, 0]]), "1 tokens in input_ids are null"),
        (pa.array([[-1, 0]]), "token -1, and the tokenizer has 1,000"),
        (pa.array([[1000, 0]]), "token 1,000, and the tokenizer has 1,000"),
        (pa.array([[2**40, 0]]), "token 1,099,511,627,776"),
        (pa.array([[2**64 - 1]], pa.list_(pa.uint64())), "token 18,446,744,073,709,551,615"),
        (pa.array([[1, 0], [1]]), "1 of 2 documents end with the end of text 0"),
        (pa.array([[], []], pa.list_(pa.int32())), "hold no token"),
    ],
)
def test_hostile_parquet(column: pa.Array, said: str, tokenizer: Path, tmp_path: Path) -> None:
    parquet(tmp_path / "in", input_ids=column)
    with pytest.raises(GristmillError, match=said):
        import_tokens(
            tmp_path / "in", tmp_path / "c", format="hf-parquet", tokenizer=str(tokenizer)
        )


def test_parquet_of_others(tokenizer: Path, tmp_path: Path) -> None:
    parquet(
        tmp_path / "in",
        text=pa.array(["a", "b", "c"]),
        input_ids=pa.array([[1, 2], [], [3]], pa.large_list(pa.int64())),
    )
    options = {"format": "hf-parquet", "tokenizer": str(tokenizer)}
    result = import_tokens(tmp_path / "in", tmp_path / "c", **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "c") == [[1, 2], [3]]
    assert (result["end_of_text_side"], result["empty_documents"]) == ("none", 1)
    with pytest.raises(VerificationError, match="2 of 2 documents have no end of text 0 after"):
        import_tokens(
            tmp_path / "in",
            tmp_path / "d",
            end_of_text_side="after",
            **options,  # type: ignore[arg-type]
        )
    parquet(tmp_path / "mixed", input_ids=pa.array([[1, 0], [1]]))
    import_tokens(tmp_path / "mixed", tmp_path / "e", end_of_text_side="none", **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "e") == [[1, 0], [1]]
    data = (tmp_path / "in/train-00000.parquet").read_bytes()
    (tmp_path / "in/train-00000.parquet").write_bytes(data[:-40])
    with pytest.raises(VerificationError, match="cannot be read as Parquet"):
        import_tokens(tmp_path / "in", tmp_path / "f", **options)  # type: ignore[arg-type]
    (tmp_path / "in/train-00000.parquet").unlink()
    rows = pa.array([[1, 0]])
    twice = pa.Table.from_arrays([rows, rows], names=["input_ids", "input_ids"])
    pq.write_table(twice, tmp_path / "in/train-00000.parquet")
    with pytest.raises(VerificationError, match="several columns input_ids"):
        import_tokens(tmp_path / "in", tmp_path / "g", **options)  # type: ignore[arg-type]
    (tmp_path / "in/train-00000.parquet").unlink()
    parquet(tmp_path / "in", text=pa.array(["a"]))
    with pytest.raises(RecipeError, match="no column input_ids; it has text"):
        import_tokens(tmp_path / "in", tmp_path / "g", **options)  # type: ignore[arg-type]


def olmo(folder: Path, rows: str, tokens: list[int]) -> None:
    folder.mkdir()
    np.array(tokens, "<u2").tofile(folder / "part-0.npy")
    (folder / "part-0.csv.gz").write_bytes(gzip.compress(rows.encode()))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,3\n3,9\n", "tokens 3 to 9"),
        ("0,3\n2,5\n", "tokens 2 to 5, after one that ends at 3"),
        ("0,3\n3,2\n", "tokens 3 to 2"),
        ("0,3\n", "end at token 3 of 5"),
        ("0,3\n-3,5\n", "are no places of tokens"),
        ("0,3\nx,y\n", "are no places of tokens"),
        ("0\n", "line 1: '0.n' is not start,end"),
        (f"0,3\n3,{'9' * 5000}\n", "line 2: '3,9+' is not start,end"),
        ("0,\u0663\n3,5\n", "are no places of tokens"),
        ("0,0\n" * 7, "line 7: more documents than the file has tokens"),
    ],
)
def test_hostile_indices_of_olmo(rows: str, said: str, tokenizer: Path, tmp_path: Path) -> None:
    olmo(tmp_path / "in", rows, [1, 2, 0, 3, 0])
    with pytest.raises(VerificationError, match=said):
        import_tokens(
            tmp_path / "in", tmp_path / "c", format="olmo", tokenizer=str(tokenizer), dtype="uint16"
        )


@pytest.mark.parametrize(
    ("format_", "names"),
    [
        ("datatrove", ("x.ds", "x.ds.index")),
        ("datatrove", ("x.ds", "x.ds.index", "x.ds.metadata")),
        ("olmo", ("x.npy", "x.csv.gz")),
        ("megatron", ("x.idx", "x.bin")),
        ("nanogpt", ("train.bin",)),
    ],
)
@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_what_is_no_file_is_refused(
    format_: str, names: tuple[str, ...], what: str, tokenizer: Path, tmp_path: Path
) -> None:
    """A link would lead out of the folder, and to open a pipe would wait for ever."""
    folder = tmp_path / "in"
    folder.mkdir()
    *before, last = names
    for name in before:
        np.array([2, 4], "<u8").tofile(folder / name)
    if what == "link":
        (folder / last).symlink_to("/etc/passwd")
    elif what == "pipe":
        os.mkfifo(folder / last)
    else:
        (folder / last).mkdir()
    with pytest.raises(RecipeError, match=rf"{last}: not a regular file"):
        import_tokens(folder, tmp_path / "c", format=format_, tokenizer=str(tokenizer))


def test_hostile_descriptions(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0], "<u2").tofile(folder / "train.bin")
    description = folder / "gristmill.json"

    def refused(said: str) -> None:
        with pytest.raises(GristmillError, match=said):
            import_tokens(folder, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))

    os.mkfifo(description)
    refused("not the description of an export")
    description.unlink()
    description.symlink_to("/etc/passwd")
    refused("not the description of an export")
    description.unlink()
    description.write_bytes(b"[" * 100_000)
    refused("not the description of an export")
    with open(description, "wb") as file:
        file.truncate(65 << 20)
    refused("not the description of an export")
    description.unlink()
    root = token_corpus(tmp_path / "corpus", {"web": ROWS}, tokenizer=word_tokenizer(VOCABULARY))
    shutil.rmtree(folder)
    export(root, folder, to="nanogpt")
    (folder / "SHA256SUMS").write_text("0123456789abcdef\n")
    refused("'0123456789abcdef' is no digest and path")
    (folder / "SHA256SUMS").unlink()
    os.mkfifo(folder / "SHA256SUMS")
    refused("SHA256SUMS: not a regular file")


def test_olmo_of_others(tokenizer: Path, tmp_path: Path) -> None:
    olmo(tmp_path / "in", "0,3,a,b\n3,5,c,d\n", [1, 2, 0, 3, 0])
    options = {"format": "olmo", "tokenizer": str(tokenizer)}
    import_tokens(tmp_path / "in", tmp_path / "c", **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "c") == [[1, 2, 0], [3, 0]]
    # Without .csv.gz the end of text divides, and a document ends with its file.
    (tmp_path / "in/part-0.csv.gz").unlink()
    np.array([1, 2, 0, 3], "<u2").tofile(tmp_path / "in/part-0.npy")
    np.array([4, 0], "<u2").tofile(tmp_path / "in/part-1.npy")
    np.save(tmp_path / "in/part-1.npy", np.array([4, 0], "<u2"))
    with pytest.raises(VerificationError, match="begins with the header of NumPy"):
        import_tokens(tmp_path / "in", tmp_path / "e", **options)  # type: ignore[arg-type]


def test_datatrove_damage(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([1, 2, 0, 3, 0], "<u2").tofile(folder / "x.ds")
    options = {"format": "datatrove", "tokenizer": str(tokenizer)}
    with pytest.raises(RecipeError, match=r"without x.ds.index beside it"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    for ends, said in (([3, 6], "its index ends at 6"), ([4, 3, 5], "do not ascend"), ([], "at 0")):
        np.array(ends, "<u8").tofile(folder / "x.ds.index")
        with pytest.raises(VerificationError, match=said):
            import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    np.array([2**63 + 1, 5], "<u8").tofile(folder / "x.ds.index")
    with pytest.raises(VerificationError, match="do not ascend"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    np.array([3, 5], "<u8").tofile(folder / "x.ds.index")
    (folder / "x.ds.metadata").write_text("gpt2|4\n5\n5")
    with pytest.raises(VerificationError, match="no multiple of 4"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    import_tokens(folder, tmp_path / "c", dtype="uint16", **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "c") == [[1, 2, 0], [3, 0]]


def test_flat_files_of_others(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    options = {"format": "nanogpt", "tokenizer": str(tokenizer)}
    with pytest.raises(RecipeError, match="no files of the format nanogpt"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    (folder / "train.bin").write_bytes(b"\1\0\2")
    with pytest.raises(VerificationError, match="no multiple of 2"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    (folder / "train.bin").write_bytes(b"")
    with pytest.raises(VerificationError, match="hold no token"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    # cut in the middle of the last document
    np.array([1, 2, 0, 3, 4], "<u2").tofile(folder / "train.bin")
    (folder / "meta.pkl").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    result = import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "c") == [[1, 2, 0], [3, 4]]
    assert result["unended"] == 1
    export(tmp_path / "c", tmp_path / "out", to="llmc")
    assert np.fromfile(tmp_path / "out/imported_train_000001.bin", "<u2")[512:].tolist() == [
        0, 1, 2, 0, 3, 4
    ]  # fmt: skip
    with pytest.raises(RecipeError, match="only an end of text shows where"):
        import_tokens(folder, tmp_path / "d", end_of_text_side="none", **options)  # type: ignore[arg-type]
    os.symlink("/etc/passwd", folder / "val.bin")
    with pytest.raises(RecipeError, match="not a regular file"):
        import_tokens(folder, tmp_path / "e", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("format_", ["nanogpt", "olmo"])
@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_a_type_is_not_believed(format_: str, kind: str, tokenizer: Path, tmp_path: Path) -> None:
    """50 documents in a wider type than the format's: both readings are named, --dtype decides."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [[*range(n + 1, n + 90), END] for n in range(50)]
    name = "train.bin" if format_ == "nanogpt" else "part.npy"
    np.concatenate(rows).astype(kind).tofile(folder / name)
    options = {"format": format_, "tokenizer": str(tokenizer)}
    factor = np.dtype(kind).itemsize // 2
    said = f"read as uint16, it is {4500 * factor:,} tokens, .* read as {kind}, it is 4,500 tokens"
    with pytest.raises(RecipeError, match=said + f".*--dtype {kind}, or --dtype uint16"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    import_tokens(folder, tmp_path / "c", dtype=kind, **options)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "c") == rows
    import_tokens(folder, tmp_path / "d", dtype="uint16", **options)  # type: ignore[arg-type]
    assert sum(map(len, rows_of(tmp_path / "d"))) == 4500 * factor


def test_a_type_that_only_another_fits(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = tmp_path / "tokenizer.json"
    path.write_bytes(word_tokenizer(70_000))
    rows = [[n + 1, n + 2, 69_000, END] for n in range(500)]
    np.concatenate(rows).astype("<u4").tofile(folder / "train.bin")
    options = {"format": "nanogpt", "tokenizer": str(path)}
    # As uint16, 69,000 is two tokens, which a vocabulary of 70,000 has: uint32 alone is likelier.
    with pytest.raises(RecipeError, match="Say which: --dtype uint32, or --dtype uint16"):
        import_tokens(folder, tmp_path / "c", **options)  # type: ignore[arg-type]
    np.arange(2000, dtype="<u2").tofile(folder / "part.npy")
    (folder / "train.bin").unlink()
    options["format"] = "olmo"  # which assumes uint32 here
    with pytest.raises(RecipeError, match="read as uint32, it is 1,000 tokens, and there are num"):
        import_tokens(folder, tmp_path / "d", **options)  # type: ignore[arg-type]
    for header, said in ((b"\x93NUMPY\1\0", "NumPy"), (b"\x88\xd8\x34\1\1\0\0\0", "llm.c")):
        (folder / "part.npy").write_bytes(header + bytes(8))
        with pytest.raises(VerificationError, match=f"begins with the header of {said}"):
            import_tokens(folder, tmp_path / "e", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("to", ["olmo", "nanogpt", "llmc", "megatron"])
def test_an_end_of_text_inside_a_document_is_told(to: str, tmp_path: Path) -> None:
    rows = [[1, END, 2, END], [3, END], [4, END, END, 5, END], [END, END], [6, 7, END]]
    root = token_corpus(tmp_path / "c", {"web": rows}, {"web": [[1, 2, END]]}, tokens_per_shard=5,
                        vocabulary=VOCABULARY, tokenizer=word_tokenizer(VOCABULARY))  # fmt: skip
    notes = export(root, tmp_path / "out", to=to)["notes"]
    said = [note for note in notes if "inside documents" in note]
    if to == "megatron":  # its index says where documents are
        assert said == []
        export(root, tmp_path / "strict", to=to, strict=True)
        return
    with pytest.raises(RecipeError, match=r"--strict: web train: 4 end-of-text .*megatron"):
        export(root, tmp_path / "strict", to=to, strict=True)
    assert not (tmp_path / "strict").exists()
    export(root, tmp_path / "clean", to=to, strict=True, split="val")
    counted = "4 end-of-text tokens are inside documents (3 of them): a reader that divides"
    assert [counted in note for note in said] == [True]
    if to == "olmo":  # what a reader by the token counts: nine, and not five
        tokens = np.fromfile(next((tmp_path / "out").rglob("train*.npy")), "<u2")
        assert int((tokens == END).sum()) == len(rows) + 4


def test_options_that_do_not_fit(tokenizer: Path, tmp_path: Path) -> None:
    for options, said in (
        ({"format": "mds"}, "no such format; there are: datatrove"),
        ({"source": "../x"}, "--source '../x'"),
        ({"source": ".."}, "--source '..'"),
        ({"end_of_text_side": "left"}, "write after, before, none"),
        ({"dtype": "float32"}, "write uint8"),
        ({"tokens_per_shard": 0}, "above 0"),
        ({"tokenizer": None}, "name the tokenizer with which"),
        ({"tokenizer": "none.json"}, "tokenizer 'none.json'"),
    ):
        given = {"format": "nanogpt", "tokenizer": str(tokenizer), **options}
        with pytest.raises(RecipeError, match=said):
            import_tokens(tmp_path, tmp_path / "c", **given)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="no such folder"):
        import_tokens(tmp_path / "none", tmp_path / "c", format="nanogpt")
    assert not (tmp_path / "c").exists()


def test_an_export_with_another_tokenizer_side_or_damage_is_refused(
    tokenizer: Path, tmp_path: Path
) -> None:
    root = token_corpus(
        tmp_path / "corpus",
        {"web": ROWS},
        {"web": VAL},
        vocabulary=VOCABULARY,
        tokenizer=word_tokenizer(VOCABULARY),
    )
    out = tmp_path / "out"
    export(root, out, to="nanogpt")
    other = tmp_path / "other.json"
    other.write_bytes(word_tokenizer(VOCABULARY + 1))
    for options, said in (
        ({"tokenizer": str(other)}, "made with the tokenizer"),
        ({"end_of_text_side": "before"}, "gristmill.json says after"),
        ({"dtype": "uint32"}, "gristmill.json says uint16"),
        ({"format": "llmc"}, "gristmill.json says nanogpt, not llmc"),
    ):
        with pytest.raises(GristmillError, match=said):
            import_tokens(out, tmp_path / "c", **{"format": "nanogpt", **options})  # type: ignore[arg-type]
    import_tokens(out, tmp_path / "c", format="nanogpt", tokenizer=str(tokenizer))
    said = json.loads((out / "gristmill.json").read_text())
    said["tokens"]["tokenizer_file"] = "../tokenizer.json"
    data = (out / "gristmill.json").read_bytes()
    (out / "gristmill.json").write_text(json.dumps(said))
    with pytest.raises(VerificationError, match="not as SHA256SUMS says"):
        import_tokens(out, tmp_path / "d", format="nanogpt")
    (out / "gristmill.json").write_bytes(data)
    with open(out / "SHA256SUMS", "a") as file:
        file.write(f"{'0' * 64}  ../../etc/passwd\n")
    with pytest.raises(VerificationError, match="leaves the corpus"):
        import_tokens(out, tmp_path / "d", format="nanogpt")


def test_gpt2_tokens_by_name(tiktoken_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.array([15496, 995, 50256, 15496, 50256], "<u2").tofile(folder / "val.bin")
    result = import_tokens(folder, tmp_path / "c", format="nanogpt", tokenizer="gpt2")
    assert (result["documents"], result["shards"]) == (2, 1)
    assert rows_of(tmp_path / "c", "val") == [[15496, 995, 50256], [15496, 50256]]
