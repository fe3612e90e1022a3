"""A measured process: it loads its documents, then runs one round for each line that it reads, on
one core.

    -> {"ready": true, "megabytes": ..., "versions": {...}}   after imports and loading, which are
                                                              not timed
    <- round   -> {"cpu": seconds, "wall": seconds}           processor time of all its threads
    <- check   -> {"check": ...}                              of the last round's result, to compare
                                                              with another's

ours.py and peers.py are such processes. Standard library only: it also runs in the environment of
the peers.
"""

import argparse
import gc
import hashlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
)


class Documents(NamedTuple):
    """What a round works on."""

    warm: list[str]  # other texts, for what learns as it goes; never timed
    texts: list[str]
    pairs: list[tuple[int, int, float]]  # two of `texts`, and their word-5-gram Jaccard
    size: int  # bytes of `texts` in UTF-8


class Work:
    """One way to do one work. A subclass loads in `__init__`."""

    packages: Sequence[str] = ()  # whose versions are told

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def prepare(self) -> None:
        """Before each round; not timed."""

    def run(self) -> Any:
        """The work, timed."""
        raise NotImplementedError

    def check(self, result: Any) -> Any:
        """Something that tells whether two results are equal."""
        raise NotImplementedError


def environment(core: int) -> dict[str, str]:
    """The environment of a measured process: everything on one thread."""
    return {
        **os.environ,
        **dict.fromkeys(ONE_THREAD, "1"),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
        "DAFT_ANALYTICS_ENABLED": "0",
        "DO_NOT_TRACK": "true",
        "DAFT_PROGRESS_BAR": "0",
        "HF_HUB_OFFLINE": "1",
        "GRISTMILL_BENCH_CORE": str(core),
    }


def load(path: Path, limit: int) -> Documents:
    """Documents up to `limit` bytes; pairs stand at the front and are always whole."""
    table = json.loads(path.read_text("utf-8"))
    texts: list[str] = []
    size = 0
    for text in table["texts"]:
        if size >= limit and len(texts) >= table["paired"]:
            break
        texts.append(text)
        size += len(text.encode())
    return Documents(table["warm"], texts, [tuple(pair) for pair in table["pairs"]], size)


def digest_of_tokens(lists: Sequence[Any]) -> dict[str, Any]:
    """A hash of the tokens of all documents, with how many each has."""
    import numpy as np

    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for tokens in lists:
        array = np.asarray(tokens, "<i4")
        count += len(array)
        digest.update(len(array).to_bytes(8, "little") + array.tobytes())
    return {"tokens": count, "digest": digest.hexdigest()}


def digest_of_redacted(texts: Sequence[str]) -> dict[str, Any]:
    """A digest of texts in which datatrove's two e-mail addresses, and its six IP addresses, are
    taken for one another.
    """
    hashed = hashlib.sha256()
    for text in texts:
        text = text.replace("firstname.lastname@example.org", "email@example.com")
        for address in (
            "126.96.36.199",
            "188.8.131.52",
            "184.108.40.206",
            "220.127.116.11",
            "18.104.22.168",
        ):
            text = text.replace(address, "22.214.171.124")
        hashed.update(text.encode() + b"\0")
    return {"digest": hashed.hexdigest()[:16]}


def digest_of_reasons(reasons: Sequence[str]) -> dict[str, Any]:
    """A hash of the verdicts of all documents, and how many there are of each."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return {
        "reasons": dict(sorted(counts.items())),
        "digest": hashlib.blake2b("\n".join(reasons).encode(), digest_size=16).hexdigest(),
    }


def error_of_estimates(
    signatures: Sequence[Any], pairs: Sequence[tuple[int, int, float]]
) -> dict[str, Any]:
    """How far signatures' estimates lie from the Jaccard similarities of the pairs: the mean
    absolute difference.
    """
    import numpy as np

    differences = [
        abs(float(np.mean(np.asarray(signatures[left]) == np.asarray(signatures[right]))) - true)
        for left, right, true in pairs
    ]
    return {
        "signatures": len(signatures),
        "pairs": len(pairs),
        "error": sum(differences) / max(1, len(differences)),
    }


def serve(works: dict[str, Callable[[Documents], Work]]) -> None:
    """Be a measured process: `SCRIPT WORK DOCUMENTS LIMIT`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=sorted(works))
    parser.add_argument("documents", type=Path)
    parser.add_argument("limit", type=int)
    asked = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    core = os.environ.get("GRISTMILL_BENCH_CORE")
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    documents = load(asked.documents, asked.limit)
    work = works[asked.work](documents)
    versions = {name: importlib.metadata.version(name) for name in work.packages}

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer(
        {
            "ready": True,
            "megabytes": documents.size / 1e6,
            "documents": len(documents.texts),
            "versions": versions,
        }
    )
    result: Any = None
    for line in sys.stdin:
        if line.strip() == "check":
            answer({"check": work.check(result)})
            continue
        result = None
        work.prepare()
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        result = work.run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        answer({"cpu": cpu, "wall": wall})
