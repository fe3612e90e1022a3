"""Sources and raw shards of which no document is kept: a run says so, with the reason."""

from collections import Counter
from collections.abc import Mapping

from gristmill.phases.inputs.fetch import printable_name
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.relations.write_verdicts import VerdictCounts

SHOWN = 3  # raw shards that a line names


def nothing_kept(plan: Plan, counts: Mapping[int, VerdictCounts]) -> list[str]:
    """Return a line for each source that keeps nothing, and one for all raw shards of the others
    that keep nothing. `counts` are those of the verdicts, by raw shard.
    """
    kept: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    for number, counted in counts.items():
        source = plan.shards[number].source
        kept[source] += counted.kept
        documents[source] += counted.documents
        reasons.setdefault(source, Counter()).update(counted.reasons)
    lines = [
        f"source {source!r}: nothing is kept of {documents[source]:,} documents"
        + _why(reasons[source])
        for source in documents
        if documents[source] and not kept[source]
    ]
    empty = [
        number
        for number, counted in sorted(counts.items())
        if counted.documents and not counted.kept and kept[plan.shards[number].source]
    ]
    if empty:
        names = [
            f"{printable_name(plan.shards[number])} ({counts[number].documents:,} documents"
            f"{_why(Counter(counts[number].reasons))})"
            for number in empty[:SHOWN]
        ]
        more = f" and {len(empty) - SHOWN:,} more" if len(empty) > SHOWN else ""
        lines.append(
            f"nothing is kept of {len(empty):,} of {len(counts):,} raw shards: "
            f"{', '.join(names)}{more}"
        )
    return lines


def _why(reasons: Counter[str]) -> str:
    return "".join(f": {reason} drops {count:,}" for reason, count in reasons.most_common(1))
