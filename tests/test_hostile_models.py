"""Tokenizer and model files that lie: numbers without end, counts that the file does not hold,
nesting, bombs. Each is refused in words, and no process that reads one grows beyond a gigabyte.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import Tokenizer
from gristmill.errors import RecipeError
from gristmill.filters.models import model_file
from gristmill.tokens.tokenizer_file import MOST_IDS
from tests.support import ROOT
from tests.support.hostile_models import BYTES, RANKS, TOKENIZERS, tokenizer


@pytest.mark.parametrize(
    ("made", "why"), [*TOKENIZERS.values(), *RANKS.values()], ids=[*TOKENIZERS, *RANKS]
)
def test_a_hostile_tokenizer_is_refused(made: Callable[[], bytes], why: str) -> None:
    with pytest.raises(RecipeError) as error:
        Tokenizer("evil", made())
    assert str(error.value).startswith("tokenizer 'evil' is ")
    assert why in str(error.value)
    assert len(str(error.value)) < 500


def test_an_honest_one_is_still_read() -> None:
    assert Tokenizer("plain", tokenizer()).vocabulary == 257
    sparse = Tokenizer("sparse", tokenizer({**BYTES, "th": MOST_IDS - 1}, merges=["t h"]))
    assert sparse.vocabulary == MOST_IDS


# -- models


def own(
    tensors: dict[str, Any],
    behind: bytes = b"",
    kind: str = "classifier",
    described: str | None = None,
) -> bytes:
    """A model file of gristmill with these entries in its header."""
    usual = {
        "format": model_file.FORMAT,
        "kind": kind,
        "version": 2 if kind == "classifier" else 1,
        "parameters": {},
        "inputs": {},
        "counts": {},
        "sha256": "0" * 64,
    }
    header = {"__metadata__": {"gristmill": described or json.dumps(usual)}, **tensors}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + behind


def tensor(shape: list[int], begin: int, end: int, kind: str = "I16") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def fast(
    words: int = 1,
    labels: int = 1,
    buckets: int = 1,
    dimension: int = 4,
    *,
    entries: bytes | None = None,
    behind: bytes = b"",
    longest: int = 3,
    pruned: int = -1,
    loss: int = 3,
) -> bytes:
    """The head of a fastText model that says what it likes, and what stands behind it."""
    head = struct.pack(
        "<2i12id", 793712314, 12, dimension, 5, 5, 1, 5, 1, loss, 3, buckets, 2, longest, 100, 0.1
    )
    head += struct.pack("<3iqq", words + labels, words, labels, 100, pruned)
    usual = b"</s>\0" + struct.pack("<qb", 5, 0) + b"__label__a\0" + struct.pack("<qb", 5, 1)
    return head + (usual if entries is None else entries) + behind


def quantised(height: int, dimension: int) -> bytes:
    """An input of one code a row: rows of `dimension` numbers for a byte each."""
    head = struct.pack("<??qqi", True, False, height, dimension, height) + bytes(height)
    head += struct.pack("<4i", dimension, 1, dimension, dimension) + bytes(4 * 256 * dimension)
    return head + struct.pack("<?qq", False, 1, dimension) + bytes(4 * dimension)


LARGEST_MODEL = own({"weights": tensor([190 << 20], 0, 380 << 20)})

MODELS: dict[str, tuple[str, Callable[[], bytes], int, str]] = {
    # name: (which step, bytes, length that the file is stretched to by a hole, words of the
    # refusal; empty: read, and small)
    "weights of 2^40": (
        "classifier",
        lambda: own({"weights": tensor([1 << 39], 0, 1 << 40)}),
        0,
        "it is damaged",
    ),
    "weights of 2^79": (
        "classifier",
        lambda: own({"weights": tensor([1 << 39, 1 << 39], 0, 8)}, bytes(8)),
        0,
        "it is damaged",
    ),
    "two arrays in one place": (
        "classifier",
        lambda: own({"a": tensor([4], 0, 8), "b": tensor([4], 0, 8)}, bytes(8)),
        0,
        "it is damaged",
    ),
    "a hole of 3 GB": (
        "classifier",
        lambda: own({"weights": tensor([3 << 29], 0, 3 << 30)}),
        3 << 30,
        "bytes: expected",
    ),
    "the largest file": (
        "classifier",
        lambda: LARGEST_MODEL,
        len(LARGEST_MODEL) + (380 << 20),
        "it is damaged: expected sha256",
    ),
    "an array of 70,000 dimensions": (
        "classifier",
        lambda: own({"weights": tensor([1] * 70_000, 0, 2)}, bytes(2)),
        0,
        "70000 dimensions",
    ),
    "bytes of no array": (
        "classifier",
        lambda: own({"weights": tensor([4], 0, 8)}, bytes(64)),
        0,
        "it is damaged",
    ),
    "50,000 arrays": (
        "classifier",
        lambda: own({f"w{number}": tensor([0], 0, 0) for number in range(50_000)}),
        0,
        "it is damaged",
    ),
    "a header of 16 EB": (
        "classifier",
        lambda: b"\xff" * 8 + model_file.START + b"{}",
        0,
        "header's size is wrong",
    ),
    "a header of 5 MB": (
        "classifier",
        lambda: struct.pack("<Q", 5 << 20) + model_file.START.ljust(5 << 20),
        0,
        "header's size is wrong",
    ),
    "a nested header": (
        "classifier",
        lambda: struct.pack("<Q", 200_026) + model_file.START + b"[" * 200_000,
        0,
        "its header is damaged",
    ),
    "nested parameters": (
        "classifier",
        lambda: own({}, described='{"parameters": {"a": ' + "[" * 99_000),
        0,
        "its header is damaged",
    ),
    "n-grams of 2^40": (
        "perplexity",
        lambda: own({"keys": tensor([1 << 39], 0, 1 << 42, "U64")}, kind="perplexity"),
        0,
        "is no n-gram",
    ),
    "words of 2^31": ("language", lambda: fast(words=2**31 - 2), 0, "words and labels"),
    "words in a hole": (
        "language",
        lambda: fast(words=8_000_000, entries=b""),
        3 << 30,
        "a word is empty",
    ),
    "more words than bytes": (
        "language",
        lambda: fast(words=5_000_000),
        0,
        "cut short, or its counts",
    ),
    "buckets of 2^31": ("language", lambda: fast(buckets=2**31 - 1), 0, "2,147,483,647 buckets"),
    "a row of 2^20 for a bucket": (
        "language",
        lambda: fast(
            buckets=1 << 28,
            dimension=(1 << 20) - 1,
            behind=struct.pack("<?qq", False, 1 + (1 << 28), (1 << 20) - 1),
        ),
        0,
        "cut short, or its counts",
    ),
    "a pruned list of 2^60": (
        "language",
        lambda: fast(pruned=1 << 60),
        0,
        "a table of an impossible size",
    ),
    "a word without end": ("language", lambda: fast(entries=b"x" * 200_000), 0, "has no end"),
    "n-grams of long words": (
        "language",
        lambda: fast(
            words=100,
            longest=60,
            entries=b"".join(
                b"%05d" % number + b"y" * 60_000 + b"\0" + struct.pack("<qb", 5, 0)
                for number in range(100)
            ),
        ),
        0,
        "n-grams of characters",
    ),
    "a quantised bomb": (
        "language",
        lambda: fast(
            buckets=2_000_000, loss=1, dimension=1 << 13, behind=quantised(2_000_001, 1 << 13)
        ),
        0,
        "",
    ),
    "an ARPA file of 4 billion": (
        "perplexity",
        lambda: b"\\data\\\nngram 1=4000000000\nngram 2=4000000000\n\n\\1-grams:\n",
        0,
        "8,000,000,000 n-grams",
    ),
}

READ = """
import json, sys
from gristmill.filters.api.step import Input
from gristmill.errors import RecipeError
def read(step, path):
    file = Input("evil", path, "0")
    if step == "classifier":
        from gristmill.filters.models.classifier import scorer
        return scorer("classifier", file, None)
    if step == "perplexity":
        from gristmill.filters.models.perplexity import _scorer
        return _scorer(file, "normalised")
    from mmap import ACCESS_READ, mmap
    from gristmill.filters.models import fasttext_file as fasttext
    with open(path, "rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        try:
            return fasttext.read(data)
        except ValueError as error:
            raise RecipeError(str(error)) from error
told = []
for step, path in json.loads(sys.argv[1]):
    try:
        read(step, path)
        words = ""
    except RecipeError as error:
        words = str(error)
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    told.append((words, int(peak.split()[1]) // 1024))
print(json.dumps(told))
"""


def test_model_files_that_lie_are_refused_and_cost_little(tmp_path: Path) -> None:
    jobs = []
    for number, (step, made, length, _) in enumerate(MODELS.values()):
        path = tmp_path / str(number)
        path.write_bytes(made())
        if length:
            with path.open("r+b") as file:
                file.truncate(length)
        jobs.append((step, str(path)))
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(jobs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for (name, (_, _, _, why)), (words, megabytes) in zip(
        MODELS.items(), json.loads(done.stdout), strict=True
    ):
        assert why in words, (name, words)
        assert bool(why) == bool(words), (name, words)
        assert megabytes < 1000, (name, megabytes)


def test_tokenizers_that_lie_cost_little() -> None:
    """All of them in one process, and the largest that is read."""
    code = (
        "from gristmill.errors import RecipeError\n"
        "from gristmill.tokens.tokenizer import Tokenizer\n"
        "from tests.support.hostile_models import RANKS, TOKENIZERS\n"
        "for made, _ in [*TOKENIZERS.values(), *RANKS.values()]:\n"
        "    try: Tokenizer('evil', made())\n"
        "    except RecipeError: pass\n"
        "print(next(line for line in open('/proc/self/status') if "
        "line.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) // 1024 < 1000
