"""Columns that the path of a raw shard has, as Hive and Spark write tables by their values:
data/lang=en/part-0.parquet. They are fields of each document, as strings, in `extra`.
"""

import json
import re
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.source.rows import to_extra

_FOLDER = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,100})=([^/]{0,1000})")
_NULL = "__HIVE_DEFAULT_PARTITION__"


def path_columns(url: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values in the folders of a path or URL."""
    folders = url.partition("?")[0].split("/")[:-1]
    named = [match for folder in folders if (match := _FOLDER.fullmatch(folder))]
    return tuple((match[1], unquote(match[2])) for match in named if match[2] != _NULL)


def with_columns(batch: pa.RecordBatch, columns: dict[str, str]) -> pa.RecordBatch:
    """Return a batch of RAW whose documents have these columns; what a document says itself
    stays.
    """
    extra = batch["extra"]
    start = str(to_extra(columns))[:-1]
    if any(pc.any(pc.match_substring(extra, f"{json.dumps(name)}:")).as_py() for name in columns):
        known = [json.loads(entry) if entry else {} for entry in extra.to_pylist()]
        made = pa.array([to_extra({**columns, **entry}) for entry in known], pa.string())
    else:
        rest = pc.utf8_slice_codeunits(extra, 1)
        made = pc.binary_join_element_wise(start, rest, ",").fill_null(start + "}")
    made = pc.if_else(pc.is_null(batch["reason"]), made, extra)
    return batch.set_column(
        batch.schema.get_field_index("extra"), batch.schema.field("extra"), made
    )
