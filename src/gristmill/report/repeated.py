"""What the manifest says twice: its funnel, recipe, raw shards, inputs and counts against the parts
that say the same; and run.json.

Each difference is named: `funnel.steps.1.dropped: 12, and funnel.json says 13`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from gristmill.corpus.layout import PROOFS, links
from gristmill.errors import RecipeError
from gristmill.phases.output.publish import FUNNEL, PLAN, RECIPE, RUN
from gristmill.recipe import tables_of
from gristmill.store import urls
from gristmill.store.manifest import Manifest
from gristmill.store.proof import unseal

TOLD = ("finished", "folder", "machine", "phase_seconds", "megabytes_per_second")  # of run.json
PIN = re.compile("#sha256=([0-9a-f]{64})")


def check_repeated(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """What differs between the manifest and the parts, of which `sound` are as it says."""
    wrong = []
    wrong += _against(root, sound, FUNNEL, "funnel", manifest.funnel)
    wrong += _against(root, sound, PLAN, "raw_shards", _planned(manifest))
    wrong += _against(root, sound, RECIPE, "recipe", _without_nulls(manifest.recipe))
    digests = {part.path: part.sha256 for part in manifest.parts}
    if manifest.recipe_sha256 != digests.get(RECIPE):
        wrong.append(
            f"recipe_sha256: {manifest.recipe_sha256}, and {RECIPE} has {digests.get(RECIPE)}"
        )
    return wrong + list(_funnel(manifest)) + list(_inputs(manifest)) + list(_counts(manifest))


def check_links(root: Path) -> list[str]:
    """A link among a corpus' files stands for what is elsewhere."""
    found = [path.relative_to(root).as_posix() for path in links(root, work=False)]
    return [
        f"{name}: a link, and not the {'file' if name in PROOFS else 'part or folder'} itself"
        for name in found
    ]


def check_run(root: Path) -> list[str]:
    """run.json is no part, as it tells of time and machine; it carries a digest of itself."""
    try:
        data = (root / RUN).read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{RUN}: cannot be read: {error.strerror}"]
    try:
        told = json.loads(data)
        if isinstance(told, dict) and set(told) <= set(TOLD):
            return []  # of an earlier version, which gave it no digest
        unseal(data)
    except (ValueError, RecursionError):
        return [f"{RUN}: not as it was written"]
    return []


def _against(root: Path, sound: set[str], name: str, what: str, told: Any) -> list[str]:
    """What differs between a value of the manifest and the part that repeats it."""
    if name not in sound:
        return []  # missing, or damaged: that is said already
    try:
        text = (root / name).read_text("utf-8")
        said = tables_of(text, name) if name == RECIPE else json.loads(text)
        if name == PLAN:
            said = said["shards"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RecipeError) as error:
        return [f"{name}: is none: {error}"]
    return [
        f"{place}: {one!r}, and {name} says {other!r}"
        for place, one, other in _differences(what, told, said)
    ]


def _differences(place: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{place}.{key}", one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from _differences(f"{place}.{number}", *pair)
    elif one != other or type(one) is not type(other):
        yield place, one, other


def _planned(manifest: Manifest) -> list[dict[str, Any]]:
    """The raw shards as plan.json has them: what is null is left out."""
    rows = []
    for shard in manifest.raw_shards:
        row = {
            name: getattr(shard, name) for name in ("number", "source", "url", "sha256", "missing")
        }
        row["size"] = None if shard.missing is not None else shard.compressed_bytes
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _funnel(manifest: Manifest) -> Iterator[str]:
    """The funnel's sums, and what the counts of the token shards give."""
    funnel = manifest.funnel
    left = funnel.get("documents")
    for step in funnel.get("steps", []):
        left -= step["dropped"]
        if step["dropped"] != sum(step["reasons"].values()) or step["left"] != left:
            yield (
                f"funnel: {step['step']}: dropped {step['dropped']}, left {step['left']}: they "
                "do not add up"
            )
    if left != funnel.get("kept"):
        yield f"funnel: {left} are left, and {funnel.get('kept')} kept"
    for split, short in (("train", "train"), ("validation", "val")):
        shards = [
            part
            for part in manifest.parts
            if re.fullmatch(rf"tokens/.*/{short}_[0-9]+\.bin", part.path)
        ]
        counted = {
            "shards": len(shards),
            "tokens": sum(part.counts.get("tokens", 0) for part in shards),
        }
        for name, count in counted.items():
            if funnel.get(f"{split}_{name}", 0) != count:
                yield (
                    f"funnel.{split}_{name}: {funnel.get(f'{split}_{name}')}, and the parts hold "
                    f"{count}"
                )


def _inputs(manifest: Manifest) -> Iterator[str]:
    """Tokenizer, older corpora and pins, which the recipe and the parts repeat."""
    recipe, inputs = manifest.recipe, manifest.inputs
    tokens = recipe.get("tokens")
    laid = {part.sha256 for part in manifest.parts if part.path.startswith("tokenizer/")}
    told = inputs.get("tokens.tokenizer")
    if (told is not None) != (tokens is not None) or (
        told is not None and {told.get("sha256")} != laid
    ):
        yield f"inputs.tokens.tokenizer: {told}, and the part in tokenizer/ has {sorted(laid)}"
    named = {}
    if tokens is not None and not urls.is_url(tokens["tokenizer"]):
        named["tokens.tokenizer"] = tokens["tokenizer"]
    for place, older in enumerate((recipe.get("deduplicate") or {}).get("against") or []):
        named[f"deduplicate.against.{place}"] = older
    for name, location in named.items():
        last = PurePosixPath(location).name
        if name not in inputs or (last not in ("", "..") and inputs[name].get("name") != last):
            yield f"inputs.{name}: {inputs.get(name)}, and the recipe names {location}"
    for name, given in inputs.items():
        if not isinstance(given, dict) or not re.fullmatch(
            "[0-9a-f]{64}", str(given.get("sha256"))
        ):
            yield f"inputs.{name}: {given}: no sha256"
    for pin in set(PIN.findall(json.dumps(recipe.get("step", [])))):
        if not any(
            given.get("sha256") == pin for given in inputs.values() if isinstance(given, dict)
        ):
            yield f"inputs: none has the sha256 {pin}, which the recipe pins"


def _counts(manifest: Manifest) -> Iterator[str]:
    """The counts of parts that their sizes or names tell."""
    for part in manifest.parts:
        known = {"rows"} if part.path.endswith(".parquet") else set()
        if part.path.startswith("tokens/"):
            known = {"tokens", "documents"} if part.path.endswith(".bin") else {"documents"}
            if part.path.endswith(".docs") and part.size != 16 * part.counts.get("documents", -1):
                yield (
                    f"{part.path}: {part.size:,} bytes do not hold "
                    f"{part.counts.get('documents')} documents"
                )
        if set(part.counts) != known:
            yield f"{part.path}: counts {sorted(part.counts)}, expected {sorted(known)}"
