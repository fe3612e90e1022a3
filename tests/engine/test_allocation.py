"""Memory that workers free: kept during a task, given back after it; pages of libraries that an
idle process lets go of.
"""

import ctypes
import gc
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gristmill.engine import allocation, server
from gristmill.engine.engine import Job
from gristmill.engine.executor import threads_with
from gristmill.engine.local import LocalEngine
from gristmill.system.arrow_setup import LIBRARIES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only glibc is asked")


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def use_memory(size: int, _: Callable[[int], None]) -> tuple[int, int, str]:
    """(resident bytes before anything is taken, more of them after it is freed, Arrow's pool)."""
    before = resident()
    arrays = [np.ones(size // 8, np.uint8) for _ in range(8)]
    pin = pa.array([1])  # something behind them that stays
    del arrays
    return before, resident() - before, pa.default_memory_pool().backend_name + str(len(pin))[:0]


def test_freed_memory_is_kept_until_the_task_ends() -> None:
    if allocation._glibc() is None:
        pytest.skip("the C library is not glibc")
    size = 64 << 20
    with LocalEngine(1) as engine:
        found = [
            event.result
            for _ in range(2)
            for event in engine.run([Job("one", use_memory, size)])
            if event.result
        ]
    (first, kept, pool), (second, _, _) = found
    assert pool in (pa.supported_memory_backends()[0], "system")
    assert kept > size // 2
    assert second - first < size // 2


def held_after_stages(size: int, _: Callable[[int], None]) -> tuple[int, int]:
    """(resident bytes before, more of them after two stages of tasks on threads)."""
    before = resident()
    for _stage in range(2):
        assert len(list(threads_with(2)(freed, [size] * 4))) == 4
    return before, resident() - before


def freed(size: int) -> int:
    """Take many small pieces of memory, which do not go back by themselves, and free them."""
    return len([np.ones(size // 8 >> 10, np.uint8) for _ in range(8 << 10)])


def test_what_a_stage_of_a_whole_task_frees_is_given_back() -> None:
    if allocation._glibc() is None:
        pytest.skip("the C library is not glibc")
    size = 64 << 20
    with LocalEngine(1) as engine:
        jobs = [Job("one", held_after_stages, size)]
        ((_, held),) = [event.result for event in engine.run(jobs) if event.result]
    assert held < size // 4  # 128 MB where nothing is given back


def libraries_of(names: list[str], _: Callable[[int], None]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def test_workers_have_the_settings_that_the_user_has_not_set() -> None:
    mine = {name: value for name, value in os.environ.items() if name not in LIBRARIES}
    for said in ({}, {"MIMALLOC_PURGE_DELAY": "7"}):
        assert printed_by(ASKS, mine | said).strip() == str({**LIBRARIES, **said})


ASKS = """
from test_allocation import libraries_of
from gristmill.system.arrow_setup import LIBRARIES
from gristmill.engine.engine import Job
from gristmill.engine.local import LocalEngine

with LocalEngine(1) as engine:
    print(*[event.result for event in engine.run([Job("one", libraries_of, list(LIBRARIES))])])
"""


def printed_by(code: str, environment: dict[str, str] | None = None) -> str:
    """What a fresh process prints that runs this code beside this file."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        env=environment,
    ).stdout


def of_libraries(process: int | str = "self") -> int:
    """Bytes of files that a process has mapped and read, shared or not."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"^RssFile:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_code_that_was_read_is_let_go_of_and_works_again() -> None:
    before, after, *works = printed_by(
        LETS_GO
    ).split()  # bytes, bytes, then what the libraries answer
    assert int(before) > 40 << 20  # LLVM's and Arrow's
    assert int(after) < int(before) // 2
    assert works[0] == "3"
    assert works[1]


LETS_GO = """
import llvmlite.binding as llvm
import pyarrow as pa
import pyarrow.compute as pc
from test_allocation import of_libraries
from gristmill.engine import allocation

pc.sum(pa.array([1]))
llvm.get_process_triple()
before = of_libraries()
allocation.let_go_of_code()
print(before, of_libraries(), pc.sum(pa.array([1, 2])), llvm.get_process_triple().split("-")[0])
"""


def test_pages_that_are_no_longer_the_files_stay(tmp_path: Path) -> None:
    """As the loader's corrections of addresses are: written, then made read-only."""
    file = tmp_path / "a file\nof 2 names"
    file.write_bytes(b"f" * (2 * mmap.PAGESIZE))
    library = ctypes.CDLL(None, use_errno=True)
    with file.open("rb") as opened:
        maps = [
            mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | write)
            for write in (mmap.PROT_WRITE, 0)
        ]
    own, same = (np.frombuffer(mapping, np.uint8) for mapping in maps)
    own[5] = ord("w")
    address = ctypes.c_void_p(own.ctypes.data)
    assert library.mprotect(address, ctypes.c_size_t(len(own)), mmap.PROT_READ) == 0
    starts = {start for start, _ in allocation._of_files()}
    assert own.ctypes.data not in starts
    assert same.ctypes.data in starts
    allocation.let_go_of_code()
    assert own[5] == ord("w")
    assert same.tobytes() == file.read_bytes()


def test_the_fork_server_holds_few_pages_of_libraries() -> None:
    started = server.start()
    if not isinstance(started, server.ForkServer):
        pytest.skip("there is no fork server on this system")
    with LocalEngine(1) as engine:  # a worker has run: the server has loaded all
        list(engine.run([Job("one", use_memory, 1 << 20)]))
    until = time.monotonic() + 30  # it may be loading still
    while of_libraries(started._process.pid) >= 30 << 20:  # 120 MB with what loading has read
        assert time.monotonic() < until
        time.sleep(0.1)


def test_collections_go_on_after_loading() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), allocation.without_collections():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    gc.disable()
    try:
        with allocation.without_collections():
            pass
        assert not gc.isenabled(), "as the caller had it"
    finally:
        gc.enable()


def test_workers_of_the_command_line_collect(tmp_path: Path) -> None:
    code = f"""
import gc
from gristmill.cli.run import load_and_fork
load_and_fork()
from gristmill.engine.engine import Job
from gristmill.engine.local import LocalEngine
with LocalEngine(1) as engine:
    job = Job("collects", {__name__}.collects, None)
    assert [event.result for event in engine.run([job])] == [True]
assert gc.isenabled()
"""
    script = tmp_path / "script.py"
    script.write_text(f"import {__name__}\n{code}")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, str(script)], check=True, env=environment)


def collects(task: None, on_progress: Callable[[int], None]) -> bool:
    """Whether this process collects garbage."""
    return gc.isenabled()
