"""Command lines without two seconds of start: what a test starts is a client, and a fork of one
process that has loaded gristmill (command_server.py) does the work.

For tests of what a command says and does; a client that is killed kills its command. Tests of the
start itself and of signals to a group start `python -m gristmill`, and so do all tests where a fork
is not safe (macOS).
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from gristmill.engine.server import FORKS
from tests.support import ROOT

HERE = Path(__file__).parent
# As they are before a test changes them.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
TEMPORARY = tempfile.gettempdir()


@cache
def _address() -> str:
    """Start the server, once in this process; the file of its socket."""
    folder = tempfile.mkdtemp(prefix="gm-", dir=TEMPORARY)  # names of sockets are short
    address = f"{folder}/s"
    process = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "command_server.py"), address],
        stdin=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    atexit.register(_end, process, folder)
    until = time.monotonic() + 900  # kernels may have to be compiled
    while not Path(address).exists():
        assert process.poll() is None, "the command server has ended"
        assert time.monotonic() < until, "the command server does not start"
        time.sleep(0.02)
    return address


def _end(process: "subprocess.Popen[bytes]", folder: str) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)
    shutil.rmtree(folder)


def command_line(*words: object) -> list[str]:
    """The command line `gristmill WORDS`, to be given to subprocess."""
    client = [sys.executable, "-m", "gristmill"]
    if FORKS:
        client = [sys.executable, "-I", "-S", str(HERE / "command_client.py"), _address()]
    return [
        *client,
        *(os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words),
    ]


def program_line(path: Path) -> list[str]:
    """The command line `python PATH`, but in a fork that has loaded gristmill."""
    return command_line("--script", path) if FORKS else [sys.executable, str(path)]


def script(folder: Path) -> Path:
    """A program named `gristmill` in this folder, for shells."""
    path = folder / "gristmill"
    words = " ".join(f"'{word}'" for word in command_line())
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)
    return path
