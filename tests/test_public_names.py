"""The public names: every verb is a function, and type checkers see what there is."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import gristmill
from gristmill.cli.app import app
from tests.support import ROOT

SOURCE = ROOT / "src/gristmill/__init__.py"
# Verbs whose function has another name: docs/adr/0027-public-names.md.
OTHERWISE = {"import": "import_tokens", "node": "Node", "mix show": "mix", "version": "__version__"}
OTHERWISE |= {"mix propose": "propose_mixes", "mix doremi": "doremi", "mix losses": "losses"}


def verbs() -> list[str]:
    """The verbs of the command line, as they are typed."""
    command = typer.main.get_command(app)
    found = []
    for name, verb in command.commands.items():  # type: ignore[attr-defined]
        below = getattr(verb, "commands", None)
        found += [name] if below is None else [f"{name} {one}" for one in below]
    return found


def function_name(verb: str) -> str:
    """The function of a verb: of a group's verb, both names."""
    if verb in OTHERWISE:
        return OTHERWISE[verb]
    group, _, name = verb.replace("-", "_").rpartition(" ")
    if group == "release":
        return f"release_{name}"
    return f"{name}_{group}" if group and not name.startswith("train_") else name


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_is_a_function(verb: str) -> None:
    # That there is such a name, and that it is documented: tests/test_house.py.
    assert function_name(verb) in {*gristmill.__all__, "__version__"}


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse(SOURCE.read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for one in node.names:
            seen[one.asname] = f"{str(node.module).removeprefix('gristmill.')}:{one.name}"
    assert seen.pop("filters") == "gristmill:filters"
    assert seen == {name: gristmill._PLACES[name] for name in seen}
    assert sorted([*seen, "filters"]) == gristmill.__all__


SNIPPET = """
import gristmill
from gristmill import filters

reveal_type(gristmill.run)
reveal_type(filters.C4(min_sentences=3))
reveal_type(filters.Gopher())
reveal_type(filters.Gopher(rules="datatrove-0.10", min_stop_words=3))
reveal_type(filters.C4()("a text"))
reveal_type(filters.keep(["a"], [filters.Simple()]))
reveal_type(gristmill.language("a text").label)
reveal_type(gristmill.extract("<p>"))
reveal_type(gristmill.Corpus("corpus").documents())
reveal_type(gristmill.Tokenizer("gpt2").decode_batch)
gristmill.run("recipe.toml", worker=3)
filters.C4(min_sentences="three")
filters.C4(min_sentence=3)
filters.Gopher(min_words=None)
"""
SHOWN = (
    "workers: int | None =",
    'Revealed type is "gristmill.filters.rules.c4.C4"',
    'Revealed type is "gristmill.filters.rules.gopher.Lab"',
    'Revealed type is "gristmill.filters.rules.gopher.Quality"',
    "gristmill.filters.api.in_memory.TextVerdict",
    'Revealed type is "list[str]"',
    'Revealed type is "str | None"',
    'Revealed type is "str | None"',
    "Iterator[dict[str, Any]]",
    "-> list[str]",
    'Unexpected keyword argument "worker" for "run"',
    'incompatible type "str"; expected "int | None"',
    'Unexpected keyword argument "min_sentence" for "C4"',
    "No overload variant",
)


def test_a_type_checker_sees_parameters_and_results(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), str(tmp_path / "user.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    shown = done.stdout.replace("builtins.", "").replace("typing.", "")
    shown = shown.replace("collections.abc.", "")
    for line in SHOWN:
        assert line in shown, done.stdout + done.stderr
    assert shown.count(": error:") == 4


FACES = ("gristmill", "gristmill.filters", "gristmill.dedup", "gristmill.loader")
FACES += ("gristmill.tokens", "gristmill.mixing")
INNER = ("docs/adr", "docs/reference", "docs/log.md", "docs/architecture.md")
INNER += ("examples/genesis",)  # a plug-in is written as a module of its room


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py"))
        if not str(path.relative_to(ROOT)).startswith(INNER)
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_what_is_shown_uses_public_names(path: Path) -> None:
    """A name of `gristmill`, or of a room whose `__init__` lists it."""
    text = path.read_text("utf-8")
    pattern = r"from (gristmill(?:\.\w+)*) import (\([^)]*\)|[^\n#]+)"
    shown = [
        (module, name.split()[0])
        for module, names in re.findall(pattern, text)
        for name in names.strip("()").split(",")
        if name.strip()
    ]
    shown += re.findall(r"`(gristmill(?:\.\w+)*)\.(\w+)(?:\(|`)", text)
    files = ("json", "jsonl", "unfinished", "progress")  # gristmill.json is a file's name
    groups = ("steps", "sources", "formats", "imports", "engines")  # of entry points
    for module, name in shown:
        public = f"{module}.{name}" in FACES or module.rpartition(".")[2] in names_of(module)
        assert name in (*names_of(module), *files, *groups) or public, f"{module}.{name}"


def names_of(module: str) -> list[str]:
    """The names that a face lists; a module that a face lists is public as a whole."""
    room, _, last = module.rpartition(".")
    if module in FACES:
        found = importlib.import_module(module)
        return list(getattr(found, "__all__", dir(found)))
    if room in FACES and last in getattr(importlib.import_module(room), "__all__", ()):
        return dir(importlib.import_module(module))
    return []
