"""Consistency of the manifest: its funnel, recipe, raw shards, inputs and counts must agree with
the parts that repeat them. Also run.json.

Each difference is one line: `funnel.steps.1.dropped: 12, and funnel.json says 13`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np

from gristmill.corpus.layout import PROOFS, links
from gristmill.corpus.tokenizer_part import read_tokenizer
from gristmill.errors import RecipeError
from gristmill.phases.output.write_manifest import FUNNEL, PLAN, RECIPE, RUN, token_format_of
from gristmill.recipe import parse_tables
from gristmill.store.http import urls
from gristmill.store.manifest import (
    Imported,
    Manifest,
    TokenFormat,
    end_of_text_literal,
    pack_digest,
)
from gristmill.store.proof import unseal
from gristmill.tokens.partitions import partition_source
from gristmill.tokens.tokenizer import Tokenizer

# The fields of run.json without its digest.
RUN_FIELDS = ("finished", "folder", "machine", "phase_seconds", "megabytes_per_second")
PIN = re.compile("#sha256=([0-9a-f]{64})")


def check_consistency(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Return the differences between the manifest and its parts; `sound` are the paths of intact
    parts.
    """
    wrong = []
    wrong += _against(root, sound, FUNNEL, "funnel", manifest.funnel)
    wrong += _against(root, sound, PLAN, "raw_shards", _planned(manifest))
    wrong += [
        f"raw_shards.{shard.number}: its sha256 is not that of its files"
        for shard in manifest.raw_shards
        if shard.files and shard.sha256 not in (None, pack_digest(shard.files))
    ]
    wrong += _against(root, sound, RECIPE, "recipe", _without_nulls(manifest.recipe))
    digests = {part.path: part.sha256 for part in manifest.parts}
    if manifest.recipe_sha256 != digests.get(RECIPE):
        wrong.append(
            f"recipe_sha256: {manifest.recipe_sha256}, and {RECIPE} has {digests.get(RECIPE)}"
        )
    wrong += _token_format(root, manifest, sound)
    wrong += [*_funnel(manifest), *_repeats_and_partitions(manifest)]
    return [*wrong, *_inputs(manifest), *_counts(manifest)]


def check_imported(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Return the differences between the manifest of imported tokens and its parts: the funnel, the
    tokenizer, the number of every token and document.
    """
    assert isinstance(manifest.imported, Imported)
    wrong = _against(root, sound, FUNNEL, "funnel", manifest.funnel)
    if manifest.recipe or manifest.raw_shards or manifest.tokens is None:
        wrong.append("imported: with a recipe or raw shards, or without `tokens`")
    wrong += _token_format(root, manifest, sound)
    wrong += [*_funnel(manifest), *_counts(manifest)]
    documents = set[int]()
    total = 0
    last = -1
    for part in manifest.parts:
        if not part.path.startswith("tokens/") or not part.path.endswith(".docs"):
            continue
        shard = f"{part.path.removesuffix('.docs')}.bin"
        if {part.path, shard} <= sound and manifest.tokens is not None:
            table = np.fromfile(root / part.path, "<i8")
            numbers, ends = table[: len(table) // 2], table[len(table) // 2 :]
            total += len(numbers) - int(len(numbers) > 0 and int(numbers[0]) == last)
            last = int(numbers[-1]) if len(numbers) else last
            documents |= set(np.unique(numbers >> 32).tolist())
            wrong += _check_import(root / shard, shard, manifest.tokens, ends)
    if total != manifest.funnel.get("documents"):
        wrong.append(
            f"funnel.documents: {manifest.funnel.get('documents')}, and the shards hold {total}"
        )
    for file in sorted(documents - set(range(len(manifest.imported.files)))):
        wrong.append(f"tokens: documents of file {file}, and `imported` names no such file")
    return wrong


def _check_import(path: Path, name: str, stated: TokenFormat, ends: np.ndarray) -> list[str]:
    """Return what is wrong with the tokens of a shard, whose documents end at `ends`."""
    tokens = np.memmap(path, f"<u{int(stated.dtype[4:]) // 8}", "r")
    if len(ends) == 0 or ends[-1] != len(tokens) or (np.diff(ends, prepend=0) <= 0).any():
        return []  # the counts of the shard are wrong, which is reported there
    largest = int(tokens.max())
    if largest >= stated.vocabulary:
        return [f"{name}: token {largest:,}, and the vocabulary is {stated.vocabulary:,}"]
    if stated.end_of_text_side == "none":
        return []
    # The first document may have begun in the shard before, the last may go on in the next.
    at = ends[:-1] - (1 if stated.end_of_text_side == "after" else 0)
    missing = int((tokens[at] != stated.end_of_text).sum())
    if missing:
        return [
            f"{name}: {missing:,} documents without the end of text {stated.end_of_text_side} them"
        ]
    return []


def stated_by_tokenizer(root: Path, manifest: Manifest, sound: set[str]) -> TokenFormat | None:
    """Return what `tokens` would say of a corpus of format 1; None where its tokenizer cannot be
    read.
    """
    names = [part.path for part in manifest.parts if part.path.startswith("tokenizer/")]
    if not names or names[0] not in sound:
        return None
    try:
        data = (root / names[0]).read_bytes()
        return token_format_of(Tokenizer(names[0], data, end_of_text_literal(manifest)))
    except (RecipeError, OSError):
        return None


def _token_format(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Return the differences between `tokens` and the tokenizer in the corpus."""
    names = [part.path for part in manifest.parts if part.path.startswith("tokenizer/")]
    if manifest.tokens is None or not names or names[0] not in sound:
        return []
    try:
        data = (root / names[0]).read_bytes()
        tokenizer = read_tokenizer(names[0], data, manifest, manifest.tokens)
    except (RecipeError, OSError) as error:
        return [f"{names[0]}: cannot be read: {error}"]
    own = token_format_of(tokenizer)
    assert own is not None
    own = msgspec.structs.replace(own, end_of_text_by=manifest.tokens.end_of_text_by)
    if not tokenizer.may_end(tokenizer.end_of_text) and end_of_text_literal(manifest) is None:
        return [f"tokens.end_of_text: {own.end_of_text}, which {names[0]} does not know as one"]
    if isinstance(manifest.imported, Imported):
        # Of imported tokens the documents say it, which check_imported reads.
        own = msgspec.structs.replace(own, end_of_text_side=manifest.tokens.end_of_text_side)
    stated, own_format = msgspec.to_builtins([manifest.tokens, own])
    return [
        f"{place}: {left!r}, and {names[0]} says {right!r}"
        for place, left, right in _differences("tokens", stated, own_format)
    ]


def check_links(root: Path) -> list[str]:
    """Return the links among a corpus' files: a link is an error, as its target is somewhere
    else.
    """
    names = [path.relative_to(root).as_posix() for path in links(root, work=False)]
    return [
        f"{name}: a link, and not the {'file' if name in PROOFS else 'part or folder'} itself"
        for name in names
    ]


def check_run(root: Path) -> list[str]:
    """Check run.json, which is not a part (it names times and the machine), by its own digest."""
    try:
        data = (root / RUN).read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{RUN}: cannot be read: {error.strerror}"]
    try:
        values = json.loads(data)
        if isinstance(values, dict) and set(values) <= set(RUN_FIELDS):
            return []  # of an earlier version, without a digest
        unseal(data)
    except (ValueError, RecursionError):
        return [f"{RUN}: not as it was written"]
    return []


def _against(root: Path, sound: set[str], name: str, what: str, value: Any) -> list[str]:
    """Return the differences between a value of the manifest and the part that repeats it."""
    if name not in sound:
        return []  # missing or damaged, which check_parts has reported
    try:
        text = (root / name).read_text("utf-8")
        repeated = parse_tables(text, name) if name == RECIPE else json.loads(text)
        if name == PLAN:
            repeated = repeated["shards"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RecipeError) as error:
        return [f"{name}: cannot be read: {error}"]
    return [
        f"{place}: {left!r}, and {name} says {right!r}"
        for place, left, right in _differences(what, value, repeated)
    ]


def _differences(place: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which two values of JSON differ, with both values there."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from _differences(f"{place}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from _differences(f"{place}.{number}", *pair)
    elif left != right or type(left) is not type(right):
        yield place, left, right


def _planned(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the raw shards as in plan.json: without null values."""
    rows = []
    for shard in manifest.raw_shards:
        row = {
            name: getattr(shard, name) for name in ("number", "source", "url", "sha256", "missing")
        }
        row["size"] = None if shard.missing is not None else shard.compressed_bytes
        row |= {"start": shard.start or None, "cut": shard.cut or None}
        row["files"] = list(msgspec.to_builtins(shard.files or ())) or None
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _funnel(manifest: Manifest) -> Iterator[str]:
    """Check the funnel's sums, and its counts of token shards."""
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


def _repeats_and_partitions(manifest: Manifest) -> Iterator[str]:
    """Check what the funnel says of repeats and partitions against the shards and the recipe."""
    tokens, funnel = manifest.recipe.get("tokens") or {}, manifest.funnel
    for name, key in (("repeat", "repeats"), ("partition", "partitions")):
        if (name in tokens) != (key in funnel):
            yield f"funnel.{key}: {key in funnel}, and the recipe's tokens.{name} {name in tokens}"
    if "repeats" in funnel and "repeat" in tokens:
        repeats = funnel["repeats"]
        for what in ("documents", "tokens"):
            written = sum(row[f"written_{what}"] for row in repeats["table"])
            written -= repeats["left_out" if what == "documents" else "left_out_tokens"]
            if written != funnel.get(f"train_{what}"):
                yield (
                    f"funnel.repeats: {written} {what}, and funnel.train_{what} "
                    f"{funnel.get(f'train_{what}')}"
                )
    folders: dict[str, dict[str, int]] = {}
    for part in manifest.parts:
        if part.path.startswith("tokens/") and part.path.endswith(".bin"):
            _, folder, file = part.path.split("/")
            counts = folders.setdefault(folder, {})
            for what, count in (("tokens", part.counts.get("tokens", 0)), ("shards", 1)):
                key = f"{file.partition('_')[0]}_{what}"
                counts[key] = counts.get(key, 0) + count
    sources = {table["name"] for table in manifest.recipe.get("source", [])}
    for folder in folders:
        if partition_source(folder) not in sources or (folder in sources) == (
            "partition" in tokens
        ):
            yield f"tokens/{folder}: no source, or partition of one, of the recipe"
    for name, stated in funnel.get("partitions", {}).items():
        for what, count in stated.items():
            if not what.endswith("documents") and folders.get(name, {}).get(what, 0) != count:
                yield (
                    f"funnel.partitions.{name}.{what}: {count}, and the parts hold "
                    f"{folders.get(name, {}).get(what, 0)}"
                )


def _inputs(manifest: Manifest) -> Iterator[str]:
    """Check tokenizer, reference corpora and pins against the recipe and the parts."""
    recipe, inputs = manifest.recipe, manifest.inputs
    tokens = recipe.get("tokens")
    stored = {part.sha256 for part in manifest.parts if part.path.startswith("tokenizer/")}
    tokenizer = inputs.get("tokens.tokenizer")
    if (tokenizer is not None) != (tokens is not None) or (
        tokenizer is not None and {tokenizer.get("sha256")} != stored
    ):
        yield (
            f"inputs.tokens.tokenizer: {tokenizer}, and the part in tokenizer/ has {sorted(stored)}"
        )
    token_format = manifest.tokens
    if token_format is not None and {token_format.tokenizer} != stored:
        yield (
            f"tokens.tokenizer: {token_format.tokenizer}, and the part in tokenizer/ has "
            f"{sorted(stored)}"
        )
    if manifest.format > 1 and (token_format is None) != (tokens is None):
        yield f"tokens: {token_format}, and the recipe's [tokens] is {tokens}"
    if manifest.format == 1 and token_format is not None:
        yield "format: 1, which has no `tokens`"
    if tokens is None and any(part.path.startswith("tokens/") for part in manifest.parts):
        yield "tokens: parts in tokens/, and the recipe has no [tokens]"
    named = {}
    if tokens is not None and not urls.is_url(tokens["tokenizer"]):
        named["tokens.tokenizer"] = tokens["tokenizer"]
    for place, reference in enumerate((recipe.get("deduplicate") or {}).get("against") or []):
        named[f"deduplicate.against.{place}"] = reference
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
    """Check the counts of parts against their sizes and names."""
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
