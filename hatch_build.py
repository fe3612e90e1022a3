"""Puts machine code into a wheel, where GRISTMILL_PACK names levels of processors: `make wheel`.

Without the variable a wheel is one for all platforms, whose kernels are compiled where it is used.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from gristmill.kernels.jit.build import make_pack
make_pack(Path(sys.argv[2]), sys.argv[3:])
"""


class MachineCode(BuildHookInterface):
    """Compiles all kernels for each level, in this environment, which has what gristmill needs."""

    def dependencies(self) -> list[str]:
        """Return what compiling needs beside hatchling: what gristmill needs to run."""
        return self.metadata.core.dependencies if self._levels() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the result and its platform in the wheel."""
        if version == "editable" or not self._levels():
            return
        root = Path(self.root)
        folder = root / "build" / "machine_code" / sys.implementation.cache_tag
        folder.mkdir(parents=True, exist_ok=True)
        make = [sys.executable, "-c", MAKE, str(root / "src"), str(folder), *self._levels()]
        subprocess.run(make, check=True)
        build_data["force_include"][str(folder)] = "gristmill/machine_code"
        build_data["pure_python"] = False
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        # The code calls the C library through numba's: the platforms are those of its wheels.
        machine = sysconfig.get_platform().replace("linux-", "manylinux_2_27_")
        machine = machine.replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{python}-{python}-{machine}"

    def _levels(self) -> list[str]:
        return os.environ.get("GRISTMILL_PACK", "").split()
