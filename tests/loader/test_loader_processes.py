"""The loader in scripts, at the prompt, in a notebook; forked, interrupted; over 10^10 tokens."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest

from gristmill.loader.loader import Loader
from gristmill.store import manifest as manifests
from gristmill.store.parts import Part
from tests.support.naive_order import numbered
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("processes"), {"web": numbered(1, 200, 30)}, vocabulary=10_000
    )


def start(code: str, *words: object) -> "subprocess.Popen[str]":
    """A script on standard input, so that there is no file and no main guard."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(code)
    process.stdin.close()
    process.stdin = None
    return process


OPEN = """
import os, signal, sys, time
from gristmill import Loader
# A shell that starts the tests in the background has SIGINT ignored, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = Loader(sys.argv[1], sequence_length=10, batch_size=4)
first = next(loader)
"""


def test_a_script_without_main_guard_ends_clean(root: Path) -> None:
    """The loader is left open: its thread is made to end when the interpreter exits."""
    process = start(OPEN + "print(first.inputs.sum())", root)
    said, complaints = process.communicate(timeout=120)
    assert (process.returncode, complaints) == (0, "")
    with Loader(root, sequence_length=10, batch_size=4) as loader:
        assert int(said) == next(loader).inputs.sum()


# What a user types, with threads and with worker processes, and without `if __name__`.
WORKERS = """
import itertools
from gristmill import Loader
SETTINGS = {{"sequence_length": 10, "batch_size": 4, "steps": 9}}
alone = [batch.windows.tolist() for batch in Loader({root!r}, **SETTINGS, prefetch=2)]
from torch.utils.data import DataLoader
from gristmill import TokenDataset
items = DataLoader(TokenDataset({root!r}, **SETTINGS), batch_size=None, num_workers=2)
found = [item["windows"].tolist() for item in items]
print("equal" if found == alone and len(found) == 9 else (found, alone))
"""


def run(*words: object, typed: str = "", cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        input=typed,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs_torch() -> None:
    if find_spec("torch") is None:
        missing("torch", "torch is not installed (pip install 'gristmill[torch]')")


@pytest.mark.parametrize(
    "way", ["file", *(pytest.param(way, marks=pytest.mark.soak) for way in ("-c", "typed"))]
)
def test_workers_of_a_script_without_main_guard(root: Path, tmp_path: Path, way: str) -> None:
    """A file, `python -c`, and lines typed at the prompt."""
    needs_torch()
    code = WORKERS.format(root=str(root))
    (tmp_path / "script.py").write_text(code)
    words = {"file": ("script.py",), "-c": ("-c", code), "typed": ("-i", "-q")}[way]
    said = run(*words, typed=code if way == "typed" else "", cwd=tmp_path)
    assert said.split() == ["equal"]


@pytest.mark.soak
def test_workers_of_a_notebook(root: Path, tmp_path: Path) -> None:
    needs_torch()
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        missing("notebook", "no notebook can be run: nbclient or ipykernel is not installed")
    import nbformat

    code = WORKERS.format(root=str(root))
    cells = [nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("print(list(items) != [])")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    (tmp_path / "note.ipynb").write_text(nbformat.writes(notebook))
    execute = (
        "import nbformat, nbclient\nnote = nbformat.read('note.ipynb', 4)\n"
        "nbclient.NotebookClient(note, kernel_name='python3').execute()\n"
        "print(*[out['text'] for cell in note.cells for out in cell.outputs])"
    )
    assert run("-c", execute, cwd=tmp_path).split() == ["equal", "True"]


def test_a_fork_goes_on_by_itself(root: Path) -> None:
    """Each of the two yields what one would have, from where the fork was."""
    code = """
reading, writing = os.pipe()
child = os.fork()
rows = [next(loader).windows.tolist() for _ in range(200)]
tokens = int(next(loader).tokens.sum())
if child == 0:
    os.write(writing, repr((rows, tokens)).encode())
    os._exit(0)
os.close(writing)
found = b""
while piece := os.read(reading, 65536):
    found += piece
assert os.waitpid(child, 0)[1] == 0
assert eval(found) == (rows, tokens)
assert rows[0] == [4, 5, 6, 7] and rows[-1][-1] == 803
print("equal")
"""
    process = start(OPEN + code, root)
    said, complaints = process.communicate(timeout=120)
    assert (process.returncode, said, complaints) == (0, "equal\n", "")


def test_ctrl_c_ends_it_at_once(root: Path) -> None:
    code = """
print("ready", flush=True)
while True:
    next(loader)
"""
    process = start(OPEN + code, root)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert time.monotonic() - begin < 20
    assert process.returncode == -signal.SIGINT
    assert complaints.rstrip().endswith("KeyboardInterrupt")


def test_ten_thousand_million_tokens_open_as_fast_as_a_thousand(root: Path, tmp_path: Path) -> None:
    """Sparse shards of 10^10 tokens and 10^7 documents: nothing is read but what is asked for."""
    base = token_corpus(tmp_path, {"web": [[1, 2, 0]]})
    manifest = manifests.decode((base / "manifest.json").read_bytes())
    tokens, documents, shards = 100_000_000, 100_000, 100
    ends = np.arange(1, documents + 1, dtype="<u8") * (tokens // documents)
    parts = [part for part in manifest.parts if not part.path.startswith("tokens/")]
    for number in range(shards):
        path = f"tokens/web/train_{number:05}.bin"
        (base / path).unlink(missing_ok=True)
        with open(base / path, "wb") as file:
            file.truncate(2 * tokens)
        with open((base / path).with_suffix(".docs"), "wb") as file:
            file.write(np.arange(documents, dtype="<i8") + number * documents)
            file.write(ends)
        counts = {"tokens": tokens, "documents": documents}
        parts.append(Part(path, 2 * tokens, "0" * 64, counts))
    parts.sort(key=lambda part: part.path)
    data = manifests.encode(
        msgspec.structs.replace(manifest, parts=parts, content=manifests.content_digest(parts))
    )
    (base / "manifest.json").write_bytes(data)
    (base / "manifest.lock").write_bytes(manifests.make_lock(data))
    times = []
    for corpus in (root, base) * 2:
        begin = time.process_time()
        with Loader(corpus, sequence_length=1000, batch_size=2) as loader:
            assert next(loader).tokens.shape[0] == 2
            state = {**loader.state_dict(), "windows": 2 * 10**9}
        opened = time.process_time() - begin
        begin = time.process_time()
        with Loader(corpus, state=state) as loader:
            assert next(loader).windows.tolist() == [2 * 10**9, 2 * 10**9 + 1]
        times.append((opened, time.process_time() - begin))
    # The quicker of two: what else the machine does adds to the others.
    assert min(opened for opened, _ in times[1::2]) < 1.0
    assert min(resumed for _, resumed in times[1::2]) < 1.0
    assert os.stat(base / "tokens/web/train_00000.bin").st_size == 2 * tokens
