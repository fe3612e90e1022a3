"""Verify: checks lock, manifest, every part and every count. It names each error, and any error is
a failure.
"""

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.layout import part_folders
from gristmill.errors import RecipeError, VerificationError
from gristmill.phases.relations.frequent_lines import LIST
from gristmill.phases.relations.repeated_substrings import LIST as SUBSTRINGS
from gristmill.progress.counted_work import counted
from gristmill.reports.integrity.consistency import (
    check_consistency,
    check_imported,
    check_links,
    check_run,
    stated_by_tokenizer,
)
from gristmill.reports.integrity.raw_files import check_raw_files
from gristmill.store import manifest as manifests
from gristmill.store.cache import Cache, default_cache
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part, hash_file, read_batches
from gristmill.tables.schema import shard_name
from gristmill.user_input import refuse_store

ROWS = (1 << 32) - 1  # of a document's number: its row in the shard


def verify(
    corpus: Path | str,
    *,
    quick: bool = False,
    pin: str | None = None,
    raw: bool = False,
    cache_dir: Path | str | None = None,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Check a corpus against its manifest and lock; `quick` checks sizes only.

    `pin` is the expected sha256 of its manifest, or the expected `content` digest of its parts.
    `raw` checks what the corpus was made from as well: local files in their place, fetched ones in
    the cache, imported ones in the folder that was imported. Returns `manifest`, `content`,
    `parts`, `bytes` and `quick`, and with `raw` `raw_files`, their number. Raises VerificationError
    with a list of all errors; RecipeError for a `pin` that is not a sha256.
    """
    root = Path(corpus)
    manifest, data = finished(root)
    wrong: list[str] = []
    lock = manifests.make_lock(data).decode().split()[0]
    if pin is not None:
        _check_pin(root, pin, lock, manifest.content)
    if manifests.content_digest(manifest.parts) != manifest.content:
        wrong.append(f"{manifests.MANIFEST}: `content` is not the digest of its parts")
    try:
        listed = (root / manifests.SUMS).read_bytes()
    except OSError:
        listed = b""
    if listed != manifests.sums(manifest.parts):
        wrong.append(f"{manifests.SUMS}: it does not match the manifest")
    wrong += check_links(root)
    wrong += _strange_files(root, manifest)
    sound = check_parts(root, manifest.parts, wrong, quick, show or (lambda _: None))
    raw_files = 0
    if raw:
        cache = Cache(Path(cache_dir or default_cache()))
        raw_wrong, raw_files = check_raw_files(root, manifest, cache, quick=quick)
        wrong += raw_wrong
    if not quick:
        try:
            if manifest.imported is msgspec.UNSET:
                wrong += _check_counts(root, manifest, sound)
                wrong += check_consistency(root, manifest, sound)
            else:
                wrong += _check_tokens(root, manifest, sound)
                wrong += check_imported(root, manifest, sound)
        except (KeyError, TypeError, AttributeError) as error:
            wrong.append(
                f"{manifests.MANIFEST}: a value of its recipe, inputs or funnel is missing, "
                f"or of the wrong type: {error!r}"
            )
        wrong += check_run(root)
    if wrong:
        shown = "\n  ".join(wrong[:50]) + (
            f"\n  ... and {len(wrong) - 50} more" if len(wrong) > 50 else ""
        )
        raise VerificationError(
            f"{root} is not what its manifest says:\n  {shown}\nFetch or build these files again"
        )
    size = sum(part.size for part in manifest.parts)
    return {
        "manifest": lock,
        "content": manifest.content,
        "parts": len(manifest.parts),
        "bytes": size,
        "quick": quick,
        **({"raw_files": raw_files} if raw else {}),
    }


def _check_pin(root: Path, pin: str, lock: str, content: str) -> None:
    if not re.fullmatch("[0-9a-fA-F]{64}", pin):
        raise RecipeError(
            f"--pin {pin}: write the whole sha256, 64 hexadecimal digits; a shorter one could "
            "match several corpora"
        )
    if pin.lower() not in (lock, content):
        raise VerificationError(
            f"{root} is not the pinned corpus: expected {pin.lower()}, got manifest {lock}, "
            f"content {content}. Fetch the pinned corpus, or look at `gristmill diff` and pin "
            "this one"
        )


def check_size(root: Path, part: Part) -> None:
    """Raise VerificationError for a part that is not there, or not whole."""
    try:
        size = (root / part.path).stat().st_size
    except OSError as error:
        raise VerificationError(
            f"{root / part.path}: {error.strerror}, and the manifest names it: run the recipe again"
        ) from error
    if size != part.size:
        raise VerificationError(
            f"{root / part.path}: {size:,} bytes, and the manifest says {part.size:,}: "
            f"`gristmill verify {root}` shows all damage"
        )


def finished(root: Path) -> tuple[Manifest, bytes]:
    """Return a corpus' manifest and its bytes, after checking its lock. Raises
    VerificationError.
    """
    if not root.is_dir():
        refuse_store(root)
        raise VerificationError(f"{root}: no such folder")
    finished = Corpus(root).finished()
    if finished is None:
        raise VerificationError(
            f"{root}: no {manifests.MANIFEST}: not a corpus, or not finished. Run the recipe again "
            "to finish it"
        )
    return finished


def _strange_files(root: Path, manifest: Manifest) -> list[str]:
    """Return files in the folders of parts that the manifest does not name."""
    named = {part.path for part in manifest.parts}
    problems = []
    for folder in part_folders(root):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(root).as_posix()
            if not path.is_dir() and name not in named:
                problems.append(f"{name}: not in the manifest")
    return problems


def check_parts(
    root: Path,
    parts: list[Part],
    wrong: list[str],
    quick: bool,
    show: Callable[[dict[str, Any]], None],
) -> set[str]:
    """Check the size and digest of every part; returns the paths of intact parts.

    Errors are appended to `wrong`. `show` is called after each part with a progress event.
    """

    def check(part: Part) -> str | None:
        path = root / part.path
        try:
            if path.is_symlink() or not path.is_file():
                return (
                    f"{part.path}: missing"
                    if not path.exists()
                    else f"{part.path}: not a regular file"
                )
            size = path.stat().st_size
            if size != part.size:
                return f"{part.path}: {size:,} bytes, expected {part.size:,}"
            if not quick and (digest := hash_file(path)[1]) != part.sha256:
                return f"{part.path}: sha256 {digest}, expected {part.sha256}"
        except OSError as error:
            return f"{part.path}: cannot be read: {error.strerror}"
        return None

    sound = set()
    # hashlib releases the interpreter lock, so threads hash on all cores.
    size = sum(part.size for part in parts)
    with counted("verify", size, "bytes") as count, ThreadPoolExecutor(os.cpu_count()) as threads:
        for place, (part, problem) in enumerate(
            zip(parts, threads.map(check, parts), strict=True), 1
        ):
            if problem is None:
                sound.add(part.path)
            else:
                wrong.append(problem)
            count.add(part.size)
            show(
                {
                    "event": "progress",
                    "phase": "verify",
                    "done": place,
                    "jobs": len(parts),
                    "bytes": part.size,
                }
            )
    return sound


def _check_counts(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Check that all counts agree: rows, verdicts, kept, dropped, tokens, ends of documents."""
    wrong = []
    kept_in_all = documents_in_all = 0
    reasons: dict[str, int] = {}
    for shard in manifest.raw_shards:
        name = f"verdicts/{shard_name(shard.number)}.parquet"
        if shard.missing is not None:
            continue
        if name not in sound:
            if all(part.path != name for part in manifest.parts):
                wrong.append(
                    f"{name}: not in the manifest, and raw shard {shard.number} is not "
                    "recorded as absent"
                )
            continue
        rows = kept = 0
        for batch in read_batches(root / name, ["reason"]):
            rows += len(batch)
            kept += batch["reason"].null_count
            for pair in pc.value_counts(batch["reason"]).to_pylist():
                if pair["values"] is not None:
                    reasons[pair["values"]] = reasons.get(pair["values"], 0) + pair["counts"]
        if rows != shard.documents:
            wrong.append(
                f"{name}: {rows:,} rows, but raw shard {shard.number} has "
                f"{shard.documents:,} documents"
            )
        if kept != shard.unique_documents:
            wrong.append(f"{name}: {kept:,} kept, but the manifest says {shard.unique_documents:,}")
        kept_in_all += kept
        documents_in_all += rows
    funnel = {
        reason: count
        for step in manifest.funnel["steps"]
        for reason, count in step["reasons"].items()
    }
    if (documents_in_all, kept_in_all, reasons) != (
        manifest.funnel["documents"],
        manifest.funnel["kept"],
        funnel,
    ):
        wrong.append("funnel: its counts are not those of the verdicts")
    wrong += _check_tables(root, manifest, sound)
    wrong += _check_keepers(root, manifest, sound)
    wrong += _check_lines(manifest)
    wrong += _check_substrings(manifest)
    wrong += _check_tokens(root, manifest, sound)
    return wrong


def _check_tables(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Check the number of rows of every table."""
    wrong = []
    for part in manifest.parts:
        if part.path in sound and part.path.endswith(".parquet") and "rows" in part.counts:
            rows = pq.read_metadata(root / part.path).num_rows
            if rows != part.counts["rows"]:
                wrong.append(f"{part.path}: {rows:,} rows, expected {part.counts['rows']:,}")
    return wrong


def _check_keepers(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Check that each duplicate's keeper is a kept document (with the plan's order, an earlier
    one), and that duplicates/copies.parquet counts all copies.
    """
    by_number = (manifest.recipe.get("deduplicate") or {}).get("order", "plan") == "plan"
    tables = {
        shard.number: name
        for shard in manifest.raw_shards
        if (name := f"verdicts/{shard_name(shard.number)}.parquet") in sound
    }
    kept: dict[int, Any] = {}  # by shard, a bit for each row
    for number, name in tables.items():
        rows = [
            batch["document"].to_numpy()[batch["reason"].is_null().to_numpy(zero_copy_only=False)]
            for batch in read_batches(root / name, ["document", "reason"])
        ]
        documents = np.concatenate(rows) if rows else np.empty(0, np.int64)
        bits = np.zeros(int((documents & ROWS).max(initial=-1)) + 1, bool)
        bits[documents & ROWS] = True
        kept[number] = np.packbits(bits)
    lost = copies = 0
    for name in tables.values():
        for batch in read_batches(root / name, ["document", "keeper", "keeper_corpus"]):
            copies += len(batch) - batch["keeper"].null_count
            # A keeper in a reference corpus is checked by verifying that corpus.
            named = pc.and_(batch["keeper"].is_valid(), batch["keeper_corpus"].is_null()).to_numpy(
                zero_copy_only=False
            )
            keepers = batch["keeper"].fill_null(0).to_numpy()[named]
            lost += int((keepers >= batch["document"].to_numpy()[named]).sum()) if by_number else 0
            for shard in np.unique(keepers >> 32).tolist():
                rows = (keepers[keepers >> 32 == shard]) & ROWS
                bits = np.unpackbits(kept.get(shard, np.empty(0, np.uint8))).astype(bool)
                lost += int((~bits[rows[rows < len(bits)]]).sum() + (rows >= len(bits)).sum())
    wrong = (
        [
            (
                f"verdicts: {lost:,} duplicates whose keeper is not "
                f"{'an earlier' if by_number else 'a'} kept document"
            )
        ]
        if lost
        else []
    )
    if "duplicates/copies.parquet" in sound:
        counted = sum(
            pc.sum(batch["copies"]).as_py()
            for batch in read_batches(root / "duplicates/copies.parquet")
        )
        if counted != copies and len(tables) == sum(
            shard.missing is None for shard in manifest.raw_shards
        ):
            wrong.append(
                f"duplicates/copies.parquet: counts {counted:,} copies, the verdicts name "
                f"keepers for {copies:,}"
            )
    return wrong


def _check_lines(manifest: Manifest) -> list[str]:
    """Check the funnel's count of the list of frequent lines."""
    rows = [part.counts.get("rows") for part in manifest.parts if part.path == LIST]
    counted = [manifest.funnel["lines"]["listed"]] if "lines" in manifest.funnel else []
    if rows != counted:
        return [f"{LIST}: the funnel counts {counted}, the manifest {rows} rows"]
    return []


def _check_substrings(manifest: Manifest) -> list[str]:
    """Check the funnel's count of the list of repeated spans."""
    rows = [part.counts.get("rows") for part in manifest.parts if part.path == SUBSTRINGS]
    table = manifest.funnel.get("substrings")
    counted = [table["listed"]] if table else []
    if rows != counted:
        return [f"{SUBSTRINGS}: the funnel counts {counted}, the manifest {rows} rows"]
    return []


def _check_tokens(root: Path, manifest: Manifest, sound: set[str]) -> list[str]:
    """Check the token shards and their `.docs` files."""
    wrong = []
    tokens = 0
    stated = manifest.tokens or stated_by_tokenizer(root, manifest, sound)
    sizes = (2, 4) if stated is None else (int(stated.dtype[4:]) // 8,)
    for part in manifest.parts:
        if not part.path.startswith("tokens/") or not part.path.endswith(".bin"):
            continue
        count = part.counts.get("tokens", 0)
        tokens += count
        if count == 0 or part.size not in [size * count for size in sizes]:
            wrong.append(f"{part.path}: {part.size:,} bytes do not hold {count:,} tokens")
        beside = part.path.removesuffix(".bin") + ".docs"
        if beside not in sound:
            if all(other.path != beside for other in manifest.parts):
                wrong.append(f"{beside}: not in the manifest")
            continue
        table = np.fromfile(root / beside, "<u8")
        documents = len(table) // 2
        ends = table[documents:]
        if len(table) % 2 or documents != part.counts.get("documents") or not documents:
            wrong.append(f"{beside}: does not hold {part.counts.get('documents')} documents")
        elif ends[-1] != count or (np.diff(ends.astype(np.int64), prepend=0) <= 0).any():
            wrong.append(f"{beside}: its ends do not increase to {count:,}")
    if tokens != manifest.funnel.get("tokens", 0):
        wrong.append(
            f"tokens: the shards hold {tokens:,}, the funnel says "
            f"{manifest.funnel.get('tokens', 0):,}"
        )
    return wrong
