"""Machine code that comes with the package: what of it is used, and what is compiled instead."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gristmill
from gristmill.kernels.jit import keys, pack, places
from tests.support import ROOT
from tests.support.unpickled import Opened

SOURCES = Path(gristmill.__file__).parent
LEVELS = pack.machine_levels()
MODULES = "hashing.pairs,hashing.shuffle"
AT_WORK = """
import sys
import numpy as np
from gristmill.kernels.hashing import pairs
from gristmill.kernels.jit import compile as kernels
one = np.arange(8, dtype=np.uint32).reshape(2, 4)
same = pairs.agreement(one, one, np.array([0, 0]), np.array([0, 1]))
print(kernels._folder("hashing.pairs"), same.tolist())
"""
MAKE = """
import sys
from pathlib import Path
from gristmill.kernels.jit import build
build.make_pack(Path(sys.argv[1]), sys.argv[2:])
"""
pytestmark = pytest.mark.skipif(not LEVELS, reason="this processor is of no level")


def started(package: Path, home: Path, code: str, *arguments: str, **more: str) -> tuple[str, str]:
    """What a process that uses this copy of the package prints, and its complaints."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "GRISTMILL_KERNELS"))
    }
    surroundings = {
        **kept,
        "PYTHONPATH": str(package.parent),
        "GRISTMILL_KERNELS": str(home),
        places.ONLY: MODULES,
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=surroundings, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the package in another place, with a pack of two modules for this machine."""
    made = tmp_path_factory.mktemp("made")
    copy = made / "gristmill"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__", "machine_code"))
    _, said = started(copy, made / "none", MAKE, str(copy / "machine_code"), LEVELS[-1])
    assert f"compiling kernels of hashing.pairs, hashing.shuffle for {LEVELS[-1]}" in said
    yield copy
    shutil.rmtree(made)


def changed(package: Path, folder: Path) -> Path:
    """A copy of a package, to be changed."""
    return Path(shutil.copytree(package, folder / "gristmill"))


def test_pack_is_used_from_any_place(package: Path, tmp_path: Path) -> None:
    """Nothing is compiled or written, whether there is a place for it or not."""
    moved = changed(package, tmp_path)
    folder = moved / "machine_code" / LEVELS[-1] / keys.folder_name("hashing.pairs", LEVELS[-1])
    for home in (tmp_path / "home", Path("/dev/null/none")):
        assert started(moved, home, AT_WORK) == (f"{folder} [4, 0]", "")
        assert not home.exists()


def test_what_the_user_has_compiled_goes_before_the_pack(package: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    without = changed(package, tmp_path)
    shutil.rmtree(without / "machine_code")
    mine, said = started(without, home, AT_WORK)
    assert "compiling" in said
    assert started(package, home, AT_WORK) == (mine, "")
    assert mine.startswith(str(home))


def test_damaged_pack_is_refused_with_a_word(package: Path, tmp_path: Path) -> None:
    """Nothing of a file that differs is unpickled; its module is compiled, others are used."""
    damaged, marker = changed(package, tmp_path), tmp_path / "loaded"
    folder = damaged / "machine_code" / LEVELS[-1] / keys.folder_name("hashing.pairs", LEVELS[-1])
    (folder / "_agree.code").write_bytes(pickle.dumps(Opened(marker)))
    out, said = started(damaged, tmp_path / "home", AT_WORK)
    assert out == f"{tmp_path / 'home' / keys.folder_name('hashing.pairs')} [4, 0]"
    assert f"{folder}: machine code that is not what was packed is not used" in said
    assert "compiling kernels of hashing.pairs (once" in said
    assert not marker.exists()
    # With its digest in the notes the same file is loaded: the digest kept it out.
    pack.write_notes(damaged / "machine_code")
    subprocess.run(
        [sys.executable, "-c", AT_WORK],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "GRISTMILL_KERNELS": "/dev/null/none"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert marker.exists()


def test_pack_for_other_versions_says_which(package: Path, tmp_path: Path) -> None:
    other = changed(package, tmp_path)
    notes = other / "machine_code" / pack.NOTES
    table = json.loads(notes.read_text())
    table["versions"]["numpy"] = "1.0.0"
    notes.write_text(json.dumps(table))
    level = other / "machine_code" / LEVELS[-1]
    for folder in list(level.iterdir()):
        folder.rename(level / f"{folder.name[:-1]}_")
    _, said = started(other, tmp_path / "home", AT_WORK)
    here = keys.versions()["numpy"]
    assert f"the machine code in the package is for numpy 1.0.0; here is numpy {here}" in said


def test_processor_that_the_user_names_gets_its_own_code(package: Path, tmp_path: Path) -> None:
    out, said = started(package, tmp_path / "home", AT_WORK, NUMBA_CPU_NAME="generic")
    assert out.startswith(str(tmp_path / "home"))
    assert "compiling" in said


def test_levels_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine has the levels whose features it has, all of them."""
    from llvmlite import binding

    for lacking, levels in (
        ("", ["x86-64-v4", "x86-64-v3"]),
        ("avx512vl", ["x86-64-v3"]),
        ("bmi2", []),
    ):
        features = dict.fromkeys(pack.LEVELS["x86-64-v4"], True) | {lacking: False}
        monkeypatch.setattr(binding, "get_host_cpu_features", lambda features=features: features)
        assert pack.machine_levels() == levels


@pytest.mark.soak
def test_pack_gives_the_golden_digests(tmp_path: Path) -> None:
    """All kernels by a pack, in a copy of the package that can compile nothing to keep."""
    copy = tmp_path / "gristmill"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__", "machine_code"))
    every = {places.ONLY: ",".join(keys.modules())}
    started(copy, tmp_path, MAKE, str(copy / "machine_code"), LEVELS[-1], **every)
    here = {"PYTHONPATH": str(tmp_path), "GRISTMILL_KERNELS": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/test_golden.py", "-p", "no:cacheprovider"],
        env={**os.environ, **here},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5_000:]
    assert not list((tmp_path / "home").rglob("*.code"))
