"""The schemas of the tables that phases write, and the number of a document.

The number of a document is `shard << 32 | row`: 31 bits for the raw shard, 32 bits for the row in
it. So documents have one total order, which does not depend on engine, workers or batches.
"""

import pyarrow as pa

ROW_BITS = 32
MOST_SHARDS = 1 << 31
MOST_ROWS = 1 << ROW_BITS
X_ROBOTS_TAG = "x_robots_tag"  # of a page's HTTP headers, in the column `extra`

# The rows of a source. `reason` and `value` are null, except for rows that are not a readable
# document: the cause, and its byte in the decoded shard.
RAW = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("date", pa.string()),
        pa.field("record_id", pa.string()),
        pa.field("declared_language", pa.string()),  # as the record or the page declares it
        # Of a record. The step extract reads text/html. Null: not known.
        pa.field("content_type", pa.string()),
        pa.field("title", pa.string()),  # of a page, from the step extract
        pa.field("extra", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("value", pa.float64()),
    ]
)

DOCUMENTS = pa.schema([RAW.field(name) for name in RAW.names if name not in ("reason", "value")])

# The kept documents in text/, and how many documents were dropped as copies of each.
TEXT = pa.schema([*DOCUMENTS, pa.field("copies", pa.int64(), nullable=False)])

VERDICTS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("reason", pa.string()),  # null: kept
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64()),
        pa.field("keeper", pa.int64()),
        pa.field("similarity", pa.float64()),
        pa.field("keeper_corpus", pa.string()),
    ]
)

# A seeded sample of what each step dropped, text included.
SAMPLES = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string(), nullable=False),
    ]
)

# Benchmark items that were found in documents: a row for each part of an item, in document order.
CONTAMINATION = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("item", pa.int64(), nullable=False),  # its row in the benchmark, from 0
        pa.field("id", pa.string()),
        # The field that was found by itself; null: all fields of the item, joined.
        pa.field("field", pa.string()),
        # The part's place among the parts of all benchmarks.
        pa.field("part", pa.int32(), nullable=False),
        # Distinct n-grams of the part that are in the document.
        pa.field("matched", pa.int32(), nullable=False),
        pa.field("ngrams", pa.int32(), nullable=False),  # distinct n-grams of the part
        pa.field("overlap", pa.float64(), nullable=False),
        # Of MinHash signatures; null: not computed, or below the threshold.
        pa.field("similarity", pa.float64()),
        # Bytes of the text, from the first n-gram's first word to the end of the last one's last.
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("context", pa.string()),
        pa.field("hits", pa.list_(pa.int32())),  # which n-grams; null: `common` is not set
    ]
)


def signatures(permutations: int) -> pa.Schema:
    """Return the schema of signatures: the hash of the normalised text, and k little-endian uint32
    minima (null: the text has no words).
    """
    return pa.schema(
        [
            pa.field("document", pa.int64(), nullable=False),
            pa.field("text_hash", pa.binary(16), nullable=False),
            pa.field("signature", pa.binary(4 * permutations)),
        ]
    )


def shard_name(number: int) -> str:
    """Return the name of a raw shard's files, without folder and suffix: `00042`."""
    return f"{number:05d}"


def shard_number(document: int) -> int:
    """Return the number of a document's raw shard."""
    return document >> ROW_BITS


def row_number(document: int) -> int:
    """Return a document's row in its raw shard."""
    return document & (MOST_ROWS - 1)


def first_document(shard: int) -> int:
    """Return the number of row 0 of a shard; its documents are below `first_document(shard +
    1)`.
    """
    return shard << ROW_BITS


def document_name(document: int) -> str:
    """Return a document's number for people: `shard:row`, also of a withdrawn one (below 0, as in
    `.docs`).
    """
    document = document if document >= 0 else ~document
    return f"{shard_number(document)}:{row_number(document)}"
