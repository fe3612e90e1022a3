"""What one sees at the command line when something is wrong: a message, an exit code, and never a
traceback.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from gristmill.demonstration.server import serving
from tests.support.command import command_line
from tests.support.corpora import jsonl, pages, record


class Told(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    error: str

    @property
    def last(self) -> str:
        """The line that says why."""
        return self.error.strip().splitlines()[-1] if self.error.strip() else ""


def gristmill(*words: object, cwd: Path) -> Told:
    """Run a command as a user does; it never answers with a traceback."""
    # The folder for kernels stays the user's own: they would be compiled again for each test.
    own = ["--cache-dir", "cache"] if words[0] == "run" and "--cache-dir" not in words else []
    done = subprocess.run(
        command_line(*words, *own),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr[-2000:]
    return Told(done.returncode, done.stdout, done.stderr)


RECIPE = '[[source]]\nname = "web"\n{shards}\n[deduplicate]\nnear = {{}}\n'


def write(folder: Path, shards: str, more: str = "") -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(shards=shards) + more)
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / f"raw/{name}.jsonl").write_bytes(jsonl(pages(6, name)))
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished corpus in it, for copies."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "a.jsonl").write_bytes(jsonl(pages(6, "a")))
    write(folder, 'files = ["a.jsonl"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=folder)
    assert told.code == 0, told.error
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_unknown_key_is_told_with_file_line_and_suggestion(raw: Path) -> None:
    write(raw, 'files = ["raw/*"]', '[[step]]\nuse = "gopher"\nmin_word = 7\n')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert (told.code, told.out) == (2, "")
    assert (
        told.error
        == "gristmill: recipe.toml:8: step[0].min_word: unknown key; did you mean 'min_words'?\n"
    )
    assert not (raw / "corpus").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "none.toml"],
            "none.toml: there is no such file; `gristmill init recipe.toml` writes one",
        ),
        (["run", "none.jsonl", "--out", "corpus"], "none.jsonl: no such file"),
        (["run", "raw/a.jsonl"], "files alone need --out DIR, the corpus' folder"),
        (
            ["run", "recipe.toml"],
            "no output: name a folder in the recipe (output = ...) or with --out",
        ),
        (["run", "recipe.toml", "--out", "corpus", "--set", "seed"], "--set seed: write key=value"),
        (
            ["run", "recipe.toml", "--out", "corpus", "--until", "lunch"],
            "--until lunch: no such phase; there are plan, fetch",
        ),
        (["run", "recipe.toml", "--out", "corpus", "--plan", "none.json"], "none.json is no plan"),
        (["run", "recipe.toml", "--out", "corpus", "--plan", "raw/a.jsonl"], "a.jsonl is no plan"),
        (["run", "recipe.toml", "--out", "corpus", "--tokenizer", "none.json"], "none.json"),
        (["run", "recipe.toml", "--out", "corpus", "--tokenizer", "raw/a.jsonl"], "a.jsonl"),
        (["run", "recipe.toml", "--out", "corpus", "--limit", "0"], "--limit"),
        (["run", "recipe.toml", "--out", "corpus", "--workers", "none"], "--workers"),
        (["run", "recipe.toml", "--out", "corpus", "--colour"], "--colour"),
        (
            ["run", "glob.toml", "--out", "corpus"],
            "source 'web' has no shards: its files and lists name nothing that is there",
        ),
        (["run", "file.toml", "--out", "corpus"], "raw/none.jsonl: no such file"),
        (["milk"], "milk"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_as_asked_ends_with_2(
    raw: Path, words: list[str], message: str
) -> None:
    write(raw, 'files = ["raw/*.none"]').rename(raw / "glob.toml")
    write(raw, 'files = ["raw/a.jsonl", "raw/none.jsonl"]').rename(raw / "file.toml")
    write(raw, 'files = ["raw/*"]')
    told = gristmill(*words, cwd=raw)
    assert told.code == 2, told.error
    assert message in told.error
    assert not (raw / "corpus/manifest.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "raw"],
        ["verify", "none"],
        ["status", "none"],
        ["why", "raw", "0:0"],
        ["export", "raw", "--out", "out"],
    ],
    ids=" ".join,
)
def test_a_folder_that_is_no_corpus_is_told(raw: Path, words: list[str]) -> None:
    told = gristmill(*words, cwd=raw)
    assert told.code in (2, 4)
    assert told.last.startswith("gristmill: ")
    assert words[1] in told.last


def test_a_shard_that_the_server_does_not_have(raw: Path) -> None:
    (raw / "raw/b.jsonl").rename(raw / "kept")
    with serving(raw / "raw") as address:
        write(raw, "urls = [" + ", ".join(f'"{address}/{name}.jsonl"' for name in "abc") + "]")
        told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
        assert told.code == 3
        assert f"{address}/b.jsonl: the server answered 404" in told.error
        assert told.last.startswith(
            "gristmill: 1 of 3 raw shards failed; the others are done and kept."
        )
        assert "--allow-missing" in told.last
        assert not (raw / "corpus/manifest.json").exists()
        assert len(list((raw / "cache").rglob("objects/*"))) == 2

        # Without it, and it is on record.
        told = gristmill("run", "recipe.toml", "--out", "without", "--allow-missing", cwd=raw)
        assert told.code == 0
        shards = json.loads((raw / "without/manifest.json").read_text())["raw_shards"]
        assert [bool(shard["missing"]) for shard in shards] == [False, True, False]
        assert shards[1]["missing"] == "not-found"
        assert (shards[1]["sha256"], shards[1]["documents"]) == (None, 0)
        assert gristmill("verify", "without", cwd=raw).code == 0

        # It came back: run again, and all is there.
        (raw / "kept").rename(raw / "raw/b.jsonl")
        told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
        assert told.code == 0
    shards = json.loads((raw / "corpus/manifest.json").read_text())["raw_shards"]
    assert [(shard["missing"], shard["documents"]) for shard in shards] == [(None, 6)] * 3


def test_a_url_with_a_user_and_a_signature_leaves_neither_behind(raw: Path) -> None:
    with serving(raw / "raw") as address:
        host = address.removeprefix("http://")
        write(raw, f'urls = ["http://user:pw@{host}/a.jsonl?X-Amz-Signature=s3cret"]')
        told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
        assert told.code == 0
        for path in [
            *(raw / "corpus").rglob("*.json"),
            raw / "corpus/recipe.toml",
            *(raw / "corpus").rglob("manifest*"),
        ]:
            assert not [
                word
                for word in ("user:", "pw@", "s3cret")
                if word in path.read_text() and path.name != "funnel.json"
            ]
        write(raw, f'urls = ["http://user:pw@{host}/none.jsonl?token=s3cret"]')
        told = gristmill("run", "recipe.toml", "--out", "other", cwd=raw)
    assert told.code == 3
    assert not [word for word in ("pw@", "s3cret") if word in told.error + told.out]


def test_pages_without_a_step_that_takes_their_text_out_are_refused(raw: Path) -> None:
    write(raw, 'kind = "warc"\nfiles = ["raw/a.jsonl"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert told.code == 2
    assert 'put a [[step]] with use = "extract" before the others' in told.error
    assert gristmill("run", "recipe.toml", "--out", "corpus", "--until", "fetch", cwd=raw).code == 0


def test_a_local_file_that_changed_after_it_was_pinned(raw: Path) -> None:
    write(raw, 'files = ["raw/*"]')
    assert gristmill("run", "recipe.toml", "--out", "corpus", "--until", "fetch", cwd=raw).code == 0
    path = raw / "raw/b.jsonl"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"the", b"eht"))
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert told.code == 2
    assert "b.jsonl (raw shard 1: sha256 " in told.last
    assert hashlib.sha256(before).hexdigest() in told.last
    assert "run with --replace" in told.last
    assert not (raw / "corpus/manifest.json").exists()
    # Gone, it is told before anything is read.
    path.unlink()
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert (told.code, "b.jsonl (raw shard 1: the file is not there)" in told.error) == (2, True)


def test_a_shard_that_cannot_be_read_stops_no_other(raw: Path) -> None:
    (raw / "raw/b.jsonl").write_bytes(b"PAR1 and nothing more PAR1")
    write(raw, 'files = ["raw/*"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert told.code == 3
    assert (
        "process failed for 1: shard 00001 (raw/b.jsonl): not a readable Parquet file" in told.last
    )
    assert sorted(path.name for path in (raw / "corpus/work/state/process").iterdir()) == [
        "00000.json",
        "00002.json",
    ]
    told = gristmill("run", "recipe.toml", "--out", "corpus", "--allow-missing", cwd=raw)
    assert told.code == 0
    shards = json.loads((raw / "corpus/manifest.json").read_text())["raw_shards"]
    assert shards[1]["missing"] == "damaged"


def test_an_empty_file_is_a_corpus_without_documents(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    write(tmp_path, 'files = ["empty.jsonl"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=tmp_path)
    assert told.code == 6, told.error
    assert "shard 00000 (empty.jsonl): empty, 0 bytes" in told.error
    assert told.last.endswith("nothing is kept: the raw shards hold no document")
    assert told.out.splitlines()[0].split() == ["documents", "in", "0"]
    assert ["kept", "0"] in [line.split() for line in told.out.splitlines()]


def test_what_looks_like_one_text_among_tables_is_refused(tmp_path: Path) -> None:
    """A message of a server, saved under a name without an ending, is not a document of a source
    of JSONL.
    """
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "part-0").write_text(
        '{"text": "A page about rivers."}\n{"text": "A page about hills."}\n'
    )
    (raw / "part-1").write_text("Too many requests. Try again later.\n")
    (raw / "README.md").write_text("Where these pages are from.\n")
    write(tmp_path, 'files = ["raw/*"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=tmp_path)
    assert told.code == 3, told.error
    assert (
        "part-1): not text, perhaps: text among shards of jsonl" in told.error
        and "README" not in told.error
    )
    told = gristmill("run", "recipe.toml", "--out", "corpus", "--allow-missing", cwd=tmp_path)
    assert told.code == 0, f"{told.code}: {told.error}"
    shards = json.loads((tmp_path / "corpus/manifest.json").read_text())["raw_shards"]
    assert [shard["missing"] for shard in shards] == [None, None, "not-text"]
    write(
        tmp_path,
        'files = ["raw/part-0"]\n\n'
        '[[source]]\nname = "said"\nkind = "text"\nfiles = ["raw/part-1"]',
    )
    told = gristmill("run", "recipe.toml", "--out", "other", cwd=tmp_path)
    assert told.code == 0, f"{told.code}: {told.error}"


def test_every_row_that_is_no_document_stands_in_the_funnel(tmp_path: Path) -> None:
    good = [
        record(f"Text of page {number}.".encode(), f"http://pages.example/{number}", number)
        for number in range(4)
    ]
    bad = [
        record(b"short", "http://pages.example/4", 4, length=999),
        record(b"<p>", "http://pages.example/5", 5, kind="response"),
    ]
    (tmp_path / "a.wet").write_bytes(
        b"".join([good[0], bad[0], good[1], bad[1], good[2], good[3][:-30]])
    )
    # The URL of the second file's first line tries to drive the terminal.
    (tmp_path / "b.jsonl").write_bytes(
        (
            b'{"text": "a", "url": "http://pages.example/\\u001b]0;title\\u0007"}\nnot '
            b'json\n{"no": "text"}\n\n{"text": "'
        )
        + b"x" * 3000
        + b'"}\n'
    )
    write(tmp_path, 'files = ["a.wet", "b.jsonl"]\nmax_document_bytes = 2000')
    told = gristmill("run", "recipe.toml", "--out", "corpus", "--json", cwd=tmp_path)
    assert told.code == 0, told.error
    funnel = json.loads(told.out.splitlines()[-1])
    assert funnel["steps"][0] == {
        "step": "read",
        "dropped": 6,
        "left": 4,
        "reasons": {
            "read.no_text": 1,
            "read.not_json": 1,
            "read.not_text": 1,
            "read.too_large": 1,
            "read.truncated": 1,
            "read.wrong_length": 1,
        },
    }
    offset = len(good[0])
    told = gristmill("why", "corpus", "0:1", cwd=tmp_path)
    assert told.code == 0
    assert "wrong_length" in told.out
    assert str(offset) in told.out.replace(",", "")
    told = gristmill("why", "corpus", "1:0", cwd=tmp_path)
    assert told.code == 0
    assert "\\x1b" in told.out
    assert "\x1b" not in told.out + told.error
    assert "\x07" not in told.out + told.error


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda corpus: (corpus / "manifest.json").write_text(
                (corpus / "manifest.json").read_text().replace('"kept": ', '"kept": 1')
            ),
            "manifest.json and manifest.lock disagree",
        ),
        (lambda corpus: (corpus / "manifest.lock").unlink(), "got no lock"),
        (lambda corpus: (corpus / "manifest.json").unlink(), "manifest"),
        (
            lambda corpus: (corpus / "manifest.lock").write_bytes(b""),
            "manifest.json and manifest.lock disagree",
        ),
    ],
    ids=["manifest edited", "lock removed", "manifest removed", "lock emptied"],
)
def test_a_corpus_whose_manifest_and_lock_disagree_is_touched_by_nothing(
    copy: Path, harm: object, message: str
) -> None:
    harm(copy / "corpus")  # type: ignore[operator]
    before = tree(copy / "corpus")
    for words in (["run", "recipe.toml", "--out", "corpus"], ["verify", "corpus"]):
        told = gristmill(*words, cwd=copy)
        assert told.code == 4, told.error
        assert message in told.last
        assert "corpus" in told.last
    assert tree(copy / "corpus") == before


def test_a_part_that_was_changed_is_found_and_a_part_that_is_gone_is_made_again(copy: Path) -> None:
    part = copy / "corpus/documents/00000.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    told = gristmill("verify", "corpus", cwd=copy)
    assert (told.code, "documents/00000.parquet" in told.error) == (4, True)
    part.unlink()
    assert gristmill("run", "recipe.toml", "--out", "corpus", cwd=copy).code == 0
    assert part.read_bytes() == whole


@pytest.mark.parametrize(
    "words",
    [["--out", "file"], ["--out", "file/below"], ["--out", "corpus", "--cache-dir", "file"]],
    ids=" ".join,
)
def test_a_folder_that_is_a_file_ends_with_5(raw: Path, words: list[str]) -> None:
    (raw / "file").write_text("precious")
    with serving(raw / "raw") as address:
        write(raw, f'urls = ["{address}/a.jsonl"]')
        told = gristmill("run", "recipe.toml", *words, cwd=raw)
    assert told.code == 5
    assert "file" in told.last
    assert (raw / "file").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_ends_with_5(raw: Path) -> None:
    (raw / "closed").mkdir(mode=0o500)
    write(raw, 'files = ["raw/*"]')
    told = gristmill("run", "recipe.toml", "--out", "closed/corpus", cwd=raw)
    assert told.code == 5
    assert "closed" in told.last
    assert "Choose another output folder" in told.last


def test_a_folder_with_files_of_ones_own_loses_none_of_them(tmp_path: Path) -> None:
    for name in ("text/mine.txt", "documents/letter.txt", "tokens/secret.txt"):
        (tmp_path / "home" / name).parent.mkdir(parents=True)
        (tmp_path / "home" / name).write_text("precious")
    told = gristmill("run", "home/text/mine.txt", "--out", "home", cwd=tmp_path)
    assert told.code in (0, 2, 5)
    for name in ("text/mine.txt", "documents/letter.txt", "tokens/secret.txt"):
        assert (tmp_path / "home" / name).read_text() == "precious"


def test_a_corpus_finished_with_an_absence_is_finished(raw: Path) -> None:
    write(raw, 'urls = ["http://127.0.0.1:9/none.jsonl"]\nfiles = ["raw/*"]')
    assert gristmill("run", "recipe.toml", "--out", "corpus", "--allow-missing", cwd=raw).code == 0
    before = (raw / "corpus/manifest.json").read_bytes()
    told = gristmill("run", "recipe.toml", "--out", "corpus", "--allow-missing", cwd=raw)
    assert (told.code, (raw / "corpus/manifest.json").read_bytes() == before) == (0, True)


def test_a_recipe_in_the_corpus_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n')
    recipe = write(tmp_path, 'files = ["a.jsonl"]', "# my own notes\n")
    before = recipe.read_bytes()
    gristmill("run", "recipe.toml", "--out", ".", cwd=tmp_path)
    assert recipe.read_bytes() == before


def test_input_that_is_merely_odd_is_read_or_told(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "raw").mkdir()
    pq.write_table(
        pa.table({"text": ["a"], "when": pa.array([1], pa.timestamp("ns"))}),
        tmp_path / "raw/nanoseconds",
    )
    (tmp_path / "raw/deep").write_bytes(
        b'{"text": "a", "deep": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n"
    )
    (tmp_path / "raw/marked").write_bytes(b'\xef\xbb\xbf{"text": "a"}\n')
    write(tmp_path, 'files = ["raw/*"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", "--json", cwd=tmp_path)
    assert told.code == 0
    assert json.loads(told.out.splitlines()[-1])["documents"] == 3
    (tmp_path / "raw" / os.fsdecode(b"\xff")).write_bytes(b"a")
    told = gristmill("run", "recipe.toml", "--out", "other", cwd=tmp_path)
    assert (told.code, "is not UTF-8" in told.last) == (2, True)


def test_what_is_no_text_fails_its_shard_and_stops_no_other(raw: Path) -> None:
    (raw / "raw/b.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(90))
    (raw / "raw/c.jsonl").write_bytes(
        gzip.compress(b"<!DOCTYPE html><html><title>Log in</title></html>")
    )
    (raw / "raw/d.jsonl").write_bytes(b"# a comment\n" + jsonl(pages(6, "d")))
    (raw / "raw/e.txt").write_bytes(b"")
    write(raw, 'files = ["raw"]')
    told = gristmill("run", "recipe.toml", "--out", "raw/corpus", cwd=raw)
    assert told.code == 3
    for line in (
        "shard 00001 (raw/b.jsonl): not text: looks like a PNG image; to read it all the same, ",
        "shard 00002 (raw/c.jsonl): not text: looks like an HTML page",
    ):
        assert f"failed: process: {line}" in told.error
    told = gristmill(
        "run", "recipe.toml", "--out", "raw/corpus", "--allow-missing", "--json", cwd=raw
    )
    assert told.code == 0, told.error
    assert "shard 00004 (raw/e.txt): empty, 0 bytes" in told.out
    shards = json.loads((raw / "raw/corpus/manifest.json").read_text())["raw_shards"]
    assert [(shard["kind"], shard["documents"]) for shard in shards if not shard["missing"]] == [
        ("jsonl", 6),
        ("jsonl", 7),
        ("text", 0),
    ]
    assert json.loads(told.out.splitlines()[-1])["steps"][0]["reasons"] == {"read.not_json": 1}
    # A folder on the command line, with the corpus inside it.
    told = gristmill("run", "raw", "--out", "raw/other", "--allow-missing", cwd=raw)
    assert told.code == 0, told.error
    shards = json.loads((raw / "raw/other/manifest.json").read_text())["raw_shards"]
    assert [shard["url"] for shard in shards] == [
        f"raw/{name}" for name in ("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.txt")
    ]


def test_a_kind_that_is_said_is_believed(raw: Path) -> None:
    (raw / "raw/d.txt").write_bytes(b"")
    write(raw, 'kind = "text"\nfiles = ["raw/*"]')
    told = gristmill("run", "recipe.toml", "--out", "corpus", cwd=raw)
    assert (told.code, told.out.splitlines()[0].split()) == (0, ["documents", "in", "3"]), (
        told.error
    )
    write(raw, 'kind = "html"\nfiles = ["raw/*"]')
    assert 'kind = "html"' in gristmill("run", "recipe.toml", "--out", "other", cwd=raw).error
