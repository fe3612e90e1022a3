"""What a corpus survives: kills at any moment, two runs at once, Ctrl-C, a worker's death, a full
disk, a folder that cannot be written.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gristmill
from gristmill import run
from gristmill.errors import MachineError
from tests.support.command import command_line
from tests.support.corpora import digests, jsonl, lay_out, pages
from tests.support.skips import missing


def words(recipe: Path, corpus: Path) -> list[str]:
    """The command line of a run with two workers."""
    return [
        "run",
        str(recipe),
        "--out",
        str(corpus),
        "--cache-dir",
        str(corpus.parent / "cache"),
        "--workers",
        "2",
    ]


def start(recipe: Path, corpus: Path, *more: str) -> "subprocess.Popen[str]":
    """A run in a process of its own."""
    return subprocess.Popen(
        command_line(*words(recipe, corpus), *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], float]:
    """A recipe, the digests of its corpus, and the seconds that a run takes."""
    folder = tmp_path_factory.mktemp("laid")
    recipe = lay_out(folder)
    seconds = 0.0
    for name in ("first", "whole"):  # the first one of a test process also loads its modules
        begin = time.monotonic()
        process = start(recipe, folder / name)
        _, said = process.communicate()
        assert process.returncode == 0, said
        seconds = time.monotonic() - begin
    return recipe, digests(folder / "whole"), seconds


def test_sigkill_at_random_moments_of_fresh_runs(
    laid: tuple[Path, dict[str, str], float], tmp_path: Path, soak: int
) -> None:
    """3 kills at as many random moments, each finished to the same sha256s (soak: 400); more where
    none of them came before the end of its run.
    """
    recipe, whole, seconds = laid
    pick = random.Random(20)
    kills, unfinished = 3 if soak == 1 else 20 * soak, 0
    for number in range(kills + 20):
        if number >= kills and unfinished:
            break
        corpus = tmp_path / f"killed-{number}"
        process = start(recipe, corpus)
        time.sleep(seconds * pick.uniform(0.1, 0.9))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if (corpus / "manifest.lock").exists():
            seconds *= 0.8  # too late: the machine was slower when the seconds were measured
        else:
            unfinished += corpus.exists()
        if corpus.exists():
            finished = (corpus / "manifest.json").exists() and (corpus / "manifest.lock").exists()
            if finished and not (corpus / "manifest.lock.next").exists():
                gristmill.verify(corpus)
        run(recipe, out=corpus, workers=2, cache_dir=tmp_path / "cache")
        assert digests(corpus) == whole
        gristmill.verify(corpus)
        shutil.rmtree(corpus)
    assert unfinished > 0  # the moments were inside the runs


def test_a_kill_leaves_nothing_in_the_folder_for_temporary_files(
    laid: tuple[Path, dict[str, str], float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    process = start(laid[0], tmp_path / "corpus")
    while not list((tmp_path / "corpus").rglob("*.parquet*")) and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list((tmp_path / "temporary").glob("pymp-*"))


def test_sigkill_while_a_changed_recipe_replaces_a_corpus(
    laid: tuple[Path, dict[str, str], float], tmp_path: Path, soak: int
) -> None:
    recipe, _, seconds = laid
    settings = {"tokens.tokens_per_shard": "3000", "step.0.min_words": "120"}
    run(recipe, out=tmp_path / "fresh", settings=settings, cache_dir=tmp_path / "cache")
    wanted = digests(tmp_path / "fresh")
    run(recipe, out=tmp_path / "old", cache_dir=tmp_path / "cache")
    pick = random.Random(5)
    for number in range(2 if soak == 1 else 4 * soak):
        corpus = tmp_path / f"changed-{number}"
        shutil.copytree(tmp_path / "old", corpus)
        process = start(
            recipe, corpus, "--set", "tokens.tokens_per_shard=3000", "--set", "step.0.min_words=120"
        )
        time.sleep(seconds * pick.uniform(0.3, 1.0))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if not (corpus / "manifest.lock.next").exists():
            gristmill.verify(corpus)  # the old state, or the new one: never a mixture
        run(recipe, out=corpus, settings=settings, cache_dir=tmp_path / "cache")
        assert digests(corpus) == wanted
        gristmill.verify(corpus)


def test_every_step_of_writing_the_manifest_can_be_the_last(
    laid: tuple[Path, dict[str, str], float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    soak: int,
) -> None:
    """A kill between two system calls of writing a state, every 24th (soak: every other): the next
    run completes it.
    """
    recipe, whole, _ = laid

    class Killed(BaseException):
        pass

    calls = {"left": 0}

    def counted(function):  # type: ignore[no-untyped-def]
        def call(*given, **named):  # type: ignore[no-untyped-def]
            if calls["left"] == 0:
                raise Killed
            calls["left"] -= 1
            return function(*given, **named)

        return call

    base = tmp_path / "base"
    run(recipe, out=base, workers=1, until="assemble", cache_dir=tmp_path / "cache")
    stopped = 0
    for steps in range(0, 400, 24 if soak == 1 else 2):
        corpus = tmp_path / f"stopped-{steps}"
        shutil.copytree(base, corpus)
        shutil.rmtree(corpus / "work/state/assemble", ignore_errors=True)
        calls["left"] = 10**9
        with monkeypatch.context() as patch:
            from gristmill.corpus import corpus as phase

            def write_manifest(self, manifest, original=phase.Corpus.write_manifest, steps=steps):  # type: ignore[no-untyped-def]
                calls["left"] = steps
                return original(self, manifest)

            patch.setattr(phase.Corpus, "write_manifest", write_manifest)
            patch.setattr(Path, "rename", counted(Path.rename))
            patch.setattr(Path, "unlink", counted(Path.unlink))
            patch.setattr(os, "fsync", counted(os.fsync))
            try:
                run(recipe, out=corpus, workers=1, cache_dir=tmp_path / "cache")
                finished = True
            except Killed:
                finished = False
                stopped += 1
        run(recipe, out=corpus, workers=1, cache_dir=tmp_path / "cache")
        assert digests(corpus) == whole
        gristmill.verify(corpus)
        shutil.rmtree(corpus)
        if finished:
            break
    assert stopped > 2
    assert finished


def test_two_runs_on_one_corpus_at_once(
    laid: tuple[Path, dict[str, str], float], tmp_path: Path
) -> None:
    recipe, whole, _ = laid
    processes = [start(recipe, tmp_path / "corpus"), start(recipe, tmp_path / "corpus")]
    ends = [process.communicate() for process in processes]
    codes = sorted(process.returncode for process in processes)
    # One does the work; the other waits a moment and then says why it cannot, or finds all of it
    # done.
    assert codes in ([0, 5], [0, 0])
    if codes == [0, 5]:
        refused = next(
            end[1] for process, end in zip(processes, ends, strict=True) if process.returncode == 5
        )
        assert "another run is at work on this corpus" in refused
    assert digests(tmp_path / "corpus") == whole


def test_a_held_corpus_is_refused(laid: tuple[Path, dict[str, str], float], tmp_path: Path) -> None:
    from gristmill.corpus.corpus import Corpus

    handle = Corpus(tmp_path / "corpus").hold()
    try:
        with pytest.raises(MachineError, match="another run is at work on this corpus"):
            run(laid[0], out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    finally:
        os.close(handle)


def test_ctrl_c_keeps_what_is_done(
    laid: tuple[Path, dict[str, str], float], tmp_path: Path
) -> None:
    recipe, whole, _ = laid
    process = subprocess.Popen(  # Ctrl-C goes to all processes of a terminal
        [sys.executable, "-m", "gristmill", *words(recipe, tmp_path / "corpus")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "corpus/work/plan.json").exists() and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "interrupted; what is done is kept" in said
    assert "Traceback" not in said
    run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    assert digests(tmp_path / "corpus") == whole


def test_a_workers_death_is_told_with_its_shard_and_the_others_are_finished(
    tmp_path: Path, soak: int
) -> None:
    """Under `make soak` it goes on without that shard, too."""
    recipe = lay_out(tmp_path)
    deadly = tmp_path / "raw/e.jsonl"
    deadly.write_bytes(jsonl(pages(5, "deadly")))
    # The worker that reads this shard kills itself, as the kernel's out-of-memory killer would.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import builtins\n"
        "real = builtins.open\n"
        "def deadly(file, *given, **named):\n"
        "    import threading\n"
        # A worker, told by its watch over the parent: the parent's own threads only hash the file.
        "    watched = any(thread.name.startswith('Thread-') for thread in threading.enumerate())\n"
        f"    if str(file) == {str(deadly)!r} and watched and os.environ.get('DEADLY'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(file, *given, **named)\n"
        "builtins.open = deadly\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "DEADLY": "1",
    }
    command = [sys.executable, "-m", "gristmill", *words(recipe, tmp_path / "corpus")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "shard 00004" in done.stderr
    assert "killed by SIGKILL" in done.stderr
    assert gristmill.status(tmp_path / "corpus")["phases"]["process"] == 4
    if soak == 1:
        return
    absent = subprocess.run(
        [*command, "--allow-missing"], env=environment, capture_output=True, text=True, check=False
    )
    assert absent.returncode == 0, absent.stderr
    told = gristmill.status(tmp_path / "corpus")
    assert told["finished"]
    assert told["missing"] == 1
    gristmill.verify(tmp_path / "corpus")


def test_a_full_disk_stops_cleanly_and_the_run_goes_on_when_there_is_space(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(small)], check=False
        ).returncode
    ):
        missing("mount", "a small file system cannot be mounted here")
    try:
        process = start(recipe, small / "corpus", "--set", "samples=0")
        _, said = process.communicate()
        assert process.returncode == 5, said
        assert "no space left on the disk" in said
        assert "Traceback" not in said
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        run(recipe, out=small / "corpus", settings={"samples": "0"}, cache_dir=tmp_path / "cache")
        run(recipe, out=tmp_path / "fresh", settings={"samples": "0"}, cache_dir=tmp_path / "cache")
        assert digests(small / "corpus") == digests(tmp_path / "fresh")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_too_little_free_space_is_seen_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = lay_out(tmp_path)
    real = os.statvfs

    def little(path: object) -> object:
        found = list(real(path))  # type: ignore[call-overload]
        found[4] = 0
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", little)
    with pytest.raises(MachineError, match="would fill the disk"):
        run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    assert not (tmp_path / "corpus/work/stage/documents").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    if os.geteuid() == 0:
        # Root may write anywhere but on a file system that is mounted read-only.
        target = tmp_path / "readonly"
        target.mkdir()
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(target)], check=False
        ).returncode:
            missing("mount", "a file system cannot be mounted here")
    else:
        target = tmp_path / "readonly"
        target.mkdir(mode=0o500)
    try:
        process = start(recipe, target / "corpus")
        _, said = process.communicate()
        assert process.returncode == 5
        assert "cannot be written" in said
        assert "Traceback" not in said
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(target)], check=True)
