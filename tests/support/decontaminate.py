"""What the step decontaminate measures and decides of texts."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.filters.api.step import Decision, Input, Measured
from gristmill.filters.decontaminate.decontaminate import Decontaminate


def inputs_of(step: Decontaminate) -> dict[str, Input]:
    return {
        location: Input(Path(location).name, location, "") for location in step.inputs().values()
    }


def measure(step: Decontaminate, texts: list[str]) -> tuple[Measured, Decision]:
    column = pa.array(texts, pa.string())
    documents = pa.array(np.arange(7, 7 + len(texts)), pa.int64())
    measured = step.load(inputs_of(step))(
        pa.RecordBatch.from_pydict({"document": documents, "text": column})
    )
    return measured, step.decide(measured.measures)
