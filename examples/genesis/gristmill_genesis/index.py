"""The three JSON files of Genesis (NeuroShard) beside its shards.

    manifest.json      total_shards, total_tokens, total_size_bytes, tokenizer_version; by source:
                       shards, tokens, documents_processed, last_shard_id; `shards` with the sha256
                       of each; created_at, updated_at
    tokenizer.json     vocab_size, next_merge_id, sources_contributed, and merges: the numbers of
                       two tokens as "LEFT_RIGHT", and that of the token that they become
    checkpoints.json   by source: documents_processed, last_shard_id, leftover_tokens, timestamp

Genesis' own program writes full shards alone, and holds the tokens that are left over in
checkpoints.json. Here the last shard of a source may be short. Its tokens are the leftover tokens
of the checkpoint, whose last_shard_id is the last full shard: a program that goes on from there
writes the short shard anew.

manifest.json and checkpoints.json have times, and are not in SHA256SUMS. gristmill.json has their
sha256 without the times, under `sha256_without_times`.

Source: NeuroShard's docs-site/architecture/genesis-data.md; src/neuroshard/core/model/tokenizer.py
(save and load).
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from gristmill.errors import NO_JSON
from gristmill.store.parts import to_json, write_bytes
from gristmill.tokens import tokenizer_file
from gristmill.tokens.growth_record import read_record
from gristmill.tokens.tokenizer import Tokenizer
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.token_format import Finished, Stream, Written

MANIFEST, TOKENIZER, CHECKPOINTS = "manifest.json", "tokenizer.json", "checkpoints.json"


def write_tokenizer(folder: ExportFolder, tokenizer: Tokenizer) -> list[str]:
    """Write tokenizer.json; returns a line where Genesis' nodes cannot encode with it."""
    record = read_record(tokenizer.data)
    contributed: dict[str, int] = {}
    for one in record.sources_contributed if record else ():
        contributed[one.source] = contributed.get(one.source, 0) + one.merges
    table = {
        "vocab_size": record.vocab_size if record else tokenizer.vocabulary,
        "next_merge_id": record.next_merge_id if record else tokenizer.vocabulary,
        "sources_contributed": contributed,
        "merges": _merges(tokenizer.data),
    }
    folder.write(TOKENIZER, to_json(table))
    if record is not None:
        return []
    line = (
        f"{TOKENIZER}: Genesis' nodes expect 10 special tokens, then the 256 bytes, then merges, "
        "and this tokenizer has other numbers: they can train on the shards, but not encode or "
        "decode text. `gristmill tokenizer grow` makes a tokenizer that they can use"
    )
    return [line]


def _merges(data: bytes) -> dict[str, int]:
    """Return the merges of a tokenizer.json in their order; none for another file."""
    try:
        model = tokenizer_file.read_json(data).model
    except ValueError:
        return {}
    found: dict[str, int] = {}
    vocabulary = model.vocab if isinstance(model.vocab, dict) else {}
    for merge in model.merges:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        if not {left, right, left + right} <= vocabulary.keys():
            return {}
        found[f"{vocabulary[left]}_{vocabulary[right]}"] = vocabulary[left + right]
    return found


def write_tables(
    folder: ExportFolder, made: Finished, tokens_of: Callable[[str], list[int]]
) -> None:
    """Write manifest.json of both splits and checkpoints.json. `tokens_of` reads a shard that was
    written, by its name.
    """
    record = read_record(made.tokenizer.data)
    version = f"bpe_v{record.version}" if record else made.tokenizer.sha256
    timeless: dict[str, str] = {}
    for split, place in (("train", ""), ("val", "val/")):
        streams = [pair for pair in made.streams if pair[0].split == split]
        if not streams:
            continue
        manifest = _manifest(folder, made, streams, version)
        name = f"{place}{MANIFEST}"
        timeless[name] = _digest(manifest)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"created_at": _created(folder, name) or now, "updated_at": now}
        write_bytes(folder.root, name, to_json(manifest | times))
        if split == "train":
            checkpoints = {
                stream.name: _checkpoint(made, stream, written, tokens_of)
                for stream, written in streams
            }
            timeless[CHECKPOINTS] = _digest(checkpoints)
            timed = {name: {**one, "timestamp": now} for name, one in checkpoints.items()}
            write_bytes(folder.root, CHECKPOINTS, to_json(timed))
    folder.describe(details={"sha256_without_times": timeless})


def _manifest(
    folder: ExportFolder, made: Finished, streams: list[tuple[Stream, Written]], version: str
) -> dict[str, Any]:
    parts = {part.path: part for part in folder.parts}
    shards = [
        {
            "shard_id": _number(name),
            "source": stream.name,
            "sha256": parts[name].sha256,
            "size_tokens": size,
            "size_bytes": parts[name].size,
        }
        for stream, written in streams
        for name, size in zip(written.files, _sizes(made, written), strict=True)
    ]
    return {
        "total_shards": len(shards),
        "total_tokens": sum(written.tokens for _, written in streams),
        "total_size_bytes": sum(shard["size_bytes"] for shard in shards),
        "tokenizer_version": version,
        "sources": {
            stream.name: {
                "shards": len(written.files),
                "tokens": written.tokens,
                "documents_processed": _documents(made, stream, written),
                "last_shard_id": _number(written.files[-1]),
            }
            for stream, written in streams
        },
        "shards": shards,
    }


def _checkpoint(
    made: Finished, stream: Stream, written: Written, tokens_of: Callable[[str], list[int]]
) -> dict[str, Any]:
    files = written.files
    leftover = tokens_of(files[-1]) if _sizes(made, written)[-1] < made.tokens_per_file else []
    full = files[:-1] if leftover else files
    return {
        "documents_processed": _documents(made, stream, written),
        "last_shard_id": _number(full[-1]) if full else -1,  # Genesis' number for none
        "leftover_tokens": leftover,
    }


def _sizes(made: Finished, written: Written) -> list[int]:
    """Return the tokens of each shard of a stream."""
    full = made.tokens_per_file
    before = len(written.files) - 1
    return [full] * before + [written.tokens - before * full]


def _number(name: str) -> int:
    return int(name.rpartition("_")[2].removesuffix(".pt"))


def _documents(made: Finished, stream: Stream, written: Written) -> int:
    """Return how many documents of the sources were read, dropped ones included; of an imported
    corpus, how many were written.
    """
    raw = made.corpus.manifest.raw_shards
    return sum(one.documents for one in raw if one.source in stream.sources) or written.documents


def _digest(table: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(table)).hexdigest()


def _created(folder: ExportFolder, name: str) -> str | None:
    """Return the `created_at` that an earlier export into this folder wrote."""
    try:
        found = msgspec.json.decode((folder.root / name).read_bytes()).get("created_at")
    except (OSError, AttributeError, *NO_JSON):
        return None
    return found if isinstance(found, str) else None
