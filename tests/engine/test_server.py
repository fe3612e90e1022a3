"""Where worker processes come from when the command line runs: a fork of it, which shares what both
load.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gristmill import run
from gristmill.engine import server
from gristmill.engine.engine import Job, worker_count
from gristmill.engine.local import LocalEngine
from gristmill.engine.server import FORKS
from gristmill.errors import RecipeError
from gristmill.filters.api import registry
from tests.support.corpora import article
from tests.support.processes import descendants

pytestmark = pytest.mark.skipif(not FORKS, reason="workers are fresh processes here")

RECIPE = """
output = "corpus"
[[source]]
name = "web"
files = ["web.jsonl"]
[[step]]
use = "language"
keep = ["en"]
[[step]]
use = "repetition"
[deduplicate]
near = { shingle = 5, bands = 32, rows = 4, threshold = 0.8, verify = "text" }
"""
# The command line; then what this process has loaded, and what its workers came from.
COMMAND = """
import sys
from gristmill.cli.app import main
steps = sys.argv[1:]
sys.argv = ["gristmill", "run", "recipe.toml", "--workers", "2"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
from gristmill.engine import server
from gristmill.filters.api import registry
from gristmill.recipe import PRESETS, for_files
print([type(one._process).__name__ for one in server._servers])
for preset in PRESETS:
    for_files(["web.jsonl"], None, {}, preset)
for name in steps:
    registry.find_step(name)
print([name for name in ("numba", "llvmlite", "duckdb") if name in sys.modules])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recipe of 20 documents."""
    rows = [{"text": article(number, 20)} for number in range(20)]
    (tmp_path / "web.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def test_the_command_line_forks_its_workers_and_loads_no_kernels(folder: Path) -> None:
    """Neither a run nor the check of any recipe or built-in step loads numba or DuckDB here."""
    steps = [step.name for step in registry.all_built_in()]
    assert len(steps) > 10
    command = [sys.executable, "-c", COMMAND, *steps]
    # Nor does any of its processes import pandas, which pyarrow would do.
    (folder / "imports/pandas").mkdir(parents=True)
    (folder / "imports/pandas/__init__.py").write_text(
        f"open({str(folder / 'imported')!r}, 'w').close()\nraise ImportError\n"
    )
    places = os.pathsep.join([str(folder / "imports"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places}
    # The first run that needs these kernels asks for the name of the processor, by llvmlite.
    first = [sys.executable, "-m", "gristmill", "run", "recipe.toml", "--out", "first"]
    subprocess.run(first, cwd=folder, capture_output=True, check=True)
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert not (folder / "imported").exists()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["['_ForkOfThis']", "[]"]
    assert (folder / "corpus/manifest.lock").exists()
    for path in (folder / "corpus/measures").iterdir():
        assert path.stat().st_size


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no /proc")
def test_forks_end_with_a_command_line_that_is_killed(folder: Path) -> None:
    (folder / "filters.py").write_text(
        "import time\n\ndef slow(text):\n    open('working', 'w').close()\n    time.sleep(100)\n"
    )
    (folder / "recipe.toml").write_text(
        RECIPE.partition("[[step]]")[0] + '[[step]]\nuse = "filters:slow"\n'
    )
    program = subprocess.Popen(
        [sys.executable, "-m", "gristmill", "run", "recipe.toml", "--allow-code"], cwd=folder
    )
    end = time.monotonic() + 60
    while not (folder / "working").exists():
        assert time.monotonic() < end
        assert program.poll() is None
        time.sleep(0.02)
    forks = descendants(program.pid)
    assert len(forks) == 2  # the server and a worker
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    while any(Path(f"/proc/{fork}").exists() for fork in forks):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("workers", [65_537, 99_999])
def test_more_workers_than_a_machine_has_use_for_are_refused(folder: Path, workers: int) -> None:
    with pytest.raises(RecipeError, match=f"--workers {workers:,}: .* expected at most "):
        run(folder / "recipe.toml", workers=workers)
    assert not (folder / "corpus").exists()
    assert worker_count(None) == os.cpu_count()
    assert worker_count(8) == 8


def load_kernels(module: str, on_progress: object) -> bool:
    """Whether a module is loaded; then it is."""
    loaded = module in sys.modules
    importlib.import_module(module)
    return loaded


def test_workers_of_a_later_run_have_what_those_before_have_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_servers", [])  # a server that has loaded nothing yet
    task = Job("load", load_kernels, "gristmill.kernels.lists.urls")

    def answer() -> bool:
        with LocalEngine(1) as engine:
            (event,) = engine.run([task])
        return bool(event.result)

    try:
        assert [answer() for _ in range(3)] == [False, True, True]
    finally:
        server._end()


def test_ctrl_c_before_a_job_is_known_stays_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with LocalEngine(1) as engine:
        monkeypatch.setattr(engine._selector, "register", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(engine.run([Job("one", print, None)]))
