"""The tables of an index for a stream: one SQLite file, one process at a time, one transaction for
each addition.

    parameters   name -> value           the parameters that the index was built with
    documents    document -> verdict     every document; a kept one has no reason
    hashes       scope, text hash        -> the earliest document of that text
    texts        document -> signature   of kept documents; and their normalised texts if texts are
                                         compared
    buckets      band key, document      the first documents of each bucket, kept or not, and its
                                         first kept documents

Why SQLite: a killed process cannot leave half a transaction, and there is nothing to install. Why
normalised texts in zstd and not shingle hashes: on 8,000 web pages they take 2.1 KB a document and
not 6.4 KB, for 65 us to compress a text once and 80 us each time it is compared.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = b"SQLite format 3\0"  # of the file format: https://sqlite.org/fileformat2.html, 1.3
APPLICATION = 0x67726978  # "grix": SQLite's application_id, which says whose file it is
PATIENCE = 1.0  # seconds to wait, when opening, for another process to close the file
CACHE = 256 << 20  # bytes of pages held in memory, at most
# Pages in the log before they are moved to the file. Buckets are spread over the whole file, so the
# more changes are moved together, the more of them share a page.
CHECKPOINT = 16_384
LEVEL = 1  # of zstd: level 3 takes 1.5 times as long, and the result is not smaller

TABLES = """
create table parameters (name text primary key, value text not null) without rowid;
create table documents (document integer primary key, reason text, keeper integer, similarity real);
create table hashes (
    scope integer, text_hash blob, document integer not null, primary key (scope, text_hash)
) without rowid;
create table texts (document integer primary key, signature blob not null, text blob);
create table buckets (key integer, document integer, primary key (key, document)) without rowid;
"""

Synchronous = Literal["full", "normal", "off"]


class Verdict(NamedTuple):
    """The verdict of a text, like a row of a corpus' verdicts."""

    document: int  # 0, 1, 2 ... in order of adding
    reason: str | None  # null: kept
    keeper: int | None  # a document that is kept
    similarity: float | None  # to the keeper


class SqliteStore:
    """Reads and writes the tables. The rule is not here, but in duplicate_index.py."""

    def __init__(
        self, path: Path | str | None, parameters: dict[str, str], synchronous: Synchronous
    ) -> None:
        """Open or create. Raises RecipeError for other files and indexes of other parameters."""
        self._name = "the index in memory" if path is None else str(path)
        # With a checksum, which SQLite lacks: a flipped bit would change similarities.
        options: dict[Any, int] = {
            zstd.CompressionParameter.compression_level: LEVEL,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._packer = zstd.ZstdCompressor(options=options)
        # An absolute path: the name of a file may be ":memory:".
        where = ":memory:" if path is None else os.path.abspath(path)
        if path is not None:
            self._check_file(where)
        with self._raising_ours():
            self._connection = sqlite3.connect(
                where, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._open(parameters, synchronous)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the file; the log is moved into it."""
        with self._raising_ours():
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all that is written within the block, or nothing of it."""
        with self._raising_ours():
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                # SQLite itself rolls back after some errors of the disk.
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    def count(self) -> int:
        """Return how many documents there are."""
        (last,) = self._row("select max(document) from documents") or (None,)
        return 0 if last is None else last + 1

    def verdict(self, document: int) -> Verdict | None:
        """Return the verdict of a document; None: there is no such document."""
        row = self._row(
            "select document, reason, keeper, similarity from documents where document = ?",
            document,
        )
        return Verdict(*row) if row else None

    def earliest(self, scope: int, text_hash: bytes) -> int | None:
        """Return the first document of a text, by its hash."""
        row = self._row(
            "select document from hashes where scope = ? and text_hash = ?", scope, text_hash
        )
        return row[0] if row else None

    def bucket(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of the buckets of (n,) int64 keys: keys (m,) and documents (m,) int64,
        unsorted.
        """
        rows = self._among(
            "select key, document from buckets where key in (select value from json_each(?))", keys
        )
        held = np.array(rows, np.int64).reshape(-1, 2)
        return held[:, 0], held[:, 1]

    def signatures(self, documents: np.ndarray, numbers: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the signatures of the kept ones of (n,) sorted documents: documents (m,) int64 and
        signatures (m, numbers) uint32.
        """
        rows = self._among(
            (
                "select document, signature from texts where document in (select value from "
                "json_each(?)) order by document"
            ),
            documents,
        )
        kept = np.array([document for document, _ in rows], np.int64)
        values = np.frombuffer(b"".join(signature for _, signature in rows), "<u4").reshape(
            -1, numbers
        )
        return kept, values.astype(np.uint32, copy=False)

    def text(self, document: int) -> bytes:
        """Return the normalised text of a kept document. Raises VerificationError if it is
        damaged.
        """
        (packed,) = self._row("select text from texts where document = ?", document) or (None,)
        if packed is None:
            raise VerificationError(
                f"{self._name}: the text of document {document} is missing; build the index again"
            )
        try:
            return bytes(zstd.decompress(packed))
        except zstd.ZstdError as error:
            raise VerificationError(
                f"{self._name}: the text of document {document} is damaged: {error}"
            ) from error

    def write(
        self,
        verdicts: Iterable[Verdict],
        hashes: Iterable[tuple[int, bytes, int]],
        texts: Iterable[tuple[int, bytes, bytes | None]],
        buckets: Iterable[tuple[int, int]],
    ) -> None:
        """Add rows to the tables, within a transaction. Texts are normalised; `buckets` are written
        faster in the order of their keys.
        """
        packed = ((document, signature, self._pack(text)) for document, signature, text in texts)
        with self._raising_ours():
            many = self._connection.executemany
            many(
                "insert into documents values (?, ?, ?, ?)",
                ((v[0], v[1], v[2], v[3]) for v in verdicts),
            )
            many("insert into hashes values (?, ?, ?)", hashes)
            many("insert into texts values (?, ?, ?)", packed)
            many("insert into buckets values (?, ?)", buckets)

    def _pack(self, text: bytes | None) -> bytes | None:
        return (
            None if text is None else self._packer.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)
        )

    def _row(self, query: str, *values: Any) -> Any:
        with self._raising_ours():
            return self._connection.execute(query, values).fetchone()

    def _among(self, query: str, numbers: np.ndarray) -> list[Any]:
        """Return one query for all numbers: it takes a third of the time of one query each."""
        if not len(numbers):
            return []
        with self._raising_ours():
            return self._connection.execute(query, (json.dumps(numbers.tolist()),)).fetchall()

    def _check_file(self, path: str) -> None:
        """Refuse a file of another program: SQLite takes a very short file for an empty one."""
        try:
            with open(path, "rb") as file:
                start = file.read(len(MAGIC))
        except FileNotFoundError:
            return
        except OSError as error:
            raise MachineError(f"{self._name}: the index cannot be read: {error}") from error
        if start not in (b"", MAGIC):
            raise RecipeError(
                f"{self._name}: not an index; give the path of an index, or of a new file"
            )

    def _open(self, parameters: dict[str, str], synchronous: Synchronous) -> None:
        run = self._connection.execute
        run("pragma locking_mode = exclusive")
        (whose,) = run("pragma application_id").fetchone()
        (tables,) = run("select count(*) from sqlite_master").fetchone()
        if whose != APPLICATION and (whose or tables):
            raise RecipeError(
                f"{self._name}: a SQLite database of another program; give the path of an index, "
                "or of a new file"
            )
        # Write nothing before this line: only here it is certain that the file is ours, or empty.
        run("pragma journal_mode = wal")
        run(f"pragma synchronous = {synchronous}")
        run(f"pragma cache_size = {-(CACHE >> 10)}")
        run(f"pragma wal_autocheckpoint = {CHECKPOINT}")
        with self.transaction():
            if whose != APPLICATION:
                for statement in TABLES.strip().split(";\n"):
                    run(statement)
                self._connection.executemany(
                    "insert into parameters values (?, ?)", parameters.items()
                )
                run(f"pragma application_id = {APPLICATION}")
            self._check(dict(run("select name, value from parameters").fetchall()), parameters)

    def _check(self, there: dict[str, str], asked: dict[str, str]) -> None:
        other = [
            f"{name} is {there.get(name, 'missing')} in it, {asked.get(name, 'missing')} here"
            for name in sorted(there.keys() | asked.keys())
            if there.get(name) != asked.get(name)
        ]
        if other:
            raise RecipeError(
                f"{self._name}: an index built with other parameters: {'; '.join(other)}. "
                "Open it with its own parameters, or build another one"
            )

    @contextmanager
    def _raising_ours(self) -> Iterator[None]:
        """Raise SQLite's errors as GristmillErrors, by who can solve them."""
        try:
            yield
        except sqlite3.ProgrammingError:  # the caller's mistake: the store is closed
            raise
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> GristmillError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return RecipeError(
                f"{self._name}: not an index: {error}; give the path of an index, or of a new file"
            )
        if code == sqlite3.SQLITE_CORRUPT:
            return VerificationError(f"{self._name}: the index is damaged: {error}; build it again")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return MachineError(
                f"{self._name}: another process has opened the index; close it there first"
            )
        if code == sqlite3.SQLITE_FULL:
            return MachineError(
                f"{self._name}: the disk is full: {error}; nothing of this addition is stored"
            )
        if code in _MACHINE:
            return MachineError(f"{self._name}: the index cannot be read or written: {error}")
        return GristmillError(f"{self._name}: {error}")


_MACHINE = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
)
