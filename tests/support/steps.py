"""What a filter measures and decides of texts, its inputs given by location."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.filters.api.step import Input, Step


def given(path: Path) -> Input:
    return Input(path.name, str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def measure(step: Step, texts: list[str], **paths: Path) -> dict[str, list[Any]]:
    """What a step measures, its inputs given by location."""
    inputs = {location: given(Path(location)) for location in step.inputs().values()}
    found = step.load(inputs)(pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())}))
    return {name: column.to_pylist() for name, column in found.measures.items()}
