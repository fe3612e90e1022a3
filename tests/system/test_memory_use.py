"""The memory that is free, of the machine and of its container."""

from pathlib import Path

import pytest

from gristmill.system import memory_use
from gristmill.system.memory_use import free_memory


def test_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_use, "PROC", tmp_path)
    monkeypatch.setattr(memory_use, "LIMITS", (tmp_path / "max", tmp_path / "limit"))
    assert free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\n")
    assert free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert free_memory() == 5000 * 1024
    (tmp_path / "max").write_text("max\n")
    assert free_memory() == 5000 * 1024
    (tmp_path / "limit").write_text("4096000\n")
    assert free_memory() == 4096000
    (tmp_path / "max").write_text("2048\n")
    assert free_memory() == 2048
