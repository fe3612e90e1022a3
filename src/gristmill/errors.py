"""The errors, as a tree by whose turn it is.

Each says where, what was expected, what was there, and what to do.

GristmillError
├── RecipeError          yours: edit the recipe or the command                      exit 2
├── SourceError          theirs: a raw shard could not be fetched or read           exit 3
├── VerificationError    nobody may use it: bytes are not what the manifest says    exit 4
│   └── Damaged          a run's own: a file under work/ is not as it was written; it makes it anew
└── MachineError         the machine's: disk, memory, permission, another run       exit 5
"""

# Why a raw shard is absent, as plan and manifest hold it: a short word for each cause.
# docs/format.md says what each means. The words that a server, a library or a kernel of the
# operating system chose are told in messages only: they differ from run to run.
REASONS = (
    "changed",
    "damaged",
    "digest",
    "forbidden",
    "not-found",
    "not-text",
    "redirected",
    "refused",
    "too-large",
    "unreachable",
    "unreadable",
    "worker",
)


def printable(text: str, *, lines: bool = False) -> str:
    """A text with control characters, bidirectional and other invisible ones escaped: what others
    wrote may try to drive a terminal, or to read otherwise than it is. `lines`: line feeds stay,
    for messages of several lines.
    """
    if text.isprintable():
        return text
    kept = " \t\n" if lines else " \t"
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


class GristmillError(Exception):
    """The root; `exit_code` is what the command line ends with."""

    exit_code = 1

    def __str__(self) -> str:
        """The message, as it may stand on a terminal: file names, URLs and a server's words are
        somebody else's.
        """
        return printable(super().__str__(), lines=True)


class RecipeError(GristmillError):
    """The recipe, or what was asked on the command line, cannot be done as written."""

    exit_code = 2


class SourceError(GristmillError):
    """A raw shard could not be fetched, or is not what it should be. `reason` is one of REASONS."""

    exit_code = 3

    def __init__(self, message: str = "", reason: str = "unreadable") -> None:
        """`message` is for people; `reason` is what a plan and a manifest may keep."""
        super().__init__(message)
        self.reason = reason


class VerificationError(GristmillError):
    """A corpus is not what its manifest and lock say. Nothing reads on."""

    exit_code = 4


class Damaged(VerificationError):
    """A file that a phase left for a later one is not what its record says.

    A run makes it anew and goes on.
    """


class MachineError(GristmillError):
    """The disk is full, a folder cannot be written, or another run holds the corpus."""

    exit_code = 5


def reason_of(error: BaseException) -> str:
    """The word of REASONS for an error over a raw shard; `unreadable` where it carries none."""
    reason = getattr(error, "reason", None)
    return reason if reason in REASONS else "unreadable"


def reason_of_file(error: OSError) -> str:
    """The word of REASONS for a file that the operating system does not give."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "not-found"
    return "forbidden" if isinstance(error, PermissionError) else "unreadable"
