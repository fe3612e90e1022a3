"""Processes, as /proc shows them."""

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The processes that descend from one."""
    mine = [
        int(word)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for word in path.read_text().split()
    ]
    return mine + [further for child in mine for further in descendants(child)]
