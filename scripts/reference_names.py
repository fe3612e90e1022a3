"""The pages of docs/reference/ about names: commands.md of the command line, python.md of the
library (scripts/reference.py).
"""

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import typer

import gristmill
from gristmill.cli.app import app
from gristmill.cli.arguments import BENCH_EXIT_CODES, EXIT_CODES
from gristmill.filters.api import registry

COMMAND = "python scripts/reference.py"
MARK = f"<!-- Written by `{COMMAND}` from the code: change the code, then run it. -->\n"
WORDS = {str: "text", int: "number", float: "number", Path: "path", bool: "switch"}


class Verb:
    """A verb: its words, its function, and what is said behind its options."""

    def __init__(self, name: str, function: Any, epilog: str | None) -> None:
        self.name, self.function, self.epilog = name, function, epilog


def verbs(of: typer.Typer = app, before: str = "") -> Iterator[Verb]:
    """All verbs, in the order of `gristmill --help`; those of a group after it."""
    for command in of.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")  # type: ignore[union-attr]
        yield Verb(f"{before}{name}", command.callback, command.epilog)
    for group in of.registered_groups:
        inner = group.typer_instance
        if inner is not None:
            yield from verbs(inner, f"{before}{group.name} ")


def commands_page() -> str:
    found = list(verbs())
    lines = [
        "# Commands: every verb and option",
        "",
        MARK,
        "`gristmill VERB --help` says the same. Every verb is a function of the library as well",
        "([Python](python.md)). `--json` prints one JSON object a line, for programs.",
        "",
        *filled(f"{EXIT_CODES} `bench-loader` also has 1: the loader is too slow."),
        "",
        "| Verb | What it does |",
        "|---|---|",
    ]
    lines += [
        f"| [`{verb.name}`](#{slug(verb.name)}) | {summary(verb.function)} |" for verb in found
    ]
    lines.append("")
    for verb in found:
        lines += verb_section(verb)
    return "\n".join(lines).rstrip() + "\n"


def slug(name: str) -> str:
    return name.replace(" ", "-")


def summary(function: Any) -> str:
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split()).replace("|", "\\|")


def verb_section(verb: Verb) -> list[str]:
    given = list(options(verb.function))
    arguments = [one for one in given if not one["option"]]
    usage = " ".join([f"gristmill {verb.name}", *(one["usage"] for one in arguments), "[OPTIONS]"])
    lines = [f'## <a id="{slug(verb.name)}"></a>`{verb.name}`', "", "```text", usage, "```", ""]
    lines += [*prose(verb.function.__doc__), ""]
    for kind, rows in (
        ("Argument", arguments),
        ("Option", [one for one in given if one["option"]]),
    ):
        if rows:
            lines += [f"| {kind} | Value | Default | Meaning |", "|---|---|---|---|"]
            lines += [
                f'| <a id="{slug(verb.name)}.{one["plain"]}"></a>`{one["name"]}` | {one["kind"]} '
                f"| {one['default']} | {one['help']} |"
                for one in rows
            ]
            lines.append("")
    if verb.epilog and verb.epilog not in (EXIT_CODES, BENCH_EXIT_CODES):
        lines += [*prose(verb.epilog), ""]
    return lines


def options(function: Any) -> Iterator[dict[str, Any]]:
    """The arguments and options of a verb, in order."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, default = hints[name], parameter.default
        if get_origin(kind) is Annotated:  # one that several verbs have: arguments.py
            kind, info, *_ = get_args(kind)
            # Of Option("--from") the name is where the default was once.
            said = (info.default, *(info.param_decls or ()))
        elif isinstance(default, typer.models.ParameterInfo):
            info, default = default, default.default
            said = tuple(info.param_decls or ())
        else:
            continue  # typer's own: a context
        option = isinstance(info, typer.models.OptionInfo)
        words = [word for word in said if isinstance(word, str) and word.startswith("-")]
        plain = name.strip("_").replace("_", "-")
        if option and not words:
            words = [f"--{plain}"]
            words += [f"--no-{plain}"] if kind is bool else []
        required = default in (inspect.Parameter.empty, ...)
        shown = (info.metavar or plain.upper()).removesuffix("...")
        several, value = value_of(kind, info)
        yield {
            "option": option,
            "plain": words[0].lstrip("-").partition("/")[0] if words else plain,
            "name": "`, `".join(words) if option else shown,
            "usage": (f"{shown}..." if several else shown) if required else f"[{shown}]",
            "kind": value + (", repeatable" if several and option else ""),
            "default": "**required**" if required else default_of(default),
            "help": (info.help or "").replace("|", "\\|"),
        }


def value_of(kind: Any, info: Any) -> tuple[bool, str]:
    """Whether there may be several values, and what one is, with its limits."""
    inner = [one for one in get_args(kind) if one is not type(None)]
    if isinstance(kind, types.UnionType) and len(inner) == 1:
        return value_of(inner[0], info)
    if get_origin(kind) is list:
        return True, value_of(inner[0], info)[1]
    limits = {"at least": info.min, "at most": info.max}
    said = [f"{word} {limit:g}" for word, limit in limits.items() if limit is not None]
    return False, ", ".join([WORDS.get(kind, "text"), *said])


def default_of(value: Any) -> str:
    if value is None or value is False or value == []:
        return ""
    return f"`{value}`" if value is not True else "on"


def prose(text: str | None) -> list[str]:
    """A docstring's lines; two spaces or more at the start of a line stay."""
    return textwrap.dedent("    " + (text or "").strip()).strip().splitlines()


GROUPS = {
    "Texts in memory": ("deduplicate", "MinHash", "Near", "DuplicateIndex", "extract", "language"),
    "Corpora and training": (
        *("Corpus", "Funnel", "TokenCorpus", "TokenDocuments", "copies"),
        *("Loader", "LoaderPlan", "TokenDataset", "Tokenizer", "Node", "ReleaseReader"),
    ),
    "Errors": (
        "GristmillError",
        "ArgumentError",
        "RecipeError",
        "SourceError",
        "VerificationError",
        "MachineError",
    ),
}


def python_page() -> str:
    grouped = {name for names in GROUPS.values() for name in names}
    rest = tuple(name for name in gristmill.__all__ if name not in (*grouped, "filters"))
    lines = [
        "# Python: every public name",
        "",
        MARK,
        "`import gristmill` gives these, and imports what is behind a name when it is first used.",
        "[The library](../library.md) shows them at work.",
        "",
    ]
    groups = {**GROUPS, "Verbs": rest}
    for title, names in groups.items():
        lines += filled(f"* {title}: {', '.join(f'[`{name}`](#{name})' for name in names)}.")
    lines += ["* Filters: [`gristmill.filters`](#filters).", ""]
    for title, names in groups.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += name_section(name)
    return "\n".join([*lines, *filters_section()]).rstrip() + "\n"


def filters_section() -> list[str]:
    names = [
        f"[`{registry.public_name(step)}`](filters.md#{step.name})"
        for step in registry.all_built_in()
    ]
    lines = [
        '## <a id="filters"></a>`gristmill.filters`',
        "",
        "Every filter is a class here, its parameters are those of the recipe. Called with a text,",
        "a list or a table it judges: `filters.Gopher(min_words=50)(texts)`.",
        "",
        *filled(f"{', '.join(names)}."),
        "",
    ]
    for name in ("judge", "keep", "mask"):
        lines += section(f"filters.{name}", getattr(gristmill.filters, name))
    return lines


def name_section(name: str) -> list[str]:
    return section(name, getattr(gristmill, name))


def section(name: str, value: Any) -> list[str]:
    lines = [f'### <a id="{name}"></a>`{name}`', ""]
    if not inspect.isclass(value):
        return [*lines, *signature(name, value), *documented(value), ""]
    bases = [one for one in value.__mro__ if "__init__" in vars(one)]
    own = bases and inspect.isfunction(vars(bases[0])["__init__"])
    if own and not issubclass(value, BaseException):
        lines += signature(name, value.__init__)
    lines += [*documented(value), ""]
    if issubclass(value, msgspec.Struct):
        lines += [f"Its parameters: [`[deduplicate.{name.lower()}]`]"]
        lines[-1] += f"(recipe.md#deduplicate.{name.lower()})."
        lines.append("")
    members = [
        (member, found)
        for member, found in vars(value).items()
        if not member.startswith("_") and (inspect.isfunction(found) or is_described(found))
    ]
    for member, found in members if not issubclass(value, BaseException) else ():
        function = found.fget if isinstance(found, property) else found
        function = getattr(function, "__func__", function)
        shown = "property" if isinstance(found, property) else "method"
        lines += [f"**`{name}.{member}`** ({shown})", ""]
        if not isinstance(found, property):
            lines += signature(f"{name}.{member}", function)
        lines += [*documented(function), ""]
    return lines


def is_described(found: Any) -> bool:
    return isinstance(found, (property, classmethod, staticmethod))


def signature(name: str, function: Any) -> list[str]:
    """A function's head as it is written, without `self`."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef))
    of_class = "." not in name and name[0].isupper()
    returns = "" if tree.returns is None or of_class else f" -> {ast.unparse(tree.returns)}"
    parts = list(parameters(tree.args))
    head = f"{name}({', '.join(parts)}){returns}".replace("'", '"')
    if len(head) > 96:
        head = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])
    return ["```py", head, "```", ""]


def parameters(given: ast.arguments) -> Iterator[str]:
    """Parameters as they are written, without `self`."""

    def shown(one: ast.arg, default: ast.expr | None, stars: str = "") -> str:
        kind = f": {ast.unparse(one.annotation)}" if one.annotation is not None else ""
        behind = "" if default is None else f"{' = ' if kind else '='}{ast.unparse(default)}"
        return f"{stars}{one.arg}{kind}{behind}".replace("'", '"')

    placed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(placed) - len(given.defaults)) + given.defaults
    for one, default in zip(placed, defaults, strict=True):
        if one.arg not in ("self", "cls"):
            yield shown(one, default)
    if given.vararg is not None:
        yield shown(given.vararg, None, "*")
    elif given.kwonlyargs:
        yield "*"
    for one, keyword in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield shown(one, keyword)
    if given.kwarg is not None:
        yield shown(given.kwarg, None, "**")


def documented(value: Any) -> list[str]:
    """A docstring: paragraphs as lines, examples as blocks."""
    lines: list[str] = []
    for block in (inspect.getdoc(value) or "").split("\n\n"):
        if block.startswith(">>>"):
            lines += ["```pycon", block, "```", ""]
        elif re.search(r"^(?:  |\* )", block, re.MULTILINE):
            lines += [*linked(block).splitlines(), ""]
        else:
            lines += [*filled(linked(" ".join(block.split()))), ""]
    return lines[:-1]


def linked(text: str) -> str:
    """A text with links for the pages that it names."""
    return re.sub(r"docs/([\w-]+)\.md", r"[\1](../\1.md)", text)


def filled(text: str) -> list[str]:
    """A paragraph or an item of a list as lines."""
    return textwrap.wrap(
        text,
        98,
        subsequent_indent="  " * text.startswith("* "),
        break_long_words=False,
        break_on_hyphens=False,
    )
