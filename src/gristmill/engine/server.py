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
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    if threading.current_thread() is not threading.main_thread():
        forkserver.ensure_running()
        return context
    # Deaf to Ctrl-C, which the terminal sends to it as well: what is blocked stays so across exec, and for us it only waits.
    # The tracker comes first: starting, it lifts the block.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context
