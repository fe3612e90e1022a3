"""What tells type checkers what `gristmill.filters` has: src/gristmill/filters/__init__.pyi
(scripts/reference.py).
"""

import inspect
import re
import subprocess
import sys
import typing

from gristmill.filters import OF_A_STEP
from gristmill.filters.api import registry
from gristmill.filters.api.step import Step

PATH = "src/gristmill/filters/__init__.pyi"
HEAD = '''"""Written by scripts/reference.py, from the steps that there are."""

from typing import Literal, overload

from gristmill.filters.api.in_memory import TextVerdict as TextVerdict
from gristmill.filters.api.in_memory import judge as judge
from gristmill.filters.api.in_memory import keep as keep
from gristmill.filters.api.in_memory import mask as mask
'''


def annotation(kind: object) -> str:
    """A type as it is written; Literal with double quotes."""
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    text = re.sub(r"Optional\[(\w+)\]", r"\1 | None", text.replace("typing.", ""))
    return text.replace("'", '"').replace("NoneType", "None")


def parameters(kind: type[Step]) -> list[str]:
    """The parameters of a step, as in a stub."""
    hints = typing.get_type_hints(kind)
    found = []
    for name, parameter in inspect.signature(kind).parameters.items():
        given = "" if parameter.default is inspect.Parameter.empty else " = ..."
        found.append(f"    {name}: {annotation(hints[name])}{given},")
    return found


def stub() -> str:
    """Return the text of the file."""
    lines = [f"from gristmill.filters.api.step import {name} as {name}" for name in OF_A_STEP]
    aliases, functions = [], []
    for step in registry.all_built_in():
        name, kinds = registry.public_name(step), registry.variants(step)
        for kind in kinds:
            shown = name if len(kinds) == 1 else f"_{kind.__name__}"
            if shown in (kind.__name__, f"_{kind.__name__}"):
                lines.append(f"from {kind.__module__} import {kind.__name__} as {shown}")
            else:  # an import under another name is not exported
                lines.append(f"from {kind.__module__} import {kind.__name__} as _{shown}")
                aliases.append(f"{shown} = _{shown}")
        if len(kinds) > 1:
            for kind in kinds:
                functions += ["@overload", f"def {name}(", "    *,", *parameters(kind)]
                functions.append(f") -> _{kind.__name__}: ...")
    lines = sorted(lines, key=str.lower)
    text = HEAD + "\n".join([*lines, "", *aliases, "", *functions]) + "\n"
    for command in (["check", "-q", "--fix"], ["format", "-q"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", PATH, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text
