"""The funnel: documents in, what each step dropped and why, what is left.

A part of the corpus; the rates are not.
"""

from typing import Any

from gristmill.corpus.corpus import Record
from gristmill.recipe import Recipe, step_name


class Funnel:
    """The table that `run` prints.

    `table` is what is stored; `rates` is of this machine, MB of text a second by step.
    """

    def __init__(
        self, table: dict[str, Any], rates: dict[str, float] | None = None, *, fresh: bool = True
    ) -> None:
        self.table = table
        self.rates = rates or {}
        self.fresh = fresh  # whether anything was done

    @classmethod
    def stored(cls, table: dict[str, Any], *, fresh: bool) -> "Funnel":
        """The funnel that a manifest holds."""
        return cls(table, fresh=fresh)

    @classmethod
    def empty(cls) -> "Funnel":
        """The funnel of a run that stopped early."""
        return cls({})

    def lines(self) -> list[str]:
        """For people: a line a step, the reasons below it."""
        if not self.table:
            return []
        total = self.table["documents"]
        lines = [f"{'documents in':<34}{total:>14,}"]
        for step in self.table["steps"]:
            rate = self.rates.get(step["step"])
            shown = f"{rate:>9,.0f} MB/s" if rate else ""
            lines.append(
                f"{step['step']:<34}{-step['dropped']:>14,}{_share(step['left'], total):>10}{shown:>14}".rstrip()
            )
            for reason, count in step["reasons"].items():
                lines.append(f"  {reason.partition('.')[2]:<32}{-count:>14,}".rstrip())
        lines.append(
            f"{'kept':<34}{self.table['kept']:>14,}{_share(self.table['kept'], total):>10}"
        )
        if "lines" in self.table:
            cut = self.table["lines"]
            lines.append(
                f"{'lines cut':<34}{-cut['cut']:>14,}  {cut['listed']:,} different; "
                f"{cut['characters']:,} characters of "
                f"{cut['documents']:,} documents, {cut['emptied']:,} of them empty now"
            )
        lines.append(f"{'characters':<34}{self.table['characters']:>14,}")
        lines.append(f"{'bytes':<34}{self.table['bytes']:>14,}")
        if "tokens" in self.table:
            lines.append(f"{'tokens':<34}{self.table['tokens']:>14,}")
            for split in ("train", "validation"):
                count, shards = self.table[f"{split}_tokens"], self.table[f"{split}_shards"]
                told = (
                    f"  in {shards} shard{'s' if shards != 1 else ''}"
                    if shards
                    else "  no document fell on it: no file"
                )
                lines.append(f"  {split:<32}{count:>14,}{told}")
            lines.append(f"{'tokens per byte':<34}{self.table['tokens_per_byte']:>14.4f}")
        rest = {
            name: rate
            for name, rate in self.rates.items()
            if name not in {step["step"] for step in self.table["steps"]}
        }
        if rest:
            lines.append(
                "MB of text a second: "
                + ", ".join(f"{name} {rate:,.0f}" for name, rate in rest.items())
            )
        return lines


def _share(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.1f} %" if whole else ""


def table_of(
    recipe: Recipe,
    verdicts_written: dict[int, Record],
    listed: Record | None,
    written: dict[int, Record],
    assembled: dict[int, Record],
) -> dict[str, Any]:
    """Count the funnel from the phases' records."""
    total = sum(record.counts["documents"] for record in verdicts_written.values())
    reasons: dict[str, int] = {}
    for record in verdicts_written.values():
        for reason, count in record.counts["reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    names = ["read", *map(step_name, recipe.step)]
    if recipe.deduplicate is not None:
        names.append("deduplicate")
    left = total
    steps = []
    for name in dict.fromkeys(names):
        own = {
            reason: count
            for reason, count in sorted(reasons.items())
            if reason.partition(".")[0] == name
        }
        left -= sum(own.values())
        steps.append({"step": name, "dropped": sum(own.values()), "left": left, "reasons": own})
    table: dict[str, Any] = {"documents": total, "steps": steps, "kept": left}
    if listed is not None:
        table["lines"] = {"listed": listed.counts["listed"]}
        for name in ("cut", "characters", "documents", "emptied"):
            table["lines"][name] = sum(record.counts["lines"][name] for record in written.values())
    for name in ("characters", "bytes"):
        table[name] = sum(record.counts[name] for record in written.values())
    if recipe.tokens is not None:
        table["tokens"] = sum(record.counts["tokens"] for record in written.values())
        for split, short in (("train", "train"), ("validation", "val")):
            for what in ("tokens", "documents", "shards"):
                table[f"{split}_{what}"] = sum(
                    record.counts[f"{short}_{what}"] for record in assembled.values()
                )
        table["tokens_per_byte"] = (
            round(table["tokens"] / table["bytes"], 6) if table["bytes"] else 0.0
        )
    if (
        sum(reasons.values()) + left != total
        or sum(r.counts["documents"] for r in written.values()) != left
    ):
        raise AssertionError(f"the funnel does not add up: {table}")
    return table


def rates_of(
    processed: dict[int, Record],
    deduplicated: Record | None,
    written: dict[int, Record],
    assembled: dict[int, Record],
) -> dict[str, float]:
    """MB of text a second of one core, by step, from the records' own counters."""
    seconds: dict[str, float] = {}
    amounts: dict[str, float] = {}
    for record in processed.values():
        for name, took in record.counts["seconds"].items():
            seconds[name] = seconds.get(name, 0.0) + took
            size = record.counts["text_bytes"].get(name, record.counts["kept"]["bytes"])
            amounts[name] = amounts.get(name, 0.0) + size
    kept = sum(record.counts["kept"]["bytes"] for record in processed.values())
    if deduplicated is not None:
        seconds["deduplicate"], amounts["deduplicate"] = deduplicated.counts["seconds"], kept
    if written:
        seconds["tokenize"] = sum(record.counts["seconds"] for record in written.values())
        amounts["tokenize"] = sum(record.counts["bytes"] for record in written.values())
    if assembled:
        seconds["assemble"] = sum(record.counts["seconds"] for record in assembled.values())
        amounts["assemble"] = amounts.get("tokenize", 0.0)
    return {
        name: amounts[name] / 1e6 / took
        for name, took in seconds.items()
        if took > 0 and amounts[name]
    }
