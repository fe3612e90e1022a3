"""What compiles no kernel: verbs that only read what a corpus says of itself."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import run
from tests.support.corpora import lay_out

VERBS = (
    "--help",
    "version",
    "version --report",
    "run --help",
    "init {folder}/new.toml",
    "explain language.label",
    "status {corpus}",
    "why {corpus} {document}",
    "verify {corpus}",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    run(lay_out(folder, count=20), out=folder / "corpus", cache_dir=folder / "cache")
    return folder / "corpus"


@pytest.mark.parametrize("verb", VERBS)
def test_verb_compiles_nothing(verb: str, corpus: Path, tmp_path: Path) -> None:
    """Neither to keep nor in memory: where nothing is kept, numba would be loaded."""
    table = next((corpus / "documents").rglob("*.parquet"))
    number = pq.read_table(table, columns=["document"])[0][0].as_py()
    names = {"corpus": corpus, "folder": tmp_path, "document": number}
    words = [word.format(**names) for word in verb.split()]
    home = tmp_path / "home"
    code = f"""
import sys
sys.argv = ["gristmill", *{words!r}]
from gristmill.__main__ import main
try:
    main()
finally:
    print("numba" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GRISTMILL_KERNELS": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "False"
    assert not home.exists()


@pytest.mark.soak
def test_compiling_is_never_shown_as_a_phase(tmp_path: Path) -> None:
    """All kernels of a run are compiled before its first phase is shown; no phase waits for one."""
    recipe = lay_out(tmp_path, count=20)
    done = subprocess.run(
        [sys.executable, "-m", "gristmill", "run", recipe, "--out", tmp_path / "corpus"],
        env={**os.environ, "GRISTMILL_KERNELS": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    compiling = [place for place, line in enumerate(lines) if "kernels" in line]
    phases = [place for place, line in enumerate(lines) if line.startswith("process")]
    assert compiling, done.stderr
    assert phases, done.stderr
    assert compiling[-1] < phases[0], done.stderr
