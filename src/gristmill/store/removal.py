"""Folders of large temporary files are removed on threads: with each file the system takes back the
memory that holds its pages, 0.1 s for 1 GB.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path


def remove_folder(folder: Path, threads: int) -> None:
    """Remove a folder, if it is there, and all below it; what cannot be removed stays, and a link
    is not followed: as shutil.rmtree does it.
    """
    if folder.is_symlink():
        return
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for _ in pool.map(_remove, files):
            pass
    shutil.rmtree(folder, ignore_errors=True)


def _remove(file: str) -> None:
    with suppress(OSError):
        os.unlink(file)
