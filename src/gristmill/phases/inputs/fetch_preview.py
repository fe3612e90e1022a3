"""What a dry run prints of a fetch."""

from typing import Any

from gristmill.phases.inputs.fetch import Row, printable_name


def preview_lines(rows: list[Row]) -> list[tuple[dict[str, Any], str]]:
    """Return what a dry run prints: for each raw shard, then in all, a table for machines and a
    line for people.
    """
    out: list[tuple[dict[str, Any], str]] = []
    for row in rows:
        table = {
            "event": "shard",
            "number": row.shard.number,
            "source": row.shard.source,
            "url": row.shard.url,
        }
        table |= {"state": row.state, "here": row.here, "size": row.size}
        size = "size unknown" if row.size is None else f"{row.size / 1e6:,.1f} MB"
        begun = f", {row.here / 1e6:,.1f} MB of it here" if row.state == "begun" else ""
        name = printable_name(row.shard)
        out.append((table, f"{row.shard.number:>7,}  {row.state:<8}  {size:>14}  {name}{begun}"))
    coming = [row for row in rows if row.state in ("begun", "to fetch")]
    unknown = sum(row.size is None for row in coming)
    total = sum(row.size - row.here for row in coming if row.size is not None)
    here = sum(row.here for row in rows)
    summary = {
        "event": "total",
        "shards": len(rows),
        "to_fetch": len(coming),
        "bytes": total,
        "unknown": unknown,
        "here": here,
    }
    more = f" and {unknown:,} of unknown size" if unknown else ""
    line = (
        f"{len(coming):,} of {len(rows):,} raw shards to fetch, {total / 1e6:,.1f} MB{more}; "
        f"{here / 1e6:,.1f} MB are here"
    )
    return [*out, (summary, line)]
