"""What a stranger adds, to a copy of the repository: the files that CONTRIBUTING.md and
docs/architecture.md name, and no others, pass the checks there.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from os import environ
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Example: add a filter\n")[2]
ADDITIONS = ROOT / "tests/additions"
COPIED = ("src", "tests", "scripts", "docs", "recipes", "examples", "benchmarks")
HOUSE = [
    f"tests/test_house.py::test_{name}"
    for name in (
        "files_and_functions_stay_small",
        "every_module_says_what_it_is",
        "no_two_classes_have_one_name",
        "no_file_imports_two_modules_of_one_base_name",
        "no_class_inherits_for_reuse",
    )
]
DIGEST = """
from gristmill.phases.output.write_manifest import recipe_digest
from gristmill.recipe import packaged, parse
from gristmill.recipe.recipe import stored
text = packaged("gopher").read_text("utf-8").replace("files = []", 'files = ["a"]')
print(recipe_digest(stored(parse(text, "recipe"))))
"""


class Copy:
    """A copy of the repository to which files are added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in COPIED:
            shutil.copytree(ROOT / folder, root / folder)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, root / path.name)
        self.new: list[str] = []

    def write(self, name: str, text: str) -> None:
        """Add a file."""
        assert not (self.root / name).exists()
        (self.root / name).write_text(text)
        self.new.append(name)

    def add(self, addition: str) -> None:
        """Add the files of a folder of tests/additions."""
        folder = ADDITIONS / addition
        for path in sorted(folder.rglob("*.py")):
            self.write(str(path.relative_to(folder)), path.read_text("utf-8"))

    def run(self, *arguments: str) -> str:
        """Run Python in the copy; it must succeed. Returns what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**environ, "PYTHONPATH": str(self.root / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


def add_filter(copy: Copy) -> list[str]:
    """Add the filter of CONTRIBUTING.md: step, kernel and test."""
    named = re.findall(r"^\d\. .*?`([\w/.]+)`", PAGE, re.M)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    assert [kind for kind, _ in blocks] == ["python", "python", "python", "toml", "toml"]
    assert len(named) == 3 and "**three files**" in PAGE
    for name, (_, text) in zip(named, blocks, strict=False):
        copy.write(name, text)
    return [
        "tests/test_reference.py::test_examples_are_recipes",
        "tests/test_reference.py::test_everything_has_a_sentence",
        "tests/kernels/test_twins.py::test_every_kernel_has_a_slow_twin",
        "tests/filters/test_golden_filters.py::test_every_filter_and_preset_has_its_digest",
        "tests/filters/test_golden_filters.py::test_a_filter_gives_what_its_version_gave[digits]",
    ]


def add_source(copy: Copy) -> list[str]:
    """Add a source format."""
    copy.add("source")
    return ["tests/source/test_kinds.py::test_every_kind_of_a_recipe_has_a_reader"]


def add_format(copy: Copy) -> list[str]:
    """Add an output format."""
    copy.add("format")
    return ["tests/cli/test_completion.py::test_shells_get_it_without_heavy_imports[zsh]"]


def add_phase(copy: Copy) -> list[str]:
    """Add a phase with a table of a recipe."""
    copy.add("phase")
    return [
        f"tests/phases/test_phases.py::test_{name}"
        for name in (
            "every_field_of_a_recipe_is_in_the_table",
            "the_names_of_the_list_are_those_of_until_and_progress",
            "a_phase_sees_only_the_fields_that_it_declares",
            "keys_do_not_know_where_a_corpus_lies",
        )
    ]


ALL = (add_filter, add_source, add_format, add_phase)


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Copy, dict[str, list[str]], str]:
    """A copy with all additions and what is written from the code, the tests of each, and what
    pytest said of them and of the house.
    """
    copy = Copy(tmp_path_factory.mktemp("copy") / "gristmill")
    tests = {}
    for add in ALL:
        known = len(copy.new)
        named = add(copy)
        own = [name for name in copy.new[known:] if name.startswith("tests/")]
        assert len(copy.new) - known == (3 if add is add_filter else 2)
        tests[add.__name__] = [*own, *named]
    copy.run("scripts/reference.py")
    copy.run("-c", "from tests.filters.test_golden_filters import write; write()")
    asked = dict.fromkeys([*HOUSE, *(test for own in tests.values() for test in own)])
    return copy, tests, copy.run("-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *asked)


@pytest.mark.parametrize("add", ALL)
def test_an_addition_passes_its_checks(
    add: Callable[[Copy], list[str]], passed: tuple[Copy, dict[str, list[str]], str]
) -> None:
    _, tests, said = passed
    for test in [*HOUSE, *tests[add.__name__]]:
        assert f"PASSED {test}" in said, test


def test_additions_keep_the_style(passed: tuple[Copy, dict[str, list[str]], str]) -> None:
    copy = passed[0]
    copy.run("-m", "ruff", "format", "--check", "--no-cache", "-q", *copy.new)
    copy.run("-m", "ruff", "check", "--no-cache", "-q", *copy.new)


def test_a_filter_is_found_and_a_new_key_changes_no_digest(
    passed: tuple[Copy, dict[str, list[str]], str], tmp_path: Path
) -> None:
    copy = passed[0]
    page = (copy.root / "docs/reference/filters.md").read_text("utf-8")
    assert "[`digits`](#digits): Drop documents with" in page
    page = (copy.root / "docs/format.md").read_text("utf-8")
    assert "| `form_feeds` | a form feed at the start |" in page
    page = (copy.root / "docs/reference/recipe.md").read_text("utf-8")
    assert "`most` | whole number, at least 1 | `10` | How many are listed. |" in page
    page = (copy.root / "docs/trainer-formats.md").read_text("utf-8")
    assert "| `plain-int32` | `SPLIT.i32` | int32 |" in page
    assert (
        copy.run("-c", DIGEST + "from gristmill.filters import Digits")
        == subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.soak
def test_additions_have_types(passed: tuple[Copy, dict[str, list[str]], str]) -> None:
    copy = passed[0]
    modules = [
        name.removeprefix("src/").removesuffix(".py").replace("/", ".")
        for name in copy.new
        if name.startswith("src/")
    ]
    copy.run("-m", "mypy", *(f"-m{name}" for name in modules))


def test_no_list_names_the_filters() -> None:
    """A filter needs its own files only: no module names built-in filters one by one."""
    from gristmill.filters.api.registry import all_built_in

    words = [step.name for step in all_built_in()]
    for path in (ROOT / "src/gristmill").rglob("*.py"):
        text = path.read_text("utf-8")
        named = [word for word in words if f'"{word}"' in text]
        assert len(named) < 4, f"{path}: {named}"
