"""Tokenizer and model files that lie: numbers without end, counts that the file does not hold,
nesting, bombs. Each is refused in words, and no process that reads one grows beyond a gigabyte.
"""

import base64
import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError
from gristmill.filters.models import model_file
from gristmill.tokens.table import LARGEST, MOST_IDS
from gristmill.tokens.tokenizer import BYTE_LEVEL, Tokenizer
from tests.support import ROOT

FLAGS = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
END = {"id": 256, "content": "<|endoftext|>", **FLAGS}
CUT = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {character: number for number, character in enumerate(BYTE_LEVEL)}


def tokenizer(vocabulary: Any = None, added: Any = None, **more: Any) -> bytes:
    model = {
        "type": "BPE",
        "vocab": BYTES if vocabulary is None else vocabulary,
        "merges": more.pop("merges", []),
    }
    table = {
        "added_tokens": [END] if added is None else added,
        "pre_tokenizer": CUT,
        "model": model,
    }
    return json.dumps({**table, **more}).encode()


def deep(count: int, key: str) -> bytes:
    return tokenizer().replace(
        b'"added_tokens"',
        b'"%s": %s, "added_tokens"' % (key.encode(), b"[" * count + b"]" * count),
        1,
    )


TOKENIZERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "an id of 2^31 - 1": (
        lambda: tokenizer({**BYTES, "zz": 2**31 - 1}),
        "the token 'zz' has the number 2,147,483,647",
    ),
    "an added id of 2^31 - 1": (
        lambda: tokenizer(added=[{**END, "id": 2**31 - 1}]),
        "has the number 2,147,483,647",
    ),
    "an id of 10^30": (lambda: tokenizer({**BYTES, "zz": 10**30}), "is no tokenizer.json: "),
    "an id below zero": (
        lambda: tokenizer({**BYTES, "zz": -1}),
        "the token 'zz' has the number -1",
    ),
    "an id that is no number": (lambda: tokenizer({**BYTES, "zz": "7"}), "is no tokenizer.json: "),
    "nested lists": (lambda: deep(200_000, "extra"), "it is nested too deep"),
    "a nested normalizer": (lambda: deep(200_000, "normalizer"), "it is nested too deep"),
    "a nested pre-tokenizer": (
        lambda: tokenizer().replace(json.dumps(CUT).encode(), b"[" * 30_000 + b"]" * 30_000),
        "it is nested too deep",
    ),
    "a nested vocabulary": (
        lambda: tokenizer().replace(b'"vocab": {', b'"vocab": ' + b"[" * 200_000 + b"{"),
        "no tokenizer.json: ",
    ),
    "two tokens of one id": (
        lambda: tokenizer({**BYTES, "ab": 300, "cd": 300}),
        "two tokens have the number 300: 'ab' and 'cd'",
    ),
    "an added token on another's id": (
        lambda: tokenizer(added=[{**END, "id": 5}]),
        "two tokens have the number 5",
    ),
    "a token of two ids": (
        lambda: tokenizer({**BYTES, END["content"]: 300}),
        "has two numbers, 300 and 256",
    ),
    "a huge vocabulary": (
        lambda: tokenizer()[:-2] + b', "more": [' + b"0," * (4 << 20) + b"0]}}",
        "it has more than 2,097,152 values",
    ),
    "a merge of one token": (lambda: tokenizer(merges=["ab"]), "a merge does not name two tokens"),
    "a merge of three": (lambda: tokenizer(merges=[["a", "b", "c"]]), "no tokenizer.json: "),
    "a vocabulary of text": (lambda: tokenizer("abc"), "no tokenizer.json: "),
    "nothing behind the brace": (lambda: b"{", "no tokenizer.json: "),
    "a large file": (lambda: b"{" + b" " * LARGEST, "it has more than 134,217,728 bytes"),
}


def ranks(*lines: bytes, count: int = 50_256) -> bytes:
    whole = [
        base64.b64encode(b"!" if number == 0 else b"t%d" % number) + b" %d" % number
        for number in range(count)
    ]
    return b"\n".join([*whole, *lines])


RANKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a huge rank": (
        lambda: ranks(b"QUFB 2147483647"),
        "line 50257 is not a token in base64 and a rank below 2,097,152",
    ),
    "a rank of 10,000 digits": (
        lambda: ranks(b"QUFB " + b"9" * 10_000),
        "line 50257 is not a token",
    ),
    "a rank below zero": (lambda: ranks(b"QUFB -1"), "line 50257 is not a token"),
    "a rank twice": (lambda: ranks(b"QUFB 7"), "line 50257: rank 7 stands twice"),
    "a token twice": (lambda: ranks(b"dDE= 50256"), "a token has two ranks"),
    "a gap": (lambda: ranks(b"QUFB 50300"), "its ranks are not 0 to 50256 without a gap"),
    "bad base64": (lambda: ranks(b"QU*B 50256"), "line 50257 is no base64"),
    "three words": (lambda: ranks(b"QUFB 50256 x"), "line 50257 is not a token"),
    "lines without end": (lambda: b"\n" * (MOST_IDS + 1), "it has more than 2,097,152 lines"),
    "merges of one word": (lambda: b"#version: 0.2\nab\n", "line 2 does not name two tokens"),
    "merges that are no UTF-8": (lambda: b"#version: 0.2\n\xff \xfe\n", "can't decode byte"),
}


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
    arrays: list[dict[str, Any]], behind: bytes = b"", kind: str = "classifier", **more: Any
) -> bytes:
    """A file of ours that says what it likes of itself."""
    header = {
        "kind": kind,
        "version": 2 if kind == "classifier" else 1,
        "parameters": {},
        "inputs": {},
        "counts": {},
        "arrays": arrays,
    }
    text = json.dumps({**header, "sha256": hashlib.sha256(behind).hexdigest(), **more}).encode()
    head = model_file.MAGIC + struct.pack("<II", 1, more.get("said", len(text))) + text
    return head + bytes(-len(head) % 64) + behind


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


MODELS: dict[str, tuple[str, Callable[[], bytes], int, str]] = {
    # name: (which step, bytes, length that the file is stretched to by a hole, words of the
    # refusal; empty: read, and small)
    "weights of 2^40": (
        "classifier",
        lambda: own([{"name": "weights", "type": "i2", "shape": [1 << 39]}]),
        0,
        "too short for its array",
    ),
    "weights of 2^63": (
        "classifier",
        lambda: own([{"name": "weights", "type": "i2", "shape": [1 << 39, 1 << 39]}]),
        0,
        "too short",
    ),
    "a hole of 3 GB": (
        "classifier",
        lambda: own([{"name": "weights", "type": "i2", "shape": [3 << 29]}]),
        3 << 30,
        "bytes: expected",
    ),
    "a header of 4 GB": (
        "classifier",
        lambda: model_file.MAGIC + struct.pack("<II", 1, 0xFFFFFFFF) + b"{}",
        0,
        "header's size is wrong",
    ),
    "a nested header": (
        "classifier",
        lambda: own([], parameters={}).replace(
            b'"parameters": {}', b'"parameters": {"a": ' + b"[" * 200_000
        ),
        0,
        "its header is damaged",
    ),
    "n-grams of 2^40": (
        "perplexity",
        lambda: own([{"name": "keys", "type": "u8", "shape": [1 << 39]}], kind="perplexity"),
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
    from gristmill.clean import fasttext
    with open(path, "rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        try:
            return fasttext.read(data), fasttext.read_bag(data)
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
        "import tests.test_hostile_models as here\n"
        "from gristmill.errors import RecipeError\n"
        "for made, _ in [*here.TOKENIZERS.values(), *here.RANKS.values()]:\n"
        "    try: here.Tokenizer('evil', made())\n"
        "    except RecipeError: pass\n"
        "print(next(line for line in open('/proc/self/status') if "
        "line.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) // 1024 < 1000
