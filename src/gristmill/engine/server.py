"""Python's fork server, started early: it loads the heavy modules while the parent is still loading its own."""

import multiprocessing
import signal
import sys
import threading
from multiprocessing.context import BaseContext

PRELOAD = ["gristmill.engine.preload"]


def start() -> BaseContext:
    """Start the fork server where fork is safe, and return the context that workers come from (macOS: spawn)."""
    if sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    if threading.current_thread() is not threading.main_thread():
        forkserver.ensure_running()
        return context
    # Deaf to Ctrl-C, which the terminal sends to it as well: what is ignored stays so across exec.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)
    return context
