"""From wherever it is called: scripts without a guard, pipes, threads, notebooks, C programs; and
what lies where one stands is never run.
"""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from gristmill.system import interpreter
from tests.support.processes import descendants
from tests.support.skips import missing

RECIPE = """
output = "corpus"
[[source]]
name = "web"
files = ["web.jsonl"]
[[step]]
use = "filters:shouted"
"""
FILTER = """
import helper

def shouted(text: str) -> str | None:
    return helper.reason(text)
"""
# A main module that says whenever it is run: once, or a worker has imported it.
PROGRAM = """
from pathlib import Path
with open("runs", "a") as told:
    told.write("run ")
import gristmill
def check(folder):
    table = gristmill.run("recipe.toml", out=folder, workers=2, allow_code=True).table
    gristmill.verify(folder)
    assert table["documents"] == 20 and table["kept"] == 10, table
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recipe of 20 documents, of which a filter beside it drops 10."""
    rows = [{"text": f"Line {n}: a text of some words." + " AND LOUD" * (n % 2)} for n in range(20)]
    (tmp_path / "web.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "filters.py").write_text(FILTER)
    (tmp_path / "helper.py").write_text(
        'def reason(text):\n    return "loud" if "LOUD" in text else None\n'
    )
    return tmp_path


def ran(folder: Path, command: list[str], given: str | None = None, times: int = 1) -> str:
    """Run a program in a folder; count how often its main module was run."""
    # The limit only ends what hangs: a program takes 3 s, and 45 s on two processors with a load of
    # ten.
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "runs").read_text().split() == ["run"] * times
    return done.stdout


def script(folder: Path, program: str, times: int = 1) -> str:
    """Run a program as a script in a file."""
    (folder / "program.py").write_text(program)
    return ran(folder, [sys.executable, "program.py"], times=times)


def test_a_script_without_a_guard_and_no_process_or_folder_of_it_is_left(folder: Path) -> None:
    told = script(
        folder,
        PROGRAM
        + """
import glob, tempfile
before = set(glob.glob(tempfile.gettempdir() + "/pymp-*"))
check("one")
import multiprocessing.forkserver, multiprocessing.resource_tracker
print(
    multiprocessing.forkserver._forkserver._forkserver_pid,
    multiprocessing.resource_tracker._resource_tracker._pid,
)
print(set(glob.glob(tempfile.gettempdir() + "/pymp-*")) - before)
from gristmill.engine import server
print(server._servers[-1]._process.pid)
""",
    )
    pids, folders, pid = told.splitlines()
    assert (pids, folders) == ("None None", "set()")
    assert not Path(f"/proc/{pid}").exists()


def test_standard_input_and_a_word_of_the_command_line(folder: Path) -> None:
    ran(folder, [sys.executable, "-"], PROGRAM + 'check("piped")')
    (folder / "runs").unlink()
    ran(folder, [sys.executable, "-c", PROGRAM + 'check("worded")'])


def test_threads_at_once_without_an_executable_and_from_a_forked_process(folder: Path) -> None:
    script(
        folder,
        PROGRAM
        + """
import os, sys, threading
sys.executable = ""
gone = []
def safely(name):
    check(name)
    gone.append(name)
threads = [threading.Thread(target=safely, args=[f"thread{n}"]) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sorted(gone) == ["thread0", "thread1"]
child = os.fork()
if child == 0:
    check("forked")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
    )


def test_fresh_processes_as_on_macos(folder: Path) -> None:
    script(
        folder,
        PROGRAM
        + (
            'from gristmill.engine import server\nserver.FORKS = False\ncheck("fresh")\nassert '
            "not server._servers"
        ),
    )


def test_the_callers_own_multiprocessing_is_as_before(folder: Path) -> None:
    """Its fork server preloads what it chose, and its processes may run the mill, daemons too."""
    (folder / "callers.py").write_text(
        PROGRAM.replace("run ", "") + "def double(x):\n    return 2 * x\n"
    )
    script(
        folder,
        """
import multiprocessing, callers
from multiprocessing import forkserver
if __name__ == "__main__":
    open("runs", "w").write("run ")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["string"])
    with context.Pool(1) as pool:
        assert pool.map(callers.double, [1, 2]) == [2, 4]
        callers.check("beside")
        pool.map(callers.check, ["within"])
    assert forkserver._forkserver._preload_modules == ["string"]
""",
    )


def test_an_executable_that_is_no_python_is_not_run(folder: Path) -> None:
    program = folder / "application"
    program.write_text(f"#!/bin/sh\ntouch {folder}/wrong\n")
    program.chmod(0o755)
    script(folder, PROGRAM + f'import sys\nsys.executable = {str(program)!r}\ncheck("found")')
    assert not (folder / "wrong").exists()


EMBEDDED = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
int main(int count, char **words) {
    FILE *program = fopen(words[1], "r");
    Py_Initialize();
    int wrong = PyRun_SimpleFileEx(program, words[1], 1);
    return Py_FinalizeEx() < 0 || wrong;
}
"""


def test_a_c_program_with_python_inside(folder: Path) -> None:
    library, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDVERSION")
    include = sysconfig.get_paths()["include"]
    (folder / "embedded.c").write_text(EMBEDDED)
    build = [
        "gcc",
        "embedded.c",
        f"-I{include}",
        f"-L{library}",
        f"-Wl,-rpath,{library}",
        f"-lpython{name}",
        "-o",
        "embedded",
    ]
    try:
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        missing("embedded", f"no C program with Python inside can be built: {error}")
    paths = [path for path in sys.path if path.endswith(("site-packages", "src"))]
    start = (
        f"import sys\nsys.path += {paths!r}\nsys.executable = sys.executable and "
        f"{str(folder / 'embedded')!r}\n"
    )
    (folder / "program.py").write_text(start + PROGRAM + 'check("corpus")')
    ran(folder, [str(folder / "embedded"), "program.py"])


def test_a_notebook(folder: Path) -> None:
    try:
        import ipykernel  # noqa: F401
        import nbclient  # noqa: F401
        import nbformat
    except ImportError as error:
        missing("notebook", f"no notebook can be run: {error}")
    cells = [
        nbformat.v4.new_code_cell(PROGRAM),
        nbformat.v4.new_code_cell('check("one")\ncheck("two")\nprint("done")'),
    ]
    (folder / "note.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    run = (
        "import nbformat, nbclient\nnote = nbformat.read('note.ipynb', "
        "4)\nnbclient.NotebookClient(note, kernel_name='python3').execute()\n"
    )
    shown = ran(folder, [sys.executable, "-c", run + "print(note.cells[1].outputs)"])
    assert "done" in shown
    assert "<progress value=1 max=1></progress> process done in" in shown


def test_nothing_that_lies_where_one_stands_is_run(folder: Path) -> None:
    """Neither by the program, nor by workers, nor by what compiles kernels."""
    names = (
        "signal",
        "json",
        "random",
        "numpy",
        "gristmill",
        "socket",
        "selectors",
        "pyarrow",
        "numba",
        "sitecustomize",
        "brotli",
    )
    for name in names:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'marker')!r}, 'a').write('{name} ')\nraise SystemExit(9)\n"
        )
    program = Path(sys.executable).parent / "gristmill"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    commands = [
        [program, "run", "recipe.toml", "--allow-code", "--workers", "2"],
        [sys.executable, "-P", "-c", "from gristmill.kernels.hashing import shuffle"],
        [
            sys.executable,
            "-P",
            "-c",
            (
                "from gristmill.engine import server\nserver.FORKS = False\n"
                "from gristmill import run\n"
                "run('recipe.toml', out='fresh', allow_code=True)"
            ),
        ],
    ]
    building = {
        "GRISTMILL_KERNELS": str(folder / "kernels"),
        "GRISTMILL_KERNELS_ONLY": "hashing.shuffle",
    }
    for command, more in zip(commands, ({}, building, {}), strict=True):
        done = subprocess.run(
            command, cwd=folder, env=environment | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not (folder / "marker").exists(), (command, (folder / "marker").read_text())
    assert list((folder / "kernels").iterdir())


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no /proc")
def test_workers_end_with_a_caller_that_is_killed_though_what_it_forked_lives_on(
    folder: Path,
) -> None:
    """The forked process holds copies of all that the caller's end would close."""
    (folder / "filters.py").write_text(
        "import time\n\ndef shouted(text):\n    open('working', 'w').close()\n    time.sleep(100)\n"
    )
    (folder / "program.py").write_text(
        PROGRAM
        + """
import os, threading, time
def fork():
    while not os.path.exists("working"):
        time.sleep(0.05)
    if os.fork() == 0:
        time.sleep(100)
        os._exit(0)
    open("forked", "w").close()
threading.Thread(target=fork, daemon=True).start()
check("corpus")
"""
    )
    program = subprocess.Popen([sys.executable, "program.py"], cwd=folder)
    end = time.monotonic() + 60
    while not (folder / "forked").exists():
        assert time.monotonic() < end
        assert program.poll() is None
        time.sleep(0.05)
    names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(program.pid)}
    helpers = [pid for pid, name in names.items() if b"engine.forking" in name]
    (forked,) = names.keys() - set(helpers)
    assert len(helpers) == 2  # the server and a worker
    program.kill()
    program.wait()
    try:
        while any(Path(f"/proc/{pid}").exists() for pid in helpers):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert Path(f"/proc/{forked}").exists()
    finally:
        os.kill(forked, signal.SIGKILL)


@pytest.mark.parametrize("place", ["/", "folder", "gone"])
def test_the_path_of_what_is_started(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absolute, never empty; the current folder is last, and gone where it is gone."""
    stands = tmp_path / "stands"
    stands.mkdir()
    monkeypatch.chdir("/" if place == "/" else stands)
    if place == "gone":
        stands.rmdir()
    given = ["", "/usr/lib/python", "relative", str(stands), "//usr/lib/python"]
    monkeypatch.setattr(sys, "path", given)
    found = interpreter.path()
    assert all(re.match("/(?!/)", path) for path in found)
    assert found[0] == "/usr/lib/python"
    assert len(found) == len(set(found))
    if place == "folder":
        assert found[-1] == str(stands)
