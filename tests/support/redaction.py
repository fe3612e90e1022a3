"""The step `private` on texts, and presidio's labelled sets."""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyarrow as pa

from gristmill.filters.api.step import Input
from gristmill.filters.pii.private import SUFFIXES, Private
from gristmill.tables import schema

SNAPSHOT = Path(find_spec("tldextract").submodule_search_locations[0]) / ".tld_set_snapshot"
INPUTS = {SUFFIXES: Input("suffixes", str(SNAPSHOT), "")}
KINDS = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "US_SSN": "ssn",
    "IP_ADDRESS": "ip",
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
}


@cache
def ready(table: str, inputs: str):
    step = msgspec.convert(json.loads(table), Private)
    return step, step.load({key: Input(**value) for key, value in json.loads(inputs).items()})


def redact(
    texts: list[str], inputs: dict[str, Input] = INPUTS, **table
) -> tuple[list[str], list[dict[str, int]]]:
    batch = pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(["", *texts])], schema.DOCUMENTS
    ).slice(1)
    step, measure = ready(
        json.dumps(table), json.dumps({key: value._asdict() for key, value in inputs.items()})
    )
    found = measure(batch)
    assert found.text.type == pa.string()
    assert found.text.null_count == 0
    assert all(column.type == pa.int64() for column in found.measures.values())
    assert step.decide(found.measures).reason.null_count == len(texts)
    counts = pa.RecordBatch.from_pydict(found.measures).to_pylist()
    return found.text.to_pylist(), counts


def labelled(data: Path, name: str) -> tuple[list[str], list[list[tuple[str, int, int]]]]:
    rows = json.loads((data / "F_pii" / name).read_text("utf-8"))
    spans = [
        [
            (span["entity_type"], span["start_position"], span["end_position"])
            for span in row["spans"]
        ]
        for row in rows
    ]
    return [row["full_text"] for row in rows], spans
