"""What a source format is: how its shards are recognised, and how they are read.

A format is a `SourceFormat` of a module of this room; `FORMATS` finds all of them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.rows import Fields, RowCollector
from gristmill.store.codecs import Damage
from gristmill.system.plugins import Plugins

BEGIN = 1 << 13  # bytes from which a line or value is recognised
STRING = rb'"[^"\\]{0,1000}(?:\\.[^"\\]{0,1000}){0,100}'
# The beginning of an object of JSON, which may be cut off.
OBJECT = re.compile(rb"\{\s*(?:" + STRING + rb'(?:"\s*(?::|$)|$)|\}|$)')
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some tools write it before the first line of a file
OVERRIDE = (
    'to read it all the same, set kind = "jsonl" (or "text", "warc", "csv" ...) for its source in '
    "the recipe"
)
_PACKED = (".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4")


class Head(NamedTuple):
    """The beginning of a shard."""

    stretches: list[bytes]  # decoded bytes, divided by damage
    ended: bool  # the shard has no more bytes
    damage: Damage | None  # the first
    name: str = ""  # of its file

    @property
    def data(self) -> bytes:
        """Return the first stretch that is not empty."""
        return next((stretch for stretch in self.stretches if stretch), b"")

    @property
    def start(self) -> bytes:
        """Return the same without a byte order mark."""
        return self.data.removeprefix(BYTE_ORDER_MARK)


# (decoded pieces, to be peeked at or read; rows; fields) -> batches of source.rows.RAW
Reader = Callable[[Any, RowCollector, Fields], Iterator[pa.RecordBatch]]
FileReader = Callable[[str, RowCollector, Fields], Iterator[pa.RecordBatch]]
TEXT = 100  # formats with a lower `order` may be binary


class SourceFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format of raw shards."""

    name: str  # for `kind` of a source
    recognised: str  # by what a shard is recognised, for docs/format.md
    row: str  # what a row is, for docs/format.md
    read: Reader | None = None
    # Whether a shard is of the format, or of which one: True, a name, or None. It may raise
    # SourceError. null: shards are of the format where a recipe or another format says so.
    detect: Callable[[Head, Fields], str | bool | None] | None = None
    # Formats are asked in this order. Those from TEXT on are only asked where a shard is of no
    # known binary format and no page.
    order: int = TEXT
    read_named: Reader | None = None  # reads where the recipe names the format; null: as `read`
    # Which format is meant where a recipe names this one, by the shard's head; null: this.
    named: Callable[[Head], str] | None = None
    # In place of `read`, for a file that is read by its path and not in order; a packed one is
    # unpacked before.
    read_file: FileReader | None = None
    suffixes: dict[str, str] = {}  # of file names -> the format's name in messages
    after_damage: bool = False  # it is recognised behind a damaged beginning of a packed file
    members: bool = False  # its reader uses where members of a packed file start
    lines: bool = False  # of lines that must be UTF-8
    pages: bool = False  # its documents are pages: a step must take their text out
    alone: tuple[str, ...] = ()  # suffixes of files that are one document each
    counted: str = ""  # the format that the manifest names in its place; empty: none

    @property
    def meaning(self) -> str:
        """Return what it is, for `explain`."""
        return f"Recognised by: {self.recognised}. A row is {self.row}."


FORMATS: Plugins[SourceFormat] = Plugins(
    "gristmill.source", ("SourceFormat",), "kind {!r}: no such format", "gristmill.sources"
)


def not_text(seen: str, advice: str | None = None) -> SourceError:
    """Return the error for a file of no known format; `seen` is what it looks like."""
    return SourceError(
        f"not text: looks like {seen}; {advice + '; ' if advice else ''}{OVERRIDE}", "not-text"
    )


def extension(name: str) -> str:
    """Return the last suffix of a file's name that is not a codec's, in lower case."""
    name = name.partition("?")[0].rpartition("/")[2].lower()
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    return name.rpartition(".")[2] if "." in name else ""
