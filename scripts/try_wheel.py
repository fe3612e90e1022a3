"""Try a wheel with machine code: `python scripts/try_wheel.py dist/gristmill-...whl`; `make wheel`.

It must be small; in an empty environment, with an empty home, `gristmill demo` must print its
funnel and compile nothing, and in a second environment too, for each level that this machine has.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

MOST_BYTES = 40_000_000
LEVEL = "GRISTMILL_KERNELS_LEVEL"


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment; return its folder of programs."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", wheel]
    subprocess.run(pip, check=True)
    return folder / "bin"


def run_demo(programs: Path, folder: Path, level: str) -> None:
    """Run the demo with an empty home. Exits where anything is compiled."""
    home = folder / "home"
    home.mkdir(parents=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), LEVEL: level}
    start, usage = time.monotonic(), os.times()
    done = subprocess.run(
        [programs / "gristmill", "demo", folder / "demo"],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds, after = time.monotonic() - start, os.times()
    compiled = list(home.rglob("*.code"))
    if done.returncode or compiled or "compiling" in done.stderr or "dropped" not in done.stdout:
        sys.exit(f"{level}: exit code {done.returncode}, {len(compiled)} compiled\n{done.stderr}")
    used = after.children_user + after.children_system - usage.children_user - usage.children_system
    print(f"{level}: the demo in {seconds:.1f} s, {used:.1f} s of processor time; nothing compiled")


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")
    with zipfile.ZipFile(wheel) as names:
        found = re.findall(r"^gristmill/machine_code/([^/\n]+)/", "\n".join(names.namelist()), re.M)
    packed = sorted(set(found))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in ("first", "second"):
            programs = install(wheel, folder / number)
            ask = "from gristmill.kernels.jit import pack; print(*pack.machine_levels())"
            python = [programs / "python", "-c", ask]
            said = subprocess.run(python, check=True, capture_output=True, text=True)
            here = said.stdout.split()
            for level in packed:
                if level in here:
                    run_demo(programs, folder / f"{number}-{level}", level)
                else:
                    print(f"{level}: this machine does not have it; not run")
            if not set(packed) & set(here):
                sys.exit("this machine has no level of the wheel")


if __name__ == "__main__":
    main()
