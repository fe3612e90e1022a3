"""Files as arrays: no descriptor stays, and a mapping ends with its last array."""

import gc
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from gristmill.errors import MachineError
from gristmill.store.mapped_file import Recent, map_file


def mappings(path: Path) -> int:
    with open("/proc/self/maps") as file:
        return sum(str(path) in line for line in file)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc")
def test_it_lives_as_long_as_an_array_of_it(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    numbers = np.arange(5000, dtype="<u2")
    path.write_bytes(b"abc" + numbers.tobytes())
    before = len(os.listdir("/proc/self/fd"))
    tail = map_file(path, "<u2", 3)[4000:]
    assert len(os.listdir("/proc/self/fd")) == before
    gc.collect()
    assert np.array_equal(tail, numbers[4000:])
    assert mappings(path) == 1
    with pytest.raises(ValueError, match="read-only"):
        tail[0] = 1
    del tail
    gc.collect()
    assert mappings(path) == 0
    assert map_file(path, "<u2", 20_000).tolist() == []


def test_no_more_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes(8))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        with pytest.raises(OSError, match="open files"):
            while True:
                held.append(os.open(path, os.O_RDONLY))
        with pytest.raises(MachineError, match="numbers: not opened, as this process"):
            map_file(path, "<u2")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for handle in held:
            os.close(handle)
    with pytest.raises(FileNotFoundError):
        map_file(tmp_path / "none", "<u2")


def test_the_least_recently_used_goes_first() -> None:
    made: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        return key * key

    recent = Recent(make, 2)
    assert [recent[key] for key in (1, 2, 1, 3, 1, 2)] == [1, 4, 1, 9, 1, 4]
    assert made == [1, 2, 3, 2]
    assert len(recent) == 2
    assert 3 not in recent
