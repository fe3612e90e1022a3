"""Who may change a corpus: one run alone, or the jobs of one that each do a part of its shards."""

import fcntl
import os
import time
from pathlib import Path

from gristmill.errors import MachineError

PATIENCE = 3.0  # seconds: workers of a killed run notice and go


def take(path: Path, busy: str, *, shared: bool = False) -> int:
    """Lock a file, which is made; its descriptor, which workers inherit.

    `shared`: beside others that share it. `busy` says what is wrong where it is held otherwise.
    Raises MachineError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(handle)
                raise MachineError(busy) from None
            time.sleep(0.05)
        else:
            return handle
