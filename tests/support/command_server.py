"""A process that has loaded gristmill and forks for every command line: a start of Python with all
modules costs two seconds of processor time, a fork costs some hundredths.

`python command_server.py SOCKET`; it ends when its standard input does. Each connection sends a
command line as JSON, with the three standard streams, and gets the exit status; a client that goes
away before that kills its command. `--script FILE` in the place of a command runs a program.
"""

import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

import gristmill.cli.model
import gristmill.cli.run
import gristmill.engine.preload
import gristmill.pipeline
import gristmill.reports.integrity.verify
import gristmill.reports.planning.rejudge  # noqa: F401
from gristmill.cli import app as cli
from gristmill.engine import server
from gristmill.kernels.jit import compile as kernels
from gristmill.system import interpreter


def _become(asked: dict[str, Any], handles: list[int]) -> int:
    """Run the command line in this process, as `python -m gristmill` does; its exit status."""
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["gristmill", *(os.fsdecode(bytes.fromhex(word)) for word in asked["words"])]
    sys.path.insert(0, asked["folder"])
    interpreter.STOOD = asked["folder"]
    tempfile.tempdir = None
    pa.set_cpu_count(os.cpu_count() or 1)
    server.fork()  # workers come from a fork too, not from one more Python that loads all modules
    code: Any = 0
    try:
        if sys.argv[1:2] == ["--script"]:
            sys.argv = sys.argv[2:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            cli.main()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    server._end()
    return code or 0


def _serve(connection: socket.socket) -> None:
    """One command line, in a process of its own, and its exit status to the client."""
    data, handles, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 20)
        if not more:  # the client was killed before it had asked
            return
        data += more
    child = os.fork()
    if child == 0:
        code = 1
        try:
            connection.close()
            code = _become(json.loads(data), handles)
        finally:
            os._exit(code)
    for handle in handles:
        os.close(handle)
    while True:
        number, how = os.waitpid(child, os.WNOHANG)
        if number:
            connection.send(f"{os.waitstatus_to_exitcode(how)}\n".encode())
            return
        if select.select([connection], [], [], 0.004)[0]:  # the client is not there any more
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return


def main(address: str) -> None:
    """Serve until standard input ends."""
    kernels.import_all()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address + ".new")
        listening.listen(100)
        Path(address + ".new").rename(address)
        while listening in select.select([listening, 0], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                try:
                    listening.close()
                    _serve(connection)
                finally:
                    os._exit(0)
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


if __name__ == "__main__":
    main(sys.argv[1])
