"""Tokens by label: what of a source has one label is a partition of it, with token shards and a
folder of its own.

    tokens/web~science/train_00000.bin      the source `web`, the label `science`

`~` is in no source's name and in no label, so that a folder's name is read in one way only.
"""

SEPARATOR = "~"


def partition_name(source: str, label: str) -> str:
    """Return the folder of a partition below tokens/; without a label it is the source's."""
    return f"{source}{SEPARATOR}{label}" if label else source


def partition_source(name: str) -> str:
    """Return the source of a partition, by its folder's name."""
    return name.partition(SEPARATOR)[0]


def belongs_to(name: str, other: str) -> bool:
    """Return whether a folder is that of another name or of a partition of it: web~news~3 belongs
    to web and to web~news.
    """
    return name == other or name.startswith(f"{other}{SEPARATOR}")
