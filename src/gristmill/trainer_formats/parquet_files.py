"""Parquet exports: a file `SOURCE/SHARD.parquet` for each raw shard, resumed file by file."""

from collections.abc import Callable

import pyarrow as pa

from gristmill.store.parts import TableWriter
from gristmill.tables.schema import shard_name
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.kept_texts import KeptTexts


def write_files(
    texts: KeptTexts,
    folder: ExportFolder,
    schema: pa.Schema,
    rows: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> int:
    """Write what `rows` makes of each batch of documents; returns the number of documents."""
    documents = 0
    for number, source in texts.shards():
        name = f"{source}/{shard_name(number)}.parquet"
        if (part := folder.kept(name)) is not None:
            documents += part.counts["documents"]
            continue
        counts = {"documents": 0}
        with folder.file(name, counts) as file:
            table = TableWriter(file, schema)
            try:
                for batch in texts.batches(source, number):
                    table.write(rows(batch))
                    counts["documents"] += len(batch)
                table.close()
            except BaseException:
                table.abandon()
                raise
        documents += counts["documents"]
    return documents
