"""Print the functions and classes of src/ that nothing reaches but tests and benchmarks.

    python scripts/unreached.py

What is reached begins at what users can name: the public names, the command line, filters and other
plug-ins (system/plugins.py), and what docs/, examples/ and scripts/ import. From there it follows
names, from one definition to the next, and names in strings: `module:function`, and
`gristmill.room.`, behind which any module may come. A module's own statements count as soon as one
of its definitions is reached; a method counts with its class. tests/test_house.py expects nothing.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
Item = tuple[str, str]  # module, and a definition in it; "": its other statements


def module_name(path: Path) -> str:
    top = SOURCE if path.is_relative_to(SOURCE) else ROOT
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


OUTSIDE = [*ROOT.glob("scripts/*.py"), *ROOT.glob("examples/**/*.py")]
PAGES = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "hatch_build.py"]
TREES = {
    module_name(path): ast.parse(path.read_text()) for path in (*SOURCE.rglob("*.py"), *OUTSIDE)
}


def divided(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return the statements of each definition of a module; "": its other statements."""
    parts: dict[str, list[ast.stmt]] = {"": []}
    for node in tree.body:
        # A verb is its decorator's: typer calls it.
        is_verb = re.search(
            r"\.(command|callback)\(",
            "".join(map(ast.unparse, getattr(node, "decorator_list", ()))),
        )
        defines = isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_verb
        parts.setdefault(node.name if defines else "", []).append(node)  # type: ignore[attr-defined]
    return parts


PARTS = {module: divided(tree) for module, tree in TREES.items()}


def named(text: str) -> Iterator[Item]:
    """Yield the definitions that a string names."""
    for module, name in re.findall(r"\b([a-z_][\w.]*):([A-Za-z_]\w*)", text):
        for whole in (module, f"gristmill.{module}"):
            if name in PARTS.get(whole, {}):
                yield whole, name
    if re.fullmatch(r"gristmill\.[\w.]+\.", text):
        yield from public(text)


def public(room: str) -> Iterator[Item]:
    """Yield the public definitions of the modules whose name begins so."""
    for module in TREES:
        if module.startswith(room):
            yield from ((module, name) for name in PARTS[module] if not name.startswith("_"))


def imported(module: str) -> dict[str, list[Item]]:
    """Return what each name that a module imports may mean; a module's is (module, "")."""
    meant: dict[str, list[Item]] = {}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                places = [(inner, ""), (node.module, alias.name)]
                meant.setdefault(alias.asname or alias.name, []).extend(places)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                meant.setdefault(alias.asname or alias.name, []).append((alias.name, ""))
    return {name: [item for item in items if item[0] in TREES] for name, items in meant.items()}


IMPORTED = {module: imported(module) for module in TREES}


def used(item: Item) -> Iterator[Item]:
    """Yield the definitions that one uses."""
    module, name = item
    meant, parts = IMPORTED[module], PARTS[module]
    yield module, ""
    if name and name not in parts:  # a name that the module imports, or a value of its statements
        yield from meant.get(name, ())
    for node in (part for statement in parts.get(name, ()) for part in ast.walk(statement)):
        if isinstance(node, ast.Name):
            yield from [(module, node.id)] * (node.id in parts)
            yield from meant.get(node.id, ())
        elif isinstance(node, ast.Attribute):
            places = meant.get(ast.unparse(node.value), ())
            yield from ((place, node.attr) for place, inner in places if not inner)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from named(node.value)


def roots() -> Iterator[Item]:
    """Yield what users can name."""
    yield from (("gristmill.__main__", "main"), ("gristmill", "__getattr__"), ("gristmill", ""))
    yield from (item for items in IMPORTED["gristmill"].values() for item in items)
    yield from public("gristmill.filters.")
    yield from plugins()
    for path in OUTSIDE:
        yield from ((module_name(path), name) for name in PARTS[module_name(path)])
    for page in PAGES:
        for module, names in re.findall(
            r"from (gristmill[\w.]*) import ([\w, ]+)", page.read_text()
        ):
            yield from ((module, name.strip()) for name in names.split(",") if module in TREES)
        yield from re.findall(r"(gristmill(?:\.\w+)+)\.(\w+)\(", page.read_text())


def plugins() -> Iterator[Item]:
    """Yield the modules that have a value of a kind that `Plugins` finds."""
    calls = {
        module: [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for module, tree in TREES.items()
    }
    kinds = {
        str(ast.literal_eval(kind))
        for inner in calls.values()
        for call in inner
        if ast.unparse(call.func) == "Plugins"
        for kind in getattr(call.args[1], "elts", ())
    }
    for module, inner in calls.items():
        if any(ast.unparse(call.func) in kinds for call in inner):
            yield module, ""


def unreached() -> list[str]:
    """Return the definitions that nothing reaches, as `module:name`, sorted."""
    reached: set[Item] = set()
    waiting = list(roots())
    while waiting:
        item = waiting.pop()
        if item not in reached:
            reached.add(item)
            waiting += used(item) if item[0] in TREES else ()
    every = {(module, name) for module, parts in PARTS.items() for name in parts if name}
    own = ("__getattr__", "__dir__")  # Python asks for these
    return sorted(":".join(item) for item in every - reached if item[1] not in own)


if __name__ == "__main__":
    print("\n".join(unreached()))
