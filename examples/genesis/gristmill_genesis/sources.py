"""The sources of a Genesis data pipeline (NeuroShard), from its JSON, as a recipe.

    {"sources": [{"name", "hf_path", "hf_name", "text_field", "target_shards", "priority",
                  "enabled"}]}

Genesis reads priority 1 first, and a recipe the highest: numbers are turned round. What has no
counterpart is said.
"""

import re
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import tomli_w
from msgspec import Meta

from gristmill.errors import NO_JSON, RecipeError, suggest
from gristmill.recipe import parse

TOKENS_PER_SHARD = 2_500_000
LONGEST = 1 << 24  # bytes of the file
MOST = 1 << 31  # of a priority or a target
KEYS = ("name", "hf_path", "hf_name", "text_field", "target_shards", "priority", "enabled")
HEAD = """\
# From the sources of a Genesis data pipeline. Its shards are cut as Genesis cuts them: 2,500,000
# tokens of one source, in the order of the documents, and full ones never change.
#     gristmill run {name}
#     gristmill export corpus --to genesis --out shards
"""
TAIL = """
# Genesis drops no document. A filter or [deduplicate] goes here, for example:
# [deduplicate]
# near = {}

"""


class GenesisSource(msgspec.Struct, kw_only=True):
    """A source as Genesis configures it."""

    name: str
    hf_path: str
    hf_name: str | None = None
    text_field: str = "text"
    target_shards: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    priority: Annotated[int, Meta(ge=-MOST, le=MOST)] = 1
    enabled: bool = True


class Converted(NamedTuple):
    """A recipe's text, and lines about what it does not say."""

    text: str
    lines: list[str]


def from_genesis(path: Path, recipe: str, tokenizer: str = "tokenizer.json") -> Converted:
    """Return the recipe for the sources in a JSON file; `recipe` is the name that it will have.
    Raises RecipeError where there are none.
    """
    sources, lines = _sources(path)
    most = max(source.priority for source in sources)
    if most > 1:
        lines.append(
            f"priority: Genesis reads 1 first, a recipe the highest: 1 to {most} became {most} to 1"
        )
    lines.append(
        "Genesis learns its merges from a sample of 10,000 documents: `gristmill tokenizer train` "
        f"makes {tokenizer}, or name another one in [tokens]"
    )
    tokens = {
        "tokenizer": tokenizer,
        "tokens_per_shard": TOKENS_PER_SHARD,
        "validation": 0.0,
        "order": "append",
    }
    text = (
        HEAD.format(name=recipe)
        + tomli_w.dumps({"output": "corpus"})
        + "".join(f"\n[[source]]\n{tomli_w.dumps(_table(one, most))}" for one in sources)
        + TAIL
        + tomli_w.dumps({"tokens": tokens})
    )
    try:
        parse(text, str(path))
    except RecipeError as error:
        # Its line is one of the recipe, which is not written.
        raise RecipeError(re.sub(r":\d+: ", ": ", str(error), count=1)) from error
    return Converted(text, lines)


def _sources(path: Path) -> tuple[list[GenesisSource], list[str]]:
    """Return the sources in a file, and lines about keys that a recipe does not have."""
    sources, lines = [], []
    for place, table in enumerate(_tables(path)):
        try:
            source = msgspec.convert(table, GenesisSource)
        except msgspec.ValidationError as error:
            raise RecipeError(f"{path}: sources[{place}]: {error}") from error
        sources.append(source)
        for key in sorted(set(table) - set(KEYS)):
            lines.append(f"{source.name}.{key} has no counterpart{suggest(key, KEYS)}")
    return sources, lines


def _table(source: GenesisSource, most: int) -> dict[str, Any]:
    """Return a source as a recipe has it; `most` is the highest number of a priority."""
    values = {
        "name": source.name,
        "hub": source.hf_path,
        "subset": source.hf_name,
        "text": source.text_field,
        "priority": most + 1 - source.priority,
        "target_shards": source.target_shards,
        "enabled": None if source.enabled else False,
    }
    return {key: value for key, value in values.items() if value is not None}


def _tables(path: Path) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise RecipeError(f"{path}: more than {LONGEST:,} bytes: no list of sources")
        found = msgspec.json.decode(data)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except NO_JSON as error:
        raise RecipeError(f"{path}: no JSON: {error}") from error
    tables = found.get("sources") if isinstance(found, dict) else found
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise RecipeError(
            f'{path}: expected {{"sources": [{{"name": ..., "hf_path": ...}}]}} with at least one '
            "source"
        )
    return tables


def main() -> None:
    """Write a recipe: `gristmill-genesis SOURCES.json RECIPE.toml`."""
    if len(sys.argv) != 3:
        raise SystemExit("gristmill-genesis SOURCES.json RECIPE.toml")
    source, recipe = map(Path, sys.argv[1:])
    try:
        converted = from_genesis(source, recipe.name)
    except RecipeError as error:
        raise SystemExit(f"gristmill-genesis: {error}") from None
    if recipe.exists():
        raise SystemExit(f"{recipe} is there already; choose another name")
    recipe.write_text(converted.text, "utf-8")
    print(*converted.lines, f"{recipe} is written: gristmill run {recipe}", sep="\n")


if __name__ == "__main__":
    main()
