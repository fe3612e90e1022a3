"""Languages and domains of the documents with tokens, from measures/ and verdicts/.

Both are tables by raw shard, and token shards are shuffled, so what one says of a document is kept
by its number, in temporary files: the group of its language (1 byte a row of the raw shards) and
its tokens (8 bytes a row). Domains beyond a million are put on disk too.
"""

import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import VerificationError
from gristmill.filters.lists.domains import Suffixes, written_host
from gristmill.store.manifest import RawShard
from gristmill.store.parts import read_batches
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

LANGUAGE = "language.label"  # the measure of the step language
OTHERS = "(others)"  # languages beyond those that are counted by themselves
MOST_DOMAINS = 1 << 20  # in memory
PARTITIONS = 64
# A URL up to the end of its host, as `written_host` finds it (filters/lists/domains.py).
AUTHORITY = r"^(?P<head>(?:[A-Za-z0-9+.\-]+:)?//[^/?#]*|[^/?#]*)"
DOMAINS = pa.schema([("domain", pa.string()), ("documents", pa.int64()), ("tokens", pa.int64())])


def _rows(path: Path) -> int:
    """Return the rows of a raw shard up to the last one with a verdict; records that are no
    documents have none.
    """
    metadata = pq.read_metadata(path)
    column = metadata.schema.names.index("document")
    last = [
        metadata.row_group(group).column(column).statistics.max & (schema.MOST_ROWS - 1)
        for group in range(metadata.num_row_groups)
        if metadata.row_group(group).num_rows
    ]
    return max(last, default=-1) + 1


class RowValues:
    """A number for each row of the raw shards, in a temporary file."""

    def __init__(self, corpus: TokenCorpus, dtype: str) -> None:
        """All are 0 at first."""
        shards = corpus.manifest.raw_shards
        # (shards + 1,) int64: where each raw shard begins
        self.starts = np.zeros(len(shards) + 1, np.int64)
        sizes = {shard.number: _rows(path) for shard, path in _tables(corpus, "verdicts")}
        np.cumsum([sizes.get(shard.number, 0) for shard in shards], out=self.starts[1:])
        self._root = corpus.root
        size = max(int(self.starts[-1]), 1)
        self._file = tempfile.TemporaryFile()
        self._file.truncate(size * np.dtype(dtype).itemsize)
        self.values = np.memmap(self._file, dtype, "r+", shape=(size,)).view(np.ndarray)

    def places(self, documents: np.ndarray) -> np.ndarray:
        """Return where the documents (n,) int64 are in `values`. Raises VerificationError for one
        that no raw shard has.
        """
        documents = np.where(documents < 0, ~documents, documents)  # withdrawn
        shards, rows = documents >> schema.ROW_BITS, documents & (schema.MOST_ROWS - 1)
        inside = (shards >= 0) & (shards < len(self.starts) - 1)
        shards = np.where(inside, shards, 0)
        places = np.asarray(self.starts[shards] + rows)
        inside &= places < self.starts[shards + 1]
        if not inside.all():
            name = schema.document_name(int(documents[np.flatnonzero(~inside)[0]]))
            raise VerificationError(
                f"{self._root}: document {name} has tokens, and no raw shard has it. Run "
                f"`gristmill verify {self._root}`"
            )
        return places

    def of_shard(self, number: int) -> np.ndarray:
        """Return the numbers of a raw shard's rows."""
        return self.values[int(self.starts[number]) : int(self.starts[number + 1])]

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


def _tables(corpus: TokenCorpus, folder: str) -> Iterator[tuple[RawShard, Path]]:
    """Yield the raw shards that have a table in a folder."""
    named = {part.path for part in corpus.manifest.parts}
    for shard in corpus.manifest.raw_shards:
        path = f"{folder}/{shard_name(shard.number)}.parquet"
        if path in named:
            yield shard, corpus.root / path


class Languages:
    """The languages of the documents: a group each, the most frequent ones first.

    Group 0 has the documents without a label; the last one, if `names` ends with OTHERS, all
    languages that have no group of their own.
    """

    def __init__(self, rows: RowValues, names: list[str | None]) -> None:
        """Use `group_languages`."""
        self._rows, self.names = rows, names

    def group_of(self, documents: np.ndarray) -> np.ndarray:
        """Return the groups of documents (n,) int64: (n,) uint8."""
        return np.asarray(self._rows.values[self._rows.places(documents)])

    def documents(self, tokens: RowValues) -> np.ndarray:
        """Return how many documents of each group have tokens: (groups,) int64."""
        counts = np.zeros(len(self.names), np.int64)
        for number in range(len(tokens.starts) - 1):
            here = self._rows.of_shard(number)[tokens.of_shard(number) > 0]
            counts += np.bincount(here, minlength=len(counts))
        return counts


def group_languages(corpus: TokenCorpus, most: int, stack: ExitStack) -> Languages | None:
    """Return the languages that the step `language` found, in at most `most` groups; None: the
    recipe has no such step. What it holds is removed with `stack`.
    """
    tables = [
        (shard, path)
        for shard, path in _tables(corpus, "measures")
        if LANGUAGE in pq.read_schema(path).names
    ]
    if not tables:
        return None
    counted: Counter[str] = Counter()
    for _, path in tables:
        for batch in read_batches(path, [LANGUAGE]):
            for entry in pc.value_counts(batch[LANGUAGE]).to_pylist():
                counted[entry["values"] or ""] += entry["counts"]
    counted.pop("", None)
    languages = sorted(counted, key=lambda name: (-counted[name], name))
    own = languages if len(languages) < most else languages[: most - 2]
    names = [None, *own, *([OTHERS] if len(own) < len(languages) else [])]
    groups = np.array([names.index(name) if name in own else len(names) - 1 for name in languages])
    rows = RowValues(corpus, "u1")
    stack.callback(rows.close)
    values = pa.array(languages, pa.string())
    for shard, path in tables:
        place = rows.of_shard(shard.number)
        for batch in read_batches(path, ["document", LANGUAGE]):
            labels = pc.fill_null(pc.index_in(batch[LANGUAGE], values), -1).to_numpy()
            documents = batch["document"].to_numpy() & (schema.MOST_ROWS - 1)
            place[documents] = np.where(labels < 0, 0, groups[labels] if len(groups) else 0)
    return Languages(rows, names)


class DomainCounts(NamedTuple):
    """The documents and tokens of one domain; "" where a URL has none, or there is no URL."""

    domain: str
    documents: int
    tokens: int


class Domains:
    """Documents and tokens by registered domain, or by host where a host has no public suffix."""

    def __init__(self, corpus: TokenCorpus, stack: ExitStack) -> None:
        """What it holds is removed with `stack`."""
        self._corpus = corpus
        self.tokens = RowValues(corpus, "i8")
        stack.callback(self.tokens.close)
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        text = files("tldextract").joinpath(".tld_set_snapshot").read_text("utf-8")
        self._suffixes = Suffixes(text)

    @staticmethod
    def known(corpus: TokenCorpus) -> bool:
        """Return whether a corpus has the URLs of its documents."""
        return any(True for _ in _tables(corpus, "verdicts"))

    def add(self, documents: np.ndarray, tokens: np.ndarray) -> None:
        """Add the tokens (n,) int64 of documents (n,) int64, each once in a call."""
        self.tokens.values[self.tokens.places(documents)] += tokens

    def largest(self, top: int) -> tuple[int, list[DomainCounts]]:
        """Return how many domains there are, and those with the most tokens; of equal ones the
        first by name.
        """
        held = DOMAINS.empty_table()
        for shard, path in _tables(self._corpus, "verdicts"):
            held = _summed(pa.concat_tables([held, self._of_shard(shard, path)]))
            if len(held) > MOST_DOMAINS:
                self._spill(held)
                held = DOMAINS.empty_table()
        if not self._writers:
            return len(held.filter(pc.not_equal(held["domain"], ""))), _largest(held, top)
        self._spill(held)
        count, best = 0, DOMAINS.empty_table()
        for place, writer in enumerate(self._writers):
            writer.close()
            with pa.memory_map(str(self._folder / str(place))) as file:
                table = _summed(pa.ipc.open_stream(file).read_all())
                count += len(table.filter(pc.not_equal(table["domain"], "")))
                best = pa.concat_tables([best, table])
                best = pa.Table.from_pylist(
                    [row._asdict() for row in _largest(best, top)], schema=DOMAINS
                )
        return count, _largest(best, top)

    def _of_shard(self, shard: RawShard, path: Path) -> pa.Table:
        tokens = self.tokens.of_shard(shard.number)
        names: dict[str, str] = {}
        batches = []
        for batch in read_batches(path, ["document", "url"]):
            own = tokens[batch["document"].to_numpy() & (schema.MOST_ROWS - 1)]
            urls = pc.fill_null(batch["url"], "").filter(pa.array(own > 0))
            heads = pc.struct_field(pc.extract_regex(urls, AUTHORITY), "head").dictionary_encode()
            for head in heads.dictionary.to_pylist():
                if head not in names:
                    names[head] = (
                        self._suffixes.split(head).registered or written_host(head).lower()
                    )
            domains = [names[head] for head in heads.dictionary.to_pylist()]
            values = pa.array(domains, pa.string()).take(heads.indices)
            ones = np.ones(len(urls), np.int64)
            columns = [values, pa.array(ones), pa.array(own[own > 0])]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=DOMAINS))
        return pa.Table.from_batches(batches, DOMAINS)

    def _spill(self, table: pa.Table) -> None:
        """Put domains on disk, those of one name in one file."""
        if not self._writers:
            self._writers = [
                pa.ipc.new_stream(str(self._folder / str(place)), DOMAINS)
                for place in range(PARTITIONS)
            ]
        names = table["domain"].to_pylist()
        places = np.array([zlib.crc32(name.encode()) % PARTITIONS for name in names], np.int64)
        for place, writer in enumerate(self._writers):
            writer.write_table(table.filter(pa.array(places == place)))


def _summed(table: pa.Table) -> pa.Table:
    summed = table.group_by("domain", use_threads=False).aggregate(
        [("documents", "sum"), ("tokens", "sum")]
    )
    return pa.table([summed["domain"], summed["documents_sum"], summed["tokens_sum"]], DOMAINS)


def _largest(table: pa.Table, top: int) -> list[DomainCounts]:
    order = [("tokens", "descending"), ("domain", "ascending")]
    return [DomainCounts(**row) for row in table.sort_by(order).slice(0, top).to_pylist()]
