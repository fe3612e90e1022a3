"""Texts to be scored by a model of any kind: `SOURCE/SHARD.parquet`, and how the scores come back.

    document    int64, the number of the document
    url         string, null where it has none
    text_hash   string, BLAKE2b of the text's UTF-8, 16 bytes as 32 hexadecimal digits
    text        string

What scores them writes a row for each document with `document` (and best `url`, which shows that
the scores are of this corpus), `url` or `text_hash`, and a column for each score or label: Parquet
or JSONL, in any order and any number of files. The step `scores` reads them (docs/filters.md).
"""

import pyarrow as pa

from gristmill.filters.models.score_files import digests
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.kept_texts import KeptTexts, TextFormat
from gristmill.trainer_formats.parquet_files import write_files

JOBS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("text_hash", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)


def write(texts: KeptTexts, folder: ExportFolder) -> int:
    """Write the files; returns the number of documents."""
    return write_files(texts, folder, JOBS, make_jobs)


def make_jobs(batch: pa.RecordBatch) -> pa.RecordBatch:
    """JOBS of n documents."""
    words = digests(batch["text"]).astype(">u8").tobytes()
    hashes = [words[at : at + 16].hex() for at in range(0, len(words), 16)]
    columns = [batch["document"], batch["url"], pa.array(hashes, pa.string()), batch["text"]]
    return pa.RecordBatch.from_arrays(columns, schema=JOBS)


SCORE_JOBS = TextFormat(
    name="score-jobs",
    files="`SOURCE/SHARD.parquet`",
    fields="`document`, `url`, `text_hash`, `text`",
    write=write,
)
