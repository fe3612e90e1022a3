"""How kernels are compiled, and the folders in which their machine code is kept."""

import ast
import itertools
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching

import gristmill
from gristmill.kernels.jit import build, keys, places
from gristmill.kernels.jit import compile as kernels
from gristmill.system.kernels_folder import kernels_folder
from tests.support import ROOT
from tests.support.unpickled import Opened

SOURCES = Path(gristmill.__file__).parent.parent
ALL = (
    "from gristmill.kernels.jit import compile as kernels; kernels.import_all(); "
    "print(len([folder for folder in kernels._folders.values() if folder]))"
)
# The modules that these builds are of; all would take minutes.
BUILT = ("filters.gopher_lines", "hashing.band_keys", "hashing.pairs", "hashing.shuffle")
# One small module, and a kernel of it at work.
FEW = """
import numpy as np
from gristmill.kernels.hashing import pairs
from gristmill.kernels.jit import compile as kernels
one = np.arange(8, dtype=np.uint32).reshape(2, 4)
same = pairs.agreement(one, one, np.array([0, 0]), np.array([0, 1]))
print(kernels._folder("hashing.pairs"), same.tolist())
"""
MEMORY = "None [4, 0]"


def environment(folder: Path, sources: Path = SOURCES) -> dict[str, str]:
    """That of a start with this folder for machine code, and with these sources."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in (build.BUILDING, "NUMBA_BOUNDSCHECK")
    }
    return {
        **kept,
        "GRISTMILL_KERNELS": str(folder),
        "PYTHONPATH": str(sources),
        places.ONLY: ",".join(BUILT),
    }


def start(
    folder: Path, code: str = FEW, *, sources: Path = SOURCES, more: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """A process of its own group that runs this code."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(folder, sources) | (more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process that ended well printed, and its complaints."""
    out, complaints = process.communicate(timeout=300)
    assert process.returncode == 0, complaints
    return out.strip(), complaints


def contents(folder: Path) -> dict[str, int]:
    """Names of modules' folders and of builds, with how many kernels each has."""
    return {
        path.name: len(list(path.rglob("*.code"))) for path in folder.iterdir() if path.is_dir()
    }


def names_of(modules: Iterable[str]) -> dict[str, int]:
    """What a folder holds when these modules are built."""
    kernels.import_all()
    built = [name.rpartition(".")[0] for name in kernels.dispatchers]
    return {keys.folder_name(module): built.count(module) for module in modules}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, int]]]:
    """A folder in which a build was killed midway, and what it held then."""
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    process = start(folder, ALL)
    deadline = time.monotonic() + 120
    while not any(name.startswith(BUILT) for name in contents(folder)):
        assert process.poll() is None, "ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    yield folder, contents(folder)
    shutil.rmtree(folder)


def test_killed_build_keeps_the_modules_that_were_done(killed: tuple[Path, dict[str, int]]) -> None:
    """What was done is whole and in its place; one module of each process is lost."""
    _, left = killed
    whole = names_of(BUILT)
    done = {name: count for name, count in left.items() if name in whole}
    assert done
    assert done.items() <= whole.items()
    rest = left.keys() - done.keys()
    assert len(rest) == 1
    assert rest.pop().startswith("building-")


def test_many_starts_at_once_build_once(killed: tuple[Path, dict[str, int]]) -> None:
    """Three processes find the rest of a killed build: each module is built once, and all run."""
    folder, _ = killed
    before = {path: path.stat().st_mtime_ns for path in folder.glob("[a-z]*.*/*")}
    processes = [start(folder, ALL) for _ in range(3)]
    outcomes = [outcome(process) for process in processes]
    assert contents(folder) == names_of(BUILT)
    assert [out for out, _ in outcomes] == [str(len(BUILT))] * 3
    assert sum("compiling kernels" in complaints for _, complaints in outcomes) == 1
    assert {(folder / name).stat().st_mode & 0o777 for name in contents(folder)} == {0o700}
    assert before
    assert {path: path.stat().st_mtime_ns for path in before} == before
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*/*")}
    assert outcome(start(folder))[0] == f"{folder / keys.folder_name('hashing.pairs')} [4, 0]"
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/*")} == written, (
        "a folder is never written again"
    )


TERMINATED = """
from gristmill.kernels.jit import compile as kernels
kernels.import_all()
"""


def test_terminated_build_ends_its_compilers(tmp_path: Path) -> None:
    """The signal goes to the process that waits for them, which does not hear it."""
    tmp_path.chmod(0o700)
    process = start(tmp_path, TERMINATED)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("building-*/*.taken")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate()
    deadline = time.monotonic() + 60
    while True:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline, "compilers live on"
        time.sleep(0.1)


PREPARED = """
import sys
from gristmill.kernels.jit import build
print(build.prepare(sys.argv[1:]))
print("numba" in sys.modules)
from gristmill.kernels.jit import compile as kernels
from gristmill.kernels.packing import aligned
print(kernels._folder("packing.aligned"))
"""


def test_modules_that_few_runs_need_are_built_when_they_are_imported(tmp_path: Path) -> None:
    """Or with the others, where they are asked for; those of another group are not."""
    tmp_path.chmod(0o700)
    more = {places.ONLY: "hashing.pairs,packing.aligned,substrings.cut"}
    packing = tmp_path / keys.folder_name("packing.aligned")
    out, complaints = outcome(start(tmp_path, PREPARED, more=more))
    assert out.splitlines() == ["True", "False", str(packing)]
    assert complaints.count("kernels compiled in") == 2
    shutil.rmtree(packing)
    code = PREPARED.replace("sys.argv[1:]", "['packing']")
    out, complaints = outcome(start(tmp_path, code, more=more))
    assert out.splitlines() == ["True", "False", str(packing)]
    assert complaints.count("kernels compiled in") == 1
    assert {name.partition("-")[0] for name in contents(tmp_path)} == {
        "hashing.pairs",
        "packing.aligned",
    }


def test_what_is_prepared_is_noted(tmp_path: Path) -> None:
    """The next start looks at the note alone; another that needs more does not."""
    tmp_path.chmod(0o700)
    code = """
from gristmill.kernels.jit import build
looked = []
build.ready = lambda modules: looked.append(modules) or {}
for names in ((), ("packing",)):
    print(build.prepare(names), len(looked))
"""
    assert outcome(start(tmp_path, code))[0] == "True 1\nTrue 2"
    assert outcome(start(tmp_path, code))[0] == "True 0\nTrue 0"
    assert len(list(tmp_path.glob("ready-*"))) == 2


def test_names_of_groups_are_of_modules() -> None:
    for name in itertools.chain(places.PLAIN, places.DEMO, *places.TOGETHER):
        assert [module for module in keys.modules() if places.is_named(module, (name,))]


def test_estimate_falls_between_two_kernels(tmp_path: Path) -> None:
    """What is left is counted again when a kernel is done, and runs down in between."""
    module = "hashing.pairs"
    folder = tmp_path / "building-xxxxxxxx" / keys.folder_name(module)
    folder.mkdir(parents=True)
    said: list[dict[str, Any]] = []
    progress = build._BuildProgress(tmp_path, folder.parent, [module], "", said.append)
    (folder / "_agree.code").touch()
    for passed in (10, 15, 30, 1000):
        progress.start -= passed
        progress._end -= passed if len(said) > 1 else 0
        progress.look()
    left = [round(event["left_seconds"]) for event in said[1:]]
    assert left == sorted(left, reverse=True)
    assert left[0] == 10 * (keys.kernel_count(module) - 1)
    assert left[-1] == 1


def test_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """Nothing is built in it."""
    for mode, private in ((0o770, False), (0o755, True), (0o707, False)):
        tmp_path.chmod(mode)
        assert places.is_private(tmp_path) == private
    try:
        assert outcome(start(tmp_path)) == (MEMORY, "")
        assert not list(tmp_path.iterdir())
    finally:
        tmp_path.chmod(0o700)


def test_module_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """Whatever is in it is not loaded: it would run with this user's rights."""
    tmp_path.chmod(0o700)
    place, marker = tmp_path / keys.folder_name("hashing.pairs"), tmp_path / "loaded"
    place.mkdir()
    for name in ("_agree", "_jaccard", "_decide", "_mark", "_repeated"):
        (place / f"{name}.code").write_bytes(pickle.dumps(Opened(marker)))
    place.chmod(0o770)
    only = {places.ONLY: "hashing.pairs"}
    assert outcome(start(tmp_path, more=only)) == (MEMORY, "")
    assert not marker.exists()
    # In a folder that is this user's alone the same files are loaded: the mode kept them out.
    place.chmod(0o700)
    start(tmp_path, more=only).communicate(timeout=300)
    assert marker.exists()


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Kernels are compiled in memory, in silence."""
    (tmp_path / "file").write_bytes(b"")
    assert outcome(start(tmp_path / "file" / "kernels")) == (MEMORY, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert outcome(start(tmp_path)) == (MEMORY, "")
        assert outcome(start(tmp_path / "kernels")) == (MEMORY, "")
    finally:
        tmp_path.chmod(0o700)


def imports_in(module: str) -> set[str]:
    """The modules of the room that a module imports, by its syntax tree."""
    named = set()
    for node in ast.walk(ast.parse(keys.sources()[module])):
        if isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            named |= {name.name for name in node.names}
    prefix = "gristmill.kernels"
    inside = {name[len(prefix) :].lstrip(".") for name in named if name.startswith(prefix)}
    rooms = {name.rpartition(".")[0] for name in (*inside, module)}
    return (inside | rooms) & keys.sources().keys() - {module}


@pytest.mark.parametrize("module", sorted(keys.sources()))
def test_imports_of_a_module_are_found(module: str) -> None:
    assert keys.module_imports(module) == imports_in(module)


KEYED = ("unicode/unicode.npz", "unicode/tables.py", "jit/compile.py", "hashing/band_keys.py")


def test_key_changes_with_what_a_module_imports(tmp_path: Path, soak: int) -> None:
    """A comment in a file (every sixth, or one of KEYED; soak: each) changes the keys of the
    modules that import it, directly or not, and of no others; so does a byte in a data file.
    """
    shutil.copytree(
        SOURCES / "gristmill", tmp_path / "gristmill", ignore=shutil.ignore_patterns("__pycache__")
    )
    code = """
import json, sys
from gristmill.kernels.jit import compile as kernels, keys
def all_keys():
    for function in (keys.sources, keys._source_digest, keys._data_files, keys.key):
        function.cache_clear()
    return {name: keys.key(name) for name in keys.modules()}
first, changed = all_keys(), {}
paths = sorted((*keys.ROOM.rglob("*.py"), *keys.ROOM.rglob("*.npz")))
keyed = {keys.ROOM / name for name in sys.argv[2:]}
for path in sorted({*paths[::int(sys.argv[1])], *keyed}):
    whole = path.read_bytes()
    path.write_bytes(whole + b"# one more\\n")
    now = all_keys()
    changed[str(path.relative_to(keys.ROOM))] = [name for name in now if now[name] != first[name]]
    path.write_bytes(whole)
assert all_keys() == first
print(json.dumps([first, changed]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "6" if soak == 1 else "1", *KEYED],
        env=environment(tmp_path, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    first, changed = json.loads(done.stdout)
    assert len(set(first.values())) == len(first)
    for module in keys.sources():
        path = keys.ROOM / module.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        name = str(file.relative_to(keys.ROOM))
        if name in changed:
            assert changed[name] == [one for one in first if module in keys.import_closure(one)]
    assert len(changed) > len(KEYED) + 8
    assert changed["unicode/unicode.npz"] == changed["unicode/tables.py"]
    assert changed["jit/compile.py"] == keys.modules()
    assert changed["hashing/band_keys.py"] == ["hashing.band_keys"]
    assert first["text.words"] == keys.key("text.words"), "installations of one user share the code"


@pytest.mark.soak
def test_edit_of_a_module_compiles_it_alone(tmp_path: Path) -> None:
    shutil.copytree(
        SOURCES / "gristmill", tmp_path / "gristmill", ignore=shutil.ignore_patterns("__pycache__")
    )
    folder, two = tmp_path / "kernels", {places.ONLY: "hashing.pairs,hashing.shuffle"}
    assert outcome(start(folder, ALL, sources=tmp_path, more=two))[0] == "2"
    before = contents(folder)
    assert len(before) == 2
    with open(tmp_path / "gristmill/kernels/hashing/shuffle.py", "a") as file:
        file.write("# one more\n")
    out, complaints = outcome(start(folder, ALL, sources=tmp_path, more=two))
    assert out == "2"
    assert "compiling kernels of hashing.shuffle (once on this machine): 0 of 3" in complaints
    new = contents(folder).keys() - before.keys()
    assert [name.partition("-")[0] for name in new] == ["hashing.shuffle"]


def test_build_of_all_is_whole() -> None:
    """Each kernel's machine code, compiled by one of several processes, is in the folders that
    these tests run from.
    """
    kernels.import_all()
    places = {module: kernels._folder(module) for module in keys.modules()}
    if None in places.values():
        pytest.skip("machine code is kept nowhere here")
    for module, place in places.items():
        assert place is not None
        wanted = [name for name in kernels.dispatchers if name.rpartition(".")[0] == module]
        assert {f"{module}.{path.stem}" for path in place.iterdir()} == set(wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [("NUMBA_CPU_NAME", "generic"), ("NUMBA_CPU_FEATURES", "+sse2"), ("NUMBA_CPU_FEATURES", "")],
)
def test_key_changes_with_the_processor_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    keys._machine.cache_clear()
    keys.key.cache_clear()
    try:
        first = keys.key("text.words")
        monkeypatch.setenv(name, value)
        keys._machine.cache_clear()
        keys.key.cache_clear()
        assert keys.key("text.words") != first
    finally:
        keys._machine.cache_clear()
        keys.key.cache_clear()


def test_options_of_every_kernel() -> None:
    """One signature, none compiled later; without the lock; one thread; exact arithmetic; not
    numba's own cache.
    """
    kernels.import_all()
    assert len(kernels.dispatchers) >= len(keys.modules())
    for name, dispatcher in kernels.dispatchers.items():
        if name.startswith("tests."):  # a test's own, compiled in memory
            continue
        assert len(dispatcher.signatures) == 1, name
        assert not dispatcher._can_compile, name
        options = dispatcher.targetoptions
        assert options["nogil"] is True, name
        assert not options.get("parallel"), name
        assert not options.get("fastmath"), name
        assert not options.get("cache"), name
        assert not isinstance(dispatcher._cache, caching._Cache), name


def test_every_module_with_kernels_is_imported() -> None:
    with_kernels = {
        ".".join(path.relative_to(keys.ROOM).with_suffix("").parts)
        for path in keys.ROOM.rglob("*.py")
        if "\n@kernel(" in path.read_text("utf-8")
    }
    assert with_kernels == set(keys.modules())


@pytest.mark.soak
@pytest.mark.skipif(
    os.environ.get("NUMBA_BOUNDSCHECK") == "1", reason="this is the checked run itself"
)
def test_bounds_are_kept(tmp_path: Path) -> None:
    """The fuzz tests once more, a few examples each, with every index checked (compiled in
    memory).
    """
    pytest.importorskip("hypothesis")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/kernels",
        "-k",
        "fuzz",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    surroundings = environment(tmp_path) | {
        places.ONLY: ",".join(keys.modules()),
        "NUMBA_BOUNDSCHECK": "1",
        "GRISTMILL_FUZZ": "0",
    }
    root = ROOT
    done = subprocess.run(
        command, env=surroundings, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    assert not list(tmp_path.iterdir()), "checked code must not be kept"


GUARDED = """
import ctypes, mmap, sys
import numpy as np
from gristmill.kernels.bpe import encoder, merges
from gristmill.kernels.filters import gopher_lines
from gristmill.kernels.hashing import minhash
from gristmill.kernels.text import words
from gristmill.kernels.unicode import normalised

size = 4 * mmap.PAGESIZE
memory = mmap.mmap(-1, size + mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
if sys.argv[1:] == ["beyond"]:
    ctypes.string_at(start + size, 1)
single = [bytes([byte]) for byte in range(256)]
coder = encoder.Encoder(merges.merges_of_ranks([*single, b"ab", b" ab", b"abc", b"x" * 20]))
multipliers, addends = minhash.permutations(4, 1)
bases = ["x" * 150, " " * 140, "ab cde\\r\\n#\u2026 \u2022 " * 8]
bases += ["\u3000\u00e9\u4e2d \u2028" * 10, "abc\U0001f600'll " * 12]
for base in bases:
    for cut in range(len(base) + 1):
        for text in (base[:cut], base[cut:]):
            raw = text.encode()
            memory[size - len(raw) : size] = raw
            data = np.frombuffer(memory, np.uint8, len(raw), size - len(raw))
            offsets = np.array([0, len(raw)], np.int32)
            gopher_lines.count(data, words.find(offsets, data), most_words=1000)
            normalised.normalise(offsets, data)
            assert len(coder.encode(offsets, data)[1]) <= len(raw)
            plain = " ".join(text.split()).encode()
            memory[size - len(plain) : size] = plain
            data = np.frombuffer(memory, np.uint8, len(plain), size - len(plain))
            wide = np.array([0, len(plain)], np.int64)
            minhash.sign(wide, data, width=3, multipliers=multipliers, addends=addends)
            minhash.distinct_shingles(wide, data, width=3)
print("none")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as Linux has it")
def test_no_kernel_reads_past_its_buffer() -> None:
    """Wide loads are not checked by numba: here the byte after the last is one that ends the
    process.
    """
    command = [sys.executable, "-c", GUARDED]
    surroundings = environment(kernels_folder()) | {places.ONLY: ",".join(keys.modules())}
    beyond = subprocess.run(
        [*command, "beyond"], env=surroundings, capture_output=True, check=False
    )
    assert beyond.returncode == -signal.SIGSEGV, "there is no guard"
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr


def decorators_of(node: ast.AST) -> set[str]:
    """The names of a function's decorators."""
    found = getattr(node, "decorator_list", [])
    calls = [one.func if isinstance(one, ast.Call) else one for one in found]
    return {one.id for one in calls if isinstance(one, ast.Name)}


def helpers_in(body: list[ast.stmt]) -> set[str]:
    """The helpers that a module defines."""
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if "helper" in decorators_of(function)}


def test_no_helper_is_called_from_python() -> None:
    """It would be compiled at every start, which takes longer than all that is loaded."""
    trees = {name: ast.parse(source).body for name, source in keys.sources().items()}
    helpers = {f"gristmill.kernels.{name}": helpers_in(body) for name, body in trees.items()}
    called = []
    for module, body in trees.items():
        known = set(helpers[f"gristmill.kernels.{module}"])
        for node in body:
            if isinstance(node, ast.ImportFrom):
                theirs = helpers.get(node.module or "", set())
                known |= {name.asname or name.name for name in node.names if name.name in theirs}
        plain = [node for node in body if not decorators_of(node) & {"helper", "kernel"}]
        called += [
            f"{module}: {call.func.id}, line {call.lineno}"
            for call in itertools.chain.from_iterable(map(ast.walk, plain))
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            if call.func.id in known
        ]
    assert sum(map(len, helpers.values())) > 50
    assert called == []
