"""Closed, full and unread standard streams end no verb; Ctrl-C while modules are loaded."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.token_corpora import token_corpus

GRISTMILL = f"{sys.executable} -m gristmill"


def shell(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of `gristmill COMMAND` in a shell, with its redirections, and what it said."""
    script = f"{GRISTMILL} {command}; echo $? > code"
    if "|" in command:
        script = f"set -o pipefail; {GRISTMILL} {command}; echo $? > code"
    ran = subprocess.run(
        ["bash", "-c", script], check=False, cwd=folder, capture_output=True, text=True, timeout=300
    )
    return int((folder / "code").read_text()), ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams")
    (made / "a.jsonl").write_text("".join(f'{{"text": "document {i}"}}\n' for i in range(5)))
    (made / "r.toml").write_text('[[source]]\nname = "a"\nfiles = ["a.jsonl"]\n')
    token_corpus(made / "tokens", {"web": [[1, 2, 3]]})
    return made


@pytest.mark.parametrize(
    "streams",
    [">&- 2>&- <&-", "2>/dev/full", "--json 2>&1 | head -n 1"],
    ids=["closed", "full", "unread"],
)
def test_a_run_ends_as_it_would(folder: Path, streams: str) -> None:
    out = f"corpus{len(streams)}"
    code, said = shell(f"run r.toml --out {out} --workers 1 {streams}", folder)
    assert (code, "Traceback" in said) == (0, False)
    assert (folder / out / "manifest.lock").exists()


def test_no_file_gets_the_number_of_a_closed_stream(folder: Path) -> None:
    """What a library writes to descriptor 1 or 2 would be in a part."""
    check = "import os, gristmill.system.output_streams as s; s.open_streams()\n"
    check += "raise SystemExit(os.open('x', os.O_WRONLY | os.O_CREAT) < 3)"
    ran = subprocess.run(
        ["bash", "-c", f'exec {sys.executable} -c "$0" >&- 2>&- <&-', check],
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 0


def test_a_result_that_a_disk_lost_is_an_error(folder: Path) -> None:
    code, said = shell("status tokens > /dev/full", folder)
    assert code == 5
    assert said == (
        "gristmill: standard output: No space left on device: a part of the result was not "
        "written. What the command did is done\n"
    )
    assert shell("status tokens | head -n 1 > /dev/null", folder) == (0, "")
    assert shell("status tokens --watch --interval 0.1 | head -n 1 > /dev/null", folder) == (0, "")
    assert shell("status nowhere 2> /dev/full", folder)[0] == 2


def test_ctrl_c_while_modules_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("print('here', flush=True)\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "gristmill: interrupted\n")
