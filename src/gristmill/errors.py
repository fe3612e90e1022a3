"""The errors, as a tree by whose turn it is. Each says where, what was expected, what was there, and what to do.

GristmillError
├── RecipeError          yours: edit the recipe or the command                      exit 2
├── SourceError          theirs: a raw shard could not be fetched or read           exit 3
├── VerificationError    nobody may use it: bytes are not what the manifest says    exit 4
└── MachineError         the machine's: disk, memory, permission, another run       exit 5
"""


class GristmillError(Exception):
    """The root; `exit_code` is what the command line ends with."""

    exit_code = 1


class RecipeError(GristmillError):
    """The recipe, or what was asked on the command line, cannot be done as written."""

    exit_code = 2


class SourceError(GristmillError):
    """A raw shard could not be fetched, or is not what it should be."""

    exit_code = 3


class VerificationError(GristmillError):
    """A corpus is not what its manifest and lock say. Nothing reads on."""

    exit_code = 4


class MachineError(GristmillError):
    """The disk is full, a folder cannot be written, or another run holds the corpus."""

    exit_code = 5
