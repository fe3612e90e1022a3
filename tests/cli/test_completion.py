"""What a shell completes: the lists are the modules' own; quickly; by the shells' own protocol."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill.cli import completion
from gristmill.phases.all_phases import STOPS
from gristmill.recipe.packaged import PRESETS
from gristmill.training.tokenizer_json import PATTERNS


def test_lists_are_those_of_the_modules() -> None:
    assert completion.PRESETS == PRESETS
    assert set(completion.STOPS) <= set(STOPS)
    assert set(completion.PATTERNS) == set(PATTERNS)


def test_corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "only a folder", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/manifest.json").write_bytes(b"")
    (tmp_path / "other/work").mkdir()
    assert completion.corpora("") == ["one", "other"]
    assert completion.corpora("on") == ["one"]
    assert completion.corpora(f"{tmp_path}/o") == [f"{tmp_path}/one", f"{tmp_path}/other"]
    assert completion.corpora("nowhere/x") == []


ASKED = {
    "bash": ({"COMP_WORDS": "gristmill run --until pr", "COMP_CWORD": "3"}, ["process"]),
    "zsh": ({"_TYPER_COMPLETE_ARGS": "gristmill export c --to llm"}, ['"llmc"']),
    "fish": (
        {
            "_TYPER_COMPLETE_ARGS": "gristmill run --preset fineweb-e",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        ["fineweb-edu"],
    ),
}


@pytest.mark.parametrize("shell", ASKED)
def test_shells_get_it_without_heavy_imports(shell: str) -> None:
    asked, wanted = ASKED[shell]
    code = (
        "import sys; sys.argv = ['gristmill']\n"
        "from gristmill.cli.app import main\n"
        "try: main()\n"
        "finally:\n"
        "    print(sorted({'numba', 'numpy', 'pyarrow', 'duckdb'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_GRISTMILL_COMPLETE": f"complete_{shell}", **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert all(word in done.stdout for word in wanted), (done.stdout, done.stderr)
    assert done.stderr.endswith("[]\n")
