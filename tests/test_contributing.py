"""The example of CONTRIBUTING.md is real: its files, and no others, make a filter that works."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Example: add a filter\n")[2]
PROGRAM = """
import sys
from pathlib import Path
import gristmill.filters.rules, gristmill.kernels.filters
here = Path(sys.argv[1])
gristmill.filters.rules.__path__.append(str(here / "src/gristmill/filters/rules"))
gristmill.kernels.filters.__path__.append(str(here / "src/gristmill/kernels/filters"))
from gristmill.filters.api.registry import built_in
from gristmill.recipe import parse
assert built_in("digits") is not None
recipe = parse('[[source]]\\nname = "a"\\nfiles = ["a"]\\n' + sys.argv[2], "recipe")
assert recipe.steps("a")[0].max_share == 0.2
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", str(here / "tests")]))
"""


def test_the_example_has_four_files_and_they_are_enough(tmp_path: Path) -> None:
    named = re.findall(r"^\d\. .*?`([\w/.]+)`", PAGE, re.M)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    assert [kind for kind, _ in blocks] == ["python", "python", "python", "", "toml"]
    assert len(named) == 4 and "**four files**" in PAGE
    for name, (_, text) in zip(named[:3], blocks, strict=False):
        assert not (ROOT / name).exists()
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert named[3] == "docs/filters.md" and re.match(r"\* `digits`: \w", blocks[3][1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), blocks[4][1]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_no_list_names_the_filters() -> None:
    """A filter needs its own files only: no module names built-in filters one by one."""
    from gristmill.filters.api.registry import all_built_in

    words = [step.name for step in all_built_in()]
    for path in (ROOT / "src/gristmill").rglob("*.py"):
        text = path.read_text("utf-8")
        named = [word for word in words if f'"{word}"' in text]
        assert len(named) < 4, f"{path}: {named}"
