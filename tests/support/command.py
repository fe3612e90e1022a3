"""Command lines without two seconds of start: what a test starts is a client, and a fork of one
process that has loaded gristmill (command_server.py) does the work.

For tests of what a command says and does. Tests of the start itself, of kills and of signals start
`python -m gristmill`.
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

from tests.support import ROOT

HERE = Path(__file__).parent


@cache
def _address() -> str:
    """Start the server, once in this process; the file of its socket."""
    folder = tempfile.mkdtemp(prefix="gm-")  # sockets have short names
    address = f"{folder}/s"
    process = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "command_server.py"), address],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    atexit.register(_end, process, folder)
    until = time.monotonic() + 300  # kernels may have to be compiled
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
    client = [sys.executable, "-I", "-S", str(HERE / "command_client.py"), _address()]
    return [
        *client,
        *(os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words),
    ]


def script(folder: Path) -> Path:
    """A program named `gristmill` in this folder, for shells."""
    path = folder / "gristmill"
    words = " ".join(f"'{word}'" for word in command_line())
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)
    return path
