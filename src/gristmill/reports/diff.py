"""Diff: the differences between two corpora's manifests: recipe, versions, inputs, raw shards,
counts, parts. Only the manifests are read.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from gristmill.reports.integrity.verify import finished
from gristmill.store.manifest import Manifest, RawShard

SHOWN = 20  # differences of one kind that are printed


def diff(a: Path | str, b: Path | str) -> dict[str, Any]:
    """Compare two corpora. `equal`: whether all parts are equal; each other key has the
    differences, as [in A, in B].

    Raises VerificationError if one is not a finished corpus, or its lock and manifest disagree.
    """
    first, other = finished(Path(a))[0], finished(Path(b))[0]
    shards, renamed = _shards(first, other)
    return {
        "a": {"folder": str(a), "content": first.content},
        "b": {"folder": str(b), "content": other.content},
        "equal": first.content == other.content,
        "recipe": _tree(first.recipe, other.recipe),
        "versions": _tree(first.versions, other.versions),
        "inputs": _tree(first.inputs, other.inputs),
        "raw_shards": shards,
        "moved": renamed,
        "counts": _tree(_counts(first), _counts(other)),
        "parts": _parts(first, other),
    }


def _tree(a: Any, b: Any, path: str = "") -> dict[str, list[Any]]:
    """Return the differences between two values of JSON, by path. Entries of a list are compared by
    their names, if they have names.
    """
    if a == b:
        return {}
    differences: dict[str, list[Any]] = {}
    if isinstance(a, list) and isinstance(b, list):
        a, b = _named(a), _named(b)
        if list(a) != list(b):
            differences[f"{path}.(order)" if path else "(order)"] = [list(a), list(b)]
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return {path: [a, b]}
    for key in [*a, *(key for key in b if key not in a)]:
        differences |= _tree(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))
    return differences


def _named(entries: list[Any]) -> dict[str, Any]:
    """Return entries by name, in their order, the second of the same name as `name#2`."""
    table: dict[str, Any] = {}
    many: Counter[str] = Counter()
    for place, entry in enumerate(entries):
        name = (
            str(entry.get("name") or entry.get("use") or place)
            if isinstance(entry, dict)
            else str(place)
        )
        many[name] += 1
        table[f"{name}#{many[name]}" if many[name] > 1 else name] = entry
    return table


def _shards(a: Manifest, b: Manifest) -> tuple[dict[str, list[Any]], int]:
    """Return the raw shards that are in one corpus only, or differ; and how many are the same under
    another number.
    """

    def by_name(manifest: Manifest) -> dict[str, RawShard]:
        return {
            f"{shard.source}: {shard.url}": shard
            for shard in manifest.raw_shards
            if shard.missing is None
        }

    first, other = by_name(a), by_name(b)
    differences: dict[str, list[Any]] = {}
    moved = 0
    for name in [*first, *(name for name in other if name not in first)]:
        mine, theirs = first.get(name), other.get(name)
        if mine is None or theirs is None:
            differences[name] = [mine and mine.sha256, theirs and theirs.sha256]
            continue
        moved += mine.number != theirs.number
        changed = _tree(msgspec.to_builtins(mine), msgspec.to_builtins(theirs))
        changed.pop("number", None)
        if changed:
            differences[name] = [
                {key: pair[0] for key, pair in changed.items()},
                {key: pair[1] for key, pair in changed.items()},
            ]
    return differences, moved


def _counts(manifest: Manifest) -> dict[str, Any]:
    """Return the funnel, with its steps by name."""
    table = dict(manifest.funnel)
    table["steps"] = [{"name": step["step"], **step["reasons"]} for step in table.get("steps", [])]
    return table


def _parts(a: Manifest, b: Manifest) -> dict[str, Any]:
    """Return how many parts are the same, and the paths of the others."""
    first = {part.path: part.sha256 for part in a.parts}
    other = {part.path: part.sha256 for part in b.parts}
    return {
        "same": sum(other.get(path) == digest for path, digest in first.items()),
        "changed": sorted(path for path in first if path in other and first[path] != other[path]),
        "only_a": sorted(first.keys() - other.keys()),
        "only_b": sorted(other.keys() - first.keys()),
    }


def lines(result: dict[str, Any]) -> list[str]:
    """Return the differences as lines of text."""
    out = [
        f"A  {result['a']['folder']}  content {result['a']['content']}",
        f"B  {result['b']['folder']}  content {result['b']['content']}",
    ]
    if result["equal"]:
        out.append("the same parts, byte for byte")
    for title in ("recipe", "versions", "inputs", "raw_shards", "counts"):
        changed = result[title]
        if changed:
            out.append(f"{title.replace('_', ' ')}: {len(changed):,} differ")
            out += [
                f"  {path}: {_value(pair[0])} -> {_value(pair[1])}"
                for path, pair in list(changed.items())[:SHOWN]
            ]
            out += [f"  ... and {len(changed) - SHOWN:,} more"] if len(changed) > SHOWN else []
    if result["moved"]:
        out.append(f"raw shards: {result['moved']:,} are the same under another number")
    parts = result["parts"]
    out.append(
        f"parts: {parts['same']:,} the same, {len(parts['changed']):,} changed, "
        f"{len(parts['only_a']):,} only in A, "
        f"{len(parts['only_b']):,} only in B"
    )
    for title, sign in (("changed", "~"), ("only_a", "-"), ("only_b", "+")):
        out += [f"  {sign} {path}" for path in parts[title][:SHOWN]]
        out += (
            [f"  {sign} ... and {len(parts[title]) - SHOWN:,} more"]
            if len(parts[title]) > SHOWN
            else []
        )
    return out


def _value(value: Any) -> str:
    return "none" if value is None else msgspec.json.encode(value).decode()
