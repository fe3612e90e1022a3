"""What a manifest says of its sources and their tokens, beside the targets of the recipe."""

from typing import Any

import msgspec

from gristmill.corpus.layout import WITHDRAWN
from gristmill.errors import GONE, NOT_ABSENT
from gristmill.filters.lists.withdrawn import REASON
from gristmill.store.manifest import Manifest
from gristmill.tokens.partitions import partition_source

SHOWN = 5  # raw shards that a line names


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return the figures of a corpus: `documents`, `kept`, `withdrawn`, `tokens`, `token_shards`,
    `bytes`, `vocabulary`, `end_of_text` and what says it (`end_of_text_by`; null: the recipe, or an
    earlier version), `begin_of_text`, `tokenizer_version`, `raw_shards`, `absent`, `gone`,
    `nothing_kept` (raw shards with documents of which none is kept), and `sources`.

    A source has `name`, `priority`, `enabled`, `raw_shards`, `documents`, `kept`, `tokens`,
    `token_shards` (both of train alone, with what is repeated), `bytes` of its shards,
    `partitions` (name -> training tokens), `target_shards`, `target_tokens` and `share`, of its
    target (null: it has none).
    """
    stated = manifest.tokens
    version = stated.tokenizer_version if stated is not None else msgspec.UNSET
    shards = [part for part in manifest.parts if _is_shard(part.path)]
    counted = {step["step"]: step["reasons"] for step in manifest.funnel.get("steps", [])}
    listed = any(part.path == WITHDRAWN for part in manifest.parts)
    return {
        "documents": manifest.funnel.get("documents", 0),
        "kept": manifest.funnel.get("kept", 0),
        "withdrawn": counted.get("withdrawn", {}).get(REASON, 0) if listed else 0,
        "tokens": sum(part.counts.get("tokens", 0) for part in shards),
        "token_shards": len(shards),
        "bytes": sum(part.size for part in manifest.parts),
        "vocabulary": stated.vocabulary if stated is not None else None,
        "end_of_text": stated.end_of_text if stated is not None else None,
        "end_of_text_by": _known(stated.end_of_text_by) if stated is not None else None,
        "begin_of_text": _known(stated.begin_of_text) if stated is not None else None,
        "tokenizer_version": None if version is msgspec.UNSET else version,
        "raw_shards": len(manifest.raw_shards),
        "absent": {
            f"{shard.source} {shard.number}": shard.missing
            for shard in manifest.raw_shards
            if shard.missing not in NOT_ABSENT
        },
        "gone": {
            f"{shard.source} {shard.number}": shard.missing
            for shard in manifest.raw_shards
            if shard.missing in GONE
        },
        "nothing_kept": [
            f"{shard.source} {shard.number}"
            for shard in manifest.raw_shards
            if shard.documents and not shard.unique_documents
        ],
        "sources": [_source(manifest, name, table) for name, table in _tables(manifest).items()],
    }


def _known(value: Any) -> Any:
    return None if value is msgspec.UNSET else value


def _is_shard(path: str) -> bool:
    return path.startswith("tokens/") and path.endswith(".bin")


def _folder(path: str) -> str:
    """`tokens/web~news/train_00000.bin`: web~news."""
    return path.split("/")[1]


def _tables(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return the recipe's table of each source; of an imported corpus the sources that have
    tokens.
    """
    named = {table["name"]: table for table in manifest.recipe.get("source", [])}
    shards = [
        partition_source(_folder(part.path)) for part in manifest.parts if _is_shard(part.path)
    ]
    return named | {name: {} for name in dict.fromkeys(shards) if name not in named}


def _source(manifest: Manifest, name: str, table: dict[str, Any]) -> dict[str, Any]:
    raw = [shard for shard in manifest.raw_shards if shard.source == name]
    train = [
        part
        for part in manifest.parts
        if _is_shard(part.path)
        and partition_source(_folder(part.path)) == name
        and part.path.rpartition("/")[2].startswith("train_")
    ]
    partitions: dict[str, int] = {}
    for part in train:
        if (folder := _folder(part.path)) != name:
            partitions[folder] = partitions.get(folder, 0) + part.counts.get("tokens", 0)
    entry: dict[str, Any] = {
        "name": name,
        "priority": table.get("priority", 0),
        "enabled": table.get("enabled", True),
        "raw_shards": len(raw),
        "documents": sum(shard.documents for shard in raw),
        "kept": sum(shard.unique_documents for shard in raw),
        "tokens": sum(part.counts.get("tokens", 0) for part in train),
        "token_shards": len(train),
        "bytes": sum(part.size for part in train),
        "partitions": partitions,
        "target_shards": table.get("target_shards"),
        "target_tokens": table.get("target_tokens"),
    }
    wanted = (("token_shards", "target_shards"), ("tokens", "target_tokens"))
    shares = [entry[has] / entry[target] for has, target in wanted if entry[target]]
    return {**entry, "share": round(min(shares), 6) if shares else None}


def lines(found: dict[str, Any]) -> list[str]:
    """Return the figures for people, a line for each source."""
    out = []
    if found["vocabulary"] is not None:
        version = found["tokenizer_version"]
        out.append(
            f"tokens {found['tokens']:,} in {found['token_shards']:,} shards; vocabulary "
            f"{found['vocabulary']:,}" + (f", version {version}" if version is not None else "")
        )
        begin, why = found["begin_of_text"], found["end_of_text_by"]
        out.append(
            f"end of text {found['end_of_text']}"
            + (f" by {why}" if why is not None else "")
            + (f"; begin of text {begin}" if begin is not None else "")
        )
    out.append(
        f"kept {found['kept']:,} of {found['documents']:,} documents; "
        f"{found['bytes'] / 1e6:,.1f} MB"
        + (f"; withdrawn {found['withdrawn']:,}" if found["withdrawn"] else "")
    )
    for source in found["sources"]:
        targets = [
            f"{source[has]:,} of {source[target]:,} {word}"
            for has, target, word in (
                ("token_shards", "target_shards", "shards"),
                ("tokens", "target_tokens", "tokens"),
            )
            if source[target]
        ]
        said = f"{source['tokens']:,} tokens in {source['token_shards']:,} shards"
        aim = f"; target: {', '.join(targets)} ({source['share']:.1%})" if targets else ""
        off = "" if source["enabled"] else "; not enabled"
        if source["documents"] and not source["kept"]:
            off += f"; nothing is kept of its {source['documents']:,}"
        out.append(f"  {source['name']}: {source['kept']:,} documents, {said}{aim}{off}")
        out += [f"    {name}: {count:,} tokens" for name, count in source["partitions"].items()]
    if nothing := found["nothing_kept"]:
        more = f" and {len(nothing) - SHOWN:,} more" if len(nothing) > SHOWN else ""
        out.append(
            f"  nothing is kept of {len(nothing):,} raw shards: {', '.join(nothing[:SHOWN])}{more}"
        )
    for what in ("absent", "gone"):
        out += [f"  {what}: raw shard {name}: {reason}" for name, reason in found[what].items()]
    return out
