"""Ctrl-C in the command line. Imports nothing that takes time: the first thing that is loaded."""

import os
import signal
from collections.abc import Callable
from typing import Any


class CtrlC:
    """A handler of Ctrl-C that is never lost: Python drops a KeyboardInterrupt that is raised
    inside some of its own callbacks (of a weak reference, of an import).
    """

    def __init__(self) -> None:
        self._interrupted = False

    def __call__(self, number: int, frame: Any) -> None:
        self._interrupted = True
        raise KeyboardInterrupt

    def within(self, show: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """Return `show`, which raises a KeyboardInterrupt that was dropped at the next event."""

        def checked(event: dict[str, Any]) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            show(event)

        return checked


def exit_on_ctrl_c(number: int, frame: Any) -> None:
    """The handler of Ctrl-C before anything is written, or in a verb that only reads."""
    try:
        os.write(2, b"gristmill: interrupted\n")
    finally:  # also where nobody reads it
        os._exit(130)


def handle_ctrl_c() -> CtrlC:
    """Handle Ctrl-C by a KeyboardInterrupt from here on: files that are being written are cleaned
    up.
    """
    handler = CtrlC()
    signal.signal(signal.SIGINT, handler)
    return handler
