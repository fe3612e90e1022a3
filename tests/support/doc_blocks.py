"""Code blocks of Markdown pages: which there are, how a test is to treat each, and what can be
checked of one that is not run.

A comment of its own line before a block says how it is treated; it is not shown on a site:

    <!-- not run: needs a cluster -->        checked, but not run
    <!-- not compared: depends on the machine -->   what commands print here differs
    <!-- run with: --steps 300 => --steps 3 -->   a test replaces the left by the right

A page with the line `<!-- blocks run in order, in one folder -->` is one session. A block there
whose first line is `# NAME.toml` or `# NAME.py` is that file; a block without a language after a
block of commands is what they print.
"""

import ast
import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer.main

from gristmill.cli.app import app
from gristmill.recipe import parse
from tests.support import ROOT

# Decisions have no code; tests/test_reference.py and tests/test_exercises.py have the others.
OWN_TESTS = {"adr", "reference", "exercises.md"}
SESSION = "<!-- blocks run in order, in one folder -->"
COMMAND = re.compile(r"(\$ )?(gristmill|make|pip|python|spark-submit) ")
SOURCE = '[[source]]\nname = "{name}"\nfiles = ["a.jsonl"]\n'
TOKENS = '[tokens]\ntokenizer = "gpt2"\n'


class Block(NamedTuple):
    """A code block of a page; kind is python, toml, json, sh, or text: what is only shown."""

    page: str  # from the folder of the repository
    line: int
    kind: str
    text: str
    following: str  # the text of the block behind it
    not_run: str | None = None  # why
    replaced: tuple[str, str] | None = None

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, by its first line."""
        found = re.match(r"# ([\w./-]+\.(?:toml|py))(?: .*)?\n", self.text)
        return found[1] if found else None


def pages() -> list[Path]:
    """Every page of the guide, but those with tests of their own."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [page for page in found if not OWN_TESTS & set(page.parts)]


def is_session(page: Path) -> bool:
    return f"\n{SESSION}\n" in page.read_text("utf-8")


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = list(re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for place, block in enumerate(found):
        kind, body = block[1], block[2]
        before = text[found[place - 1].end() if place else 0 : block.start()]
        said = re.search(r"<!-- (not run|not compared|run with): (.*?) -->\s*\Z", before, re.DOTALL)
        if kind in ("", "sh", "bash", "console"):
            shown = kind == "" and not COMMAND.match(body)
            kind = "text" if shown else "sh"
        replaced = said[2].split(" => ") if said and said[1] == "run with" else None
        yield Block(
            str(page.relative_to(ROOT)),
            text.count("\n", 0, block.start()) + 1,
            kind,
            body,
            found[place + 1][2] if place + 1 < len(found) else "",
            said[2] if said and said[1] != "run with" else None,
            (replaced[0], replaced[1]) if replaced else None,
        )


def check_commands(text: str) -> int:
    """Check that every verb and option of gristmill's commands exists; how many commands."""
    commands = list(_commands(text))
    group = typer.main.get_command(app)
    for words in commands:
        parent, context = None, group
        rest = words
        while hasattr(context, "resolve_command"):
            above = context.make_context("gristmill", list(rest), parent=parent)
            rest = [*above._protected_args, *above.args]
            _, context, rest = context.resolve_command(above, rest)
            parent = above
        if not {"--help", "--version"} & set(rest):
            context.make_context("gristmill", list(rest), parent=parent)
    return len(commands)


def _commands(text: str) -> Iterator[list[str]]:
    lines = text.replace("\\\n", " ").splitlines()
    for line in lines:
        try:
            reader = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            reader.whitespace_split = True
            words = list(reader)
        except ValueError:  # a quote that goes on in another line
            continue
        command: list[str] = []
        for word in [*words, ";"]:
            if re.match(r"gristmill \w", word):
                yield from _commands(word)
            if re.fullmatch(r"[;|&()<>]+", word):
                if command[:1] == ["gristmill"]:
                    yield command[1:]
                command = []
            elif command or not re.fullmatch(r"\w+=.*", word):
                command.append(word)


def check_recipe(text: str, before: str = "") -> None:
    """Check a recipe or a part of one: parts get the tables that they need."""
    tables = tomllib.loads(text)
    if not set(tables) & {"source", "step", "deduplicate", "tokens", "mix"}:
        raise AssertionError("not a recipe")
    whole = text
    if "step" in tables and "ensemble" in text and before:
        whole = f"{before}\n{whole}"
    if "source" not in tables:
        names = set(re.findall(r'"([\w.-]+)"', " ".join(re.findall(r"sources = \[.*\]", text))))
        whole += "\n" + "".join(SOURCE.format(name=name) for name in sorted(names or {"web"}))
    if re.search(r"^target_", text, re.MULTILINE) and "tokens" not in tables:
        whole += TOKENS
    parse(whole, "recipe.toml")


def check_python(text: str) -> None:
    """Check that a program is one, and that what it imports of gristmill is there."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gristmill"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"
