"""Standard output and standard error of the command line, whatever they lead to: a run must not end
because nobody reads what it says.

A stream that is closed leads to the null device, so that no file that is opened later gets its
number. Where a write fails (a pipe whose reader has gone, a full disk), the rest goes nowhere, and
the verb goes on to its own end. What a verb prints to standard output is its result: where a disk
lost it, `lost_result` says so.
"""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any

NULL_FOR = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)  # standard input, output and error


class _Unfailing(io.FileIO):
    """A file whose writes never fail; the first error is kept."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


def open_streams() -> None:
    """Have sys.stdout and sys.stderr that take every write. Those that a program has replaced by
    its own stay.
    """
    for number, flags in enumerate(NULL_FOR):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, flags)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    sys.stdout = _unfailing(sys.stdout, 1)
    sys.stderr = _unfailing(sys.stderr, 2)


def _unfailing(stream: Any, number: int) -> Any:
    if stream is not None:
        try:
            if stream.fileno() != number or not isinstance(stream, io.TextIOWrapper):
                return stream
        except (OSError, ValueError, AttributeError):
            return stream
        with suppress(OSError):
            stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Unfailing(number, "w", closefd=False)),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors=stream.errors if stream is not None else "backslashreplace",
        line_buffering=number == 2 or os.isatty(number),
        write_through=False,
    )


def _error(stream: Any) -> OSError | None:
    with suppress(AttributeError, ValueError):
        stream.flush()
        raw = stream.buffer.raw
        return raw.error if isinstance(raw, _Unfailing) else None
    return None


def lost_result() -> OSError | None:
    """Return the error that lost a part of standard output; None: all of it was written, or its
    reader has gone and wants no more.
    """
    error = _error(sys.stdout)
    return None if error is None or error.errno == errno.EPIPE else error


def is_unread() -> bool:
    """Return whether the reader of standard output has gone."""
    error = _error(sys.stdout)
    return error is not None and error.errno == errno.EPIPE
