"""What servers, file names and recipes say reaches a terminal escaped, whatever it is: ANSI
sequences, bidirectional controls, line feeds.
"""

import json
import os
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gristmill.errors import GristmillError, RecipeError, SourceError, printable
from gristmill.progress.terminal import to_json
from gristmill.store.cache import Cache
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import faults
from tests.support.command import command_line
from tests.support.faults import Reply, Site, site

ANSI = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m"
BIDI = "\u202eevil\u202c\u2066x\u2069\u200e\u200f\u061c"
INVISIBLE = "\u200b\u00ad\ufeff\u2028\U000e0041"
HOSTILE = ANSI + BIDI


def clean(text: str) -> bool:
    """Whether a terminal shows a text as it is: no control, bidirectional or invisible character
    but line feeds.
    """
    return not [
        c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as here:
        yield here


def hostile(status: int, **headers: str) -> faults.Fault:
    """An answer whose words and headers try to drive a terminal; they go out as UTF-8, and as
    Latin-1 where they are a C1 control.
    """

    def raw(text: str) -> str:
        return text.encode().decode("latin-1")

    def fault(here: Site, path: str, reply: Reply) -> Reply:
        said = {name.replace("_", "-"): raw(value) for name, value in headers.items()}
        return replace(Reply(status, said, b"a page"), reason=raw(HOSTILE) + "\x9b31m")

    return fault


def told_of(server: Site, cache: Path, url: str) -> str:
    with pytest.raises(SourceError) as error:
        Transfer(Cache(cache), Settings(backoff=0.0, retries=1, timeout=5.0)).fetch(Remote(url))
    return str(error.value)


@pytest.mark.parametrize("status", [404, 403, 503, 451])
def test_a_reason_phrase_is_escaped(server: Site, cache: Path, status: int) -> None:
    server.faults.extend([hostile(status)] * 3)
    told = told_of(server, cache, server.put("/a", b"x"))
    assert f"the server answered {status} \\x1b]0;owned\\x07" in told
    assert clean(told)


@pytest.mark.parametrize(
    "target",
    ["ftp://host/", "gopher://host/", "https://host\x9b31m/", "javascript:", "http://[::1/"],
)
def test_a_location_is_escaped(server: Site, cache: Path, target: str) -> None:
    server.faults.append(hostile(302, Location=target + HOSTILE))
    told = told_of(server, cache, server.put("/a", b"x"))
    assert clean(told), told
    assert len(told) < 2_000


def test_header_values_are_escaped_and_short(server: Site, cache: Path) -> None:
    url = server.put("/a", b"x", headers={"Content-Encoding": "x" + "\x9b31m" + "y" * 10_000})
    told = told_of(server, cache, url)
    assert "sent with Content-Encoding x\\x9b31my" in told
    assert clean(told)
    assert len(told) < 1_000
    for name in (
        "Content-Range",
        "ETag",
        "Retry-After",
        "Content-Length",
        "X-Linked-ETag",
        "Repr-Digest",
    ):
        server.faults.clear()
        server.faults.extend(
            [hostile(206, **{name.replace("-", "_"): HOSTILE.replace("\x1b", "")})] * 5
        )
        assert clean(told_of(server, cache, server.put("/b", b"x")))


def test_what_a_run_tells_is_escaped_on_both_channels(tmp_path: Path, server: Site) -> None:
    """A hostile server behind a hostile file name, as people and as machines read it."""
    name = f"evil{ANSI}{BIDI}\ngristmill: all is well.jsonl"
    (tmp_path / name).write_bytes(b'{"text": "one"}\n')
    server.put("/a.jsonl", b"{}")
    recipe = tmp_path / "recipe.toml"
    files = json.dumps([name])  # TOML's basic strings take the same escapes
    recipe.write_text(
        f'[[source]]\nname = "web"\nfiles = {files}\nurls = ["{server.address}/a.jsonl"]\n'
    )
    command = command_line("run", str(recipe), "--out", str(tmp_path / "out"), "--until", "fetch")
    command += ["--cache-dir", str(tmp_path / "cache")]
    for more in ([], ["--json"], ["--json", "--dry-run"]):
        server.faults.clear()
        server.faults.extend([hostile(404)] * 4)
        done = subprocess.run([*command, *more], capture_output=True, check=False)
        out, error = done.stdout.decode(), done.stderr.decode()
        assert clean(error), error
        assert clean(out), out
        assert not [
            line for line in (out + error).splitlines() if line.startswith("gristmill: all is well")
        ]
        if "--json" in more:
            told = [json.loads(line) for line in out.splitlines()]
            assert any(
                name in json.dumps(entry, ensure_ascii=False).replace("\\u001b", "\x1b")
                or name in str(entry.get("url"))
                or name in str(entry.get("job"))
                for entry in told
            )  # nothing is lost: it is what it was once decoded
        if "--dry-run" not in more:
            assert done.returncode == 3
            assert (
                "the server answered 404 \\x1b]0;owned" in out + error or "\\\\x1b]0;owned" in out
            )


@pytest.mark.parametrize("file", ["recipe", "missing"])
def test_recipes_and_their_names_are_escaped(tmp_path: Path, file: str) -> None:
    recipe = tmp_path / f"{ANSI}{BIDI}.toml"
    key = json.dumps(HOSTILE + "\ngristmill: all is well")
    recipe.write_text(f'[[source]]\nname = {key}\nfiles = ["a"]\n')
    what = recipe if file != "missing" else tmp_path / f"none{HOSTILE}.toml"
    command = command_line("run", os.fspath(what), "--out", str(tmp_path / "out"))
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    told = done.stderr.decode()
    assert told.startswith("gristmill: ")
    assert clean(told), told
    assert "\ngristmill: all is well" not in told


def test_bytes_that_are_no_utf_8_in_a_file_name(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff\x1b[31m.toml"
    done = subprocess.run(command_line("run", path, "--out", "x"), capture_output=True, check=False)
    assert done.returncode == 2
    assert clean(done.stderr.decode())
    assert "Traceback" not in done.stderr.decode()


def test_json_stays_json_and_hides_nothing() -> None:
    told = {
        "text": HOSTILE + INVISIBLE + '\udc80 plain ünï 漢字 🙂 "quoted\\"',
        "key" + BIDI: [1, None],
    }
    line = to_json(told)
    assert clean(line)
    assert line.isprintable()
    assert json.loads(line) == told
    assert "ünï 漢字 🙂" in line
    assert "\\u202e" in line
    assert "\\u009b" in line


def test_every_error_of_ours_escapes_what_it_says() -> None:
    for kind in (GristmillError, RecipeError, SourceError):
        assert str(kind(f"a {HOSTILE}\nb")) == f"a {printable(HOSTILE)}\nb"
        assert clean(str(kind(HOSTILE + INVISIBLE)))
    assert str(SourceError("ünï 漢字 — 10 %, ‘as is’ …")) == "ünï 漢字 — 10 %, ‘as is’ …"
