"""Compiles the kernel modules that are not compiled yet: several processes, each module kept as
soon as it is done.

    gristmill/kernels/building.lock                 held by who compiles; others wait
                      building-x3k9_2aa/MODULE-KEY    a module that is being compiled
                      MODULE-KEY/KERNEL.code        done, renamed from there, never written again

A process takes a module by making its `.taken` file, and renames its folder when the last of its
kernels is written: whatever ends a build loses the modules that are at work, one for each process.
A process ends when the one that started it does, however that ends.

This module loads neither numba nor a kernel: who asks for kernels need not be who compiles them.
"""

import fcntl
import gc
import importlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from gristmill.kernels.jit import keys, pack, places
from gristmill.progress.counted_work import Show, receiver, seconds_text
from gristmill.progress.terminal import Display, say
from gristmill.system import interpreter
from gristmill.system.kernels_folder import is_ready, kernels_folder, note_ready

BUILDING = "GRISTMILL_KERNELS_BUILDING"  # set for the processes that compile: the folder they fill
MOST_BUILDERS = 8  # each takes some 300 MB
MOST_NAMED = 3  # modules that are named while they are compiled
SECONDS_BETWEEN_LOOKS = 0.2  # two folders are read


def prepare(names: Collection[str] = ()) -> bool:
    """Compile what is not compiled yet of what a plain recipe and these rooms and modules need.

    Return whether the machine code of all of it is kept.
    """
    if not is_ready(names):
        if None in ready(places.needed({*places.PLAIN, *names})).values():
            return False
        note_ready(names)
    return True


def ready(modules: Collection[str]) -> dict[str, Path | None]:
    """Return the folder of each module's machine code, compiled where it is not there; None where
    it cannot be kept.
    """
    root = kernels_folder()
    try:
        if any(map(places.is_missing, modules)):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if places.is_private(root):
                with open(root / "building.lock", "w") as lock:
                    _hold(lock)
                    if lacking := [name for name in modules if places.is_missing(name)]:
                        if difference := pack.difference():
                            say(f"gristmill: {difference}")
                        fill(root, lacking)
    except OSError:
        pass
    return {name: places.where(name) for name in modules}


def _hold(lock: TextIO) -> None:
    """Wait for the lock of a build, and say what is waited for."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("gristmill: waiting for another process, which compiles the kernels")
        fcntl.flock(lock, fcntl.LOCK_EX)


def fill(root: Path, lacking: list[str], level: str = "") -> None:
    """Compile modules into a folder, for this processor or for a level of a pack. Raises OSError
    with what the compilers said.
    """
    # What an earlier build left when it was killed; the lock says that none is at work.
    for left in root.glob("building-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="building-", dir=root))
    environment = {**os.environ, BUILDING: str(folder), places.ONLY: ",".join(lacking)}
    environment.pop(pack.LEVEL, None)
    environment |= pack.compiler_settings(level) if level else {}
    show = receiver()
    try:
        with Display() as display:
            progress = _BuildProgress(root, folder, lacking, level, show or display.show)
            count = min(processors(), MOST_BUILDERS, len(lacking))
            complaints = _compile_in(environment, count, progress.look)
            progress.end()
        if complaints:
            raise OSError(f"compiling kernels failed:\n{complaints}")
        took = seconds_text(time.monotonic() - progress.start)
        say(f"gristmill: {progress.kernels} kernels compiled in {took}, kept in {root}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compile_in(environment: dict[str, str], count: int, look: Callable[[], None]) -> str:
    """Import the kernel modules in processes side by side, which end with this one; return what
    those said that failed. `look` is called again and again meanwhile.
    """
    command = interpreter.command("gristmill.kernels.jit.build:compile_modules")
    said = [tempfile.TemporaryFile("w+") for _ in range(count)]
    # Their input never comes: it ends when this process does.
    running = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=file
        )
        for file in said
    ]
    try:
        while any(builder.poll() is None for builder in running):
            look()
            time.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        for builder in running:
            builder.kill()
            builder.communicate()
    complaints = ""
    for builder, file in zip(running, said, strict=True):
        file.seek(0)
        if builder.returncode:
            complaints += f"ended with {builder.returncode}\n{file.read()}"
        file.close()
    return complaints


def compile_modules() -> None:
    """Import the modules of a build, the long ones first: the processes end together."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    gc.disable()  # a tenth of the time; what compiling leaves goes with the process
    names = os.environ[places.ONLY].split(",")
    for name in sorted(names, key=lambda name: -len(keys.sources()[name])):
        importlib.import_module(f"gristmill.kernels.{name}")


def _end_with_starter() -> None:
    """End this process when the one that started it has ended: it holds the other end."""
    while os.read(0, 1):  # sys.stdin has a lock, which this thread would hold at the end
        pass
    os._exit(1)


def make_pack(folder: Path, levels: Collection[str]) -> None:
    """Fill a folder with the machine code of all modules for some levels (jit/pack.py); what it
    holds already stays, and nothing else. Raises OSError with what the compilers said.
    """
    for level in levels:
        (folder / level).mkdir(parents=True, exist_ok=True)
        modules = places.needed(keys.modules())
        wanted = {keys.folder_name(module, level): module for module in modules}
        there = set(os.listdir(folder / level))
        for name in there - wanted.keys():
            shutil.rmtree(folder / level / name)
        if lacking := [module for name, module in wanted.items() if name not in there]:
            fill(folder / level, lacking, level)
    for level in set(os.listdir(folder)) - {*levels, pack.NOTES}:
        shutil.rmtree(folder / level)
    pack.write_notes(folder)


def level() -> str:
    """Return the level of the pack that this process compiles for; empty: for this processor."""
    return os.environ.get(pack.LEVEL, "")


def take(module: str) -> bool:
    """Return whether this process compiles a module in a build; of several that ask, one does."""
    if module not in os.environ[places.ONLY].split(","):
        return False
    folder = being_built(module)
    try:
        os.close(os.open(f"{folder}.taken", os.O_CREAT | os.O_EXCL, 0o600))
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def being_built(module: str) -> Path:
    """Return the folder of a module while it is compiled."""
    return Path(os.environ[BUILDING]) / keys.folder_name(module, level())


def keep(module: str) -> None:
    """Put the folder of a module in its place, if all its kernels are compiled."""
    folder = being_built(module)
    files = list(folder.iterdir())
    if len(files) == keys.kernel_count(module):
        for path in files:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        folder.rename(folder.parent.parent / folder.name)


class _BuildProgress:
    """Reports how many kernels are compiled, and about how long the rest takes.

    Time is expected to be in proportion to the length of source; long modules come first. Between
    two kernels what is left only gets less.
    """

    def __init__(
        self, root: Path, folder: Path, lacking: list[str], level: str, show: Show
    ) -> None:
        self._root, self._folder, self._show = root, folder, show
        self._names = {keys.folder_name(module, level): module for module in lacking}
        self._all = sum(len(keys.sources()[module]) for module in lacking)
        self._done, self._end = 0, 0.0  # when all is expected to be done
        self.kernels, self.start = sum(map(keys.kernel_count, lacking)), time.monotonic()
        named = f" of {', '.join(lacking)}" if len(lacking) <= MOST_NAMED else ""
        once = f" for {level}" if level else " (once on this machine)"
        phase = f"compiling kernels{named}{once}"
        self._event = {"phase": phase, "jobs": self.kernels, "unit": "kernels"}
        self._show({"event": "phase", **self._event})

    def look(self) -> None:
        """Look which kernels are compiled, and report it."""
        done, weight, now = 0, 0.0, time.monotonic()
        at_work = {entry.name: entry for entry in os.scandir(self._folder) if entry.is_dir()}
        for name in self._names.keys() & {*at_work, *os.listdir(self._root)}:
            module = self._names[name]
            count = all_of_it = keys.kernel_count(module)
            if name in at_work:
                with suppress(FileNotFoundError):  # it was put in its place meanwhile
                    count = len(os.listdir(at_work[name]))
            done += count
            weight += count * len(keys.sources()[module]) / all_of_it
        event = {"event": "progress", "done": done, "seconds": now - self.start, **self._event}
        if weight > self._all / 20:
            if done != self._done:
                self._done = done
                self._end = now + (now - self.start) * (self._all - weight) / weight
            event["left_seconds"] = max(self._end - now, 1)
        self._show(event)

    def end(self) -> None:
        """Report that nothing is at work any more."""
        self._show({"event": "stopped", **self._event})
