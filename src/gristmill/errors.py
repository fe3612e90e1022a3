"""The errors, in a tree by who can solve them.

A message says where the error is, what was expected, what was found, and what to do.

    GristmillError
    ├── RecipeError          the user: edit the recipe or the command              exit 2
    │   └── ArgumentError    the caller: a function in Python was given what it does
    │                        not take; a TypeError and a ValueError as well
    ├── SourceError          the source: a raw shard cannot be fetched or read     exit 3
    ├── VerificationError    the corpus must not be used: its bytes are not those  exit 4
    │   │                    that the manifest names
    │   └── Damaged          the run: a file under work/ changed; it is made again
    └── MachineError         the machine: disk, memory, permissions, another run   exit 5
"""

import difflib
from collections.abc import Iterable

import msgspec

# What msgspec raises for bytes that are no JSON, or not what was expected: strings that are no
# UTF-8, and nesting without end, have errors of their own.
NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# The exit code of a run that is done, and keeps no document: no error, but hardly what was wanted.
KEPT_NOTHING = 6

# The causes for which a raw shard is absent, in plan and manifest; docs/format.md explains them.
# The words of a server, a library or the operating system are in messages only: they differ from
# run to run.
REASONS = (
    "changed",
    "damaged",
    "digest",
    "forbidden",
    "not-found",
    "not-text",
    "redirected",
    "refused",
    "removed",
    "replaced",
    "source-disabled",
    "target-reached",
    "too-large",
    "unreachable",
    "unreadable",
    "worker",
)


# Of these the causes for which a raw shard that is there is not read.
SET_ASIDE = ("source-disabled", "target-reached")
# And those that the user asked for: the recipe no longer names it, or its file has other bytes now.
GONE = ("removed", "replaced")
# All of them are no failures.
NOT_ABSENT = (None, *SET_ASIDE, *GONE)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return what an error adds about a word that is not known: the closest one, or all."""
    known = [str(name) for name in known]
    close = difflib.get_close_matches(word, known, 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"


def printable(text: str, *, lines: bool = False) -> str:
    """Return a text whose control, bidirectional and other invisible characters are escaped: text
    from outside may try to control a terminal, or to look different from what it is. `lines`: line
    feeds are kept, for messages of several lines.
    """
    if text.isprintable():
        return text
    kept = " \t\n" if lines else " \t"
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


class GristmillError(Exception):
    """The root of all errors; `exit_code` is the exit code of the command line."""

    exit_code = 1

    def __str__(self) -> str:
        """Return the message, safe to print on a terminal: it may contain file names, URLs and the
        words of a server.
        """
        return printable(super().__str__(), lines=True)


class RecipeError(GristmillError):
    """The recipe or the command cannot be executed as it is written."""

    exit_code = 2


class ArgumentError(RecipeError, TypeError, ValueError):
    """A function in Python was given something that it does not take."""


class SourceError(GristmillError):
    """A raw shard cannot be fetched or read. `reason` is one of REASONS."""

    exit_code = 3

    def __init__(self, message: str = "", reason: str = "unreadable") -> None:
        """`message` is for people; `reason` is stored in plan and manifest."""
        super().__init__(message)
        self.reason = reason


class VerificationError(GristmillError):
    """A corpus differs from its manifest or lock. Nothing is read from it."""

    exit_code = 4


class Damaged(VerificationError):
    """A file that one phase wrote for another differs from its record. A run makes it again, and
    continues.
    """


class MachineError(GristmillError):
    """The disk is full, a folder cannot be written, or another run holds the corpus."""

    exit_code = 5


def error_reason(error: BaseException) -> str:
    """Return the word of REASONS for an error of a raw shard; `unreadable` if it has none."""
    reason = getattr(error, "reason", None)
    return reason if reason in REASONS else "unreadable"


def reason_of_file(error: OSError) -> str:
    """Return the word of REASONS for a file that cannot be opened or read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "not-found"
    return "forbidden" if isinstance(error, PermissionError) else "unreadable"
