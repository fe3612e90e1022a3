"""The funnel: documents in, what each step dropped and why, what is left.

A part of the corpus; the rates are not.
"""

import html
from typing import Any

from gristmill.errors import printable

# What is said of documents by what was unusual in decoding them.
DECODING = {
    "against_label": "decoded against their label",
    "heads_without_row": "heads of records without a row",
    "replaced": "with bytes not in UTF-8",
}
LANGUAGES = 5  # without parameters, that a line names


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
        """Return the funnel that a manifest holds."""
        return cls(table, fresh=fresh)

    @classmethod
    def empty(cls) -> "Funnel":
        """Return the funnel of a run that stopped early."""
        return cls({})

    def worst(self) -> tuple[str, int]:
        """Return the reason that drops most documents, and how many; ("", 0): none drops any."""
        reasons = {
            reason: count
            for step in self.table.get("steps", [])
            for reason, count in step["reasons"].items()
        }
        return max(reasons.items(), key=lambda one: one[1], default=("", 0))

    def nothing_kept(self) -> str | None:
        """Return why nothing is kept, in words. None: something is, or the run has not come to its
        end.
        """
        if self.table.get("kept", 1):
            return None
        if not self.table["documents"]:
            return "nothing is kept: the raw shards hold no document"
        reason, count = self.worst()
        return (
            f"nothing is kept of {self.table['documents']:,} documents: {reason} drops {count:,} "
            "of them"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no funnel: the run has not come to its end"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In IPython."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f"<pre>{html.escape(printable(str(self), lines=True))}</pre>"

    def lines(self) -> list[str]:
        """For people: a line a step, the reasons below it."""
        if not self.table:
            return []
        total = self.table["documents"]
        lines = [f"{'documents in':<34}{total:>14,}"]
        lines += _decoding(self.table.get("decoding", {}), total)
        for step in self.table["steps"]:
            rate = self.rates.get(step["step"])
            shown = f"{rate:>9,.0f} MB/s" if rate else ""
            lines.append(
                (
                    f"{step['step']:<34}{-step['dropped']:>14,}"
                    f"{_share(step['left'], total):>10}{shown:>14}"
                ).rstrip()
            )
            for reason, count in step["reasons"].items():
                lines.append(f"  {reason.partition('.')[2]:<32}{-count:>14,}".rstrip())
            lines += _defaults(step.get("defaults", {}))
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
        if "substrings" in self.table:
            cut = self.table["substrings"]
            lines.append(
                f"{'repeated spans cut':<34}{-cut['cut']:>14,}  of {cut['listed']:,} listed; "
                f"{cut['bytes']:,} bytes of {cut['documents']:,} documents, {cut['emptied']:,} of "
                "them empty now"
            )
        for name in ("characters", "bytes"):
            if name in self.table:  # imported tokens have no text
                lines.append(f"{name:<34}{self.table[name]:>14,}")
        if "tokens" in self.table:
            lines.append(f"{'tokens':<34}{self.table['tokens']:>14,}")
            for split in ("train", "validation"):
                count, shards = self.table[f"{split}_tokens"], self.table[f"{split}_shards"]
                files = (
                    f"  in {shards} shard{'s' if shards != 1 else ''}"
                    if shards
                    else "  no document fell on it: no file"
                )
                lines.append(f"  {split:<32}{count:>14,}{files}")
            lines += _repeats(self.table.get("repeats"))
            lines += [
                f"  {name:<32}{counts['train_tokens'] + counts['val_tokens']:>14,}"
                for name, counts in self.table.get("partitions", {}).items()
            ]
            if moved := self.table.get("validation_moved", 0):
                lines.append(
                    f"  {'moved to train':<32}{moved:>14,}  would be validation, and a "
                    "near-duplicate of theirs is kept"
                )
            if "tokens_per_byte" in self.table:
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


def _decoding(counts: dict[str, int], total: int) -> list[str]:
    """Return a line for each thing that was unusual in decoding documents."""
    return [
        f"  {DECODING.get(what, what):<32}{count:>14,}{_share(count, total):>10}"
        for what, count in counts.items()
    ]


def _defaults(counts: dict[str, int]) -> list[str]:
    """Return a line for documents that a step judged by its own parameters, for their languages
    have none; no line where there are none.
    """
    if not counts:
        return []
    shown = ", ".join(f"{label} {count:,}" for label, count in list(counts.items())[:LANGUAGES])
    more = f" and {len(counts) - LANGUAGES:,} more" if len(counts) > LANGUAGES else ""
    line = f"  {'judged by the defaults':<32}{sum(counts.values()):>14,}  of languages without "
    return [f"{line}parameters: {shown}{more}"]


def _repeats(repeats: dict[str, Any] | None) -> list[str]:
    """Return a line for each row of the table of repeats: tokens in training, and of how many."""
    if repeats is None:
        return []
    lines = [f"  repeats by {repeats['by']}"]
    for row in repeats["table"]:
        if row["documents"]:
            start = "otherwise" if row["from"] is None else f"from {row['from']:g}"
            what = f"{start}, {row['times']:g} times"
            lines.append(
                f"    {what:<30}{row['written_tokens']:>14,}  "
                f"of {row['tokens']:,} in {row['documents']:,} documents"
            )
    if repeats["left_out"]:
        lines.append(
            f"    {'left out':<30}{-repeats['left_out_tokens']:>14,}  {repeats['left_out']:,} "
            "copies that would follow another copy of their document"
        )
    return lines


def _share(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.1f} %" if whole else ""
