"""The funnel's numbers, from the records of the phases."""

from typing import Any

from gristmill.corpus.corpus import Record
from gristmill.phases.output.assemble import ASSEMBLE, RepeatCounts
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.output.validation import moves_similar
from gristmill.phases.phase import State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.deduplicate import DEDUPLICATE
from gristmill.phases.relations.frequent_lines import FREQUENT_LINES
from gristmill.phases.relations.repeated_substrings import REPEATED_SUBSTRINGS
from gristmill.phases.relations.write_verdicts import TARGET, WRITE_VERDICTS, VerdictCounts
from gristmill.recipe import Recipe, step_name
from gristmill.tokens.partitions import partition_name


def funnel_table(state: State) -> dict[str, Any]:
    """Count the funnel of a run whose phases are done."""
    recipe, verdicts_written = state.recipe, state.of(WRITE_VERDICTS)
    listed, written, assembled = state.one(FREQUENT_LINES), state.of(TOKENIZE), state.of(ASSEMBLE)
    substrings = state.one(REPEATED_SUBSTRINGS)
    total = sum(record.counts.documents for record in verdicts_written.values())
    reasons: dict[str, int] = {}
    for record in verdicts_written.values():
        for reason, count in record.counts.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    names = ["read", *map(step_name, recipe.step)]
    names += [TARGET.partition(".")[0]] if TARGET in reasons else []
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
        counts = {"dropped": sum(own.values()), "left": left, "reasons": own}
        steps.append({"step": name, **counts, **_defaults(name, recipe, verdicts_written)})
    table: dict[str, Any] = {"documents": total, "steps": steps, "kept": left}
    if decoding := _decoding(state):
        table["decoding"] = decoding
    if listed is not None:
        table["lines"] = {"listed": listed.counts.listed}
        for name in ("cut", "characters", "documents", "emptied"):
            table["lines"][name] = sum(
                getattr(record.counts.lines, name) for record in written.values()
            )
    if substrings is not None:
        table["substrings"] = {
            "listed": substrings.counts.listed,
            "listed_bytes": substrings.counts.bytes,
            "listed_documents": substrings.counts.documents,
        }
        for name in ("cut", "characters", "bytes", "documents", "emptied"):
            table["substrings"][name] = sum(
                getattr(record.counts.substrings, name) for record in written.values()
            )
    for name in ("characters", "bytes"):
        table[name] = sum(getattr(record.counts, name) for record in written.values())
    if recipe.tokens is not None:
        table["tokens"] = sum(record.counts.tokens for record in written.values())
        for split, short in (("train", "train"), ("validation", "val")):
            for what in ("tokens", "documents", "shards"):
                table[f"{split}_{what}"] = sum(
                    getattr(record.counts, f"{short}_{what}") for record in assembled.values()
                )
        table |= _repeats_and_partitions(state)
        if moves_similar(recipe):
            table["validation_moved"] = sum(record.counts.moved for record in written.values())
        table["tokens_per_byte"] = (
            round(table["tokens"] / table["bytes"], 6) if table["bytes"] else 0.0
        )
        if recipe.tokens.repeat is not None:
            table["tokens"] = table["train_tokens"] + table["validation_tokens"]
    if (
        sum(reasons.values()) + left != total
        or sum(r.counts.documents for r in written.values()) != left
    ):
        raise AssertionError(f"the funnel does not add up: {table}")
    return table


def _decoding(state: State) -> dict[str, int]:
    """Return documents by what was unusual in decoding them."""
    total: dict[str, int] = {}
    for record in state.of(PROCESS).values():
        for what, count in record.counts.raw.decoding.items():
            total[what] = total.get(what, 0) + count
    return dict(sorted(total.items()))


def _defaults(
    step: str, recipe: Recipe, written: dict[int, Record[VerdictCounts]]
) -> dict[str, dict[str, int]]:
    """Of a step that differs by language, how many documents of each language without parameters it
    judged by its own, the most frequent first; empty of other steps.
    """
    if not any(step_name(table) == step and "by_language" in table for table in recipe.step):
        return {}
    counts: dict[str, int] = {}
    for record in written.values():
        for label, count in record.counts.defaults.get(step, {}).items():
            counts[label] = counts.get(label, 0) + count
    return {"defaults": dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))}


def _repeats_and_partitions(state: State) -> dict[str, Any]:
    """Return how often documents are repeated, and what is in each partition, where the recipe
    asks.
    """
    tokens, assembled = state.recipe.tokens, state.of(ASSEMBLE)
    assert tokens is not None
    figures: dict[str, Any] = {}
    if tokens.repeat is not None:
        starts: list[tuple[float | None, float]] = [*tokens.repeat.steps()]
        rows = []
        for place, (start, times) in enumerate([*starts, (None, tokens.repeat.otherwise)]):
            of_sources = [record.counts.repeats[place] for record in assembled.values()]
            counted = {
                name: sum(getattr(source, name) for source in of_sources)
                for name in RepeatCounts.__struct_fields__
            }
            rows.append({"from": start, "times": times, **counted})
        figures["repeats"] = {"by": tokens.repeat.by, "table": rows}
        for name in ("left_out", "left_out_tokens"):
            figures["repeats"][name] = sum(
                getattr(source.counts, name) for source in assembled.values()
            )
    if tokens.partition is not None:
        figures["partitions"] = {
            partition_name(state.recipe.source[place].name, label): counts
            for place, record in sorted(assembled.items())
            for label, counts in record.counts.partitions.items()
        }
    return figures


def step_rates(state: State) -> dict[str, float]:
    """MB of text a second of one core, by step, from the records' own counters."""
    processed, deduplicated = state.of(PROCESS), state.one(DEDUPLICATE)
    written, assembled = state.of(TOKENIZE), state.of(ASSEMBLE)
    seconds: dict[str, float] = {}
    amounts: dict[str, float] = {}
    for record in processed.values():
        for name, took in record.counts.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + took
            size = record.counts.text_bytes.get(name, record.counts.kept.bytes)
            amounts[name] = amounts.get(name, 0.0) + size
    kept = sum(record.counts.kept.bytes for record in processed.values())
    if deduplicated is not None:
        seconds["deduplicate"], amounts["deduplicate"] = deduplicated.counts.seconds, kept
    if written:
        seconds["tokenize"] = sum(record.counts.seconds for record in written.values())
        amounts["tokenize"] = sum(record.counts.bytes for record in written.values())
    if assembled:
        seconds["assemble"] = sum(record.counts.seconds for record in assembled.values())
        amounts["assemble"] = amounts.get("tokenize", 0.0)
    return {
        name: amounts[name] / 1e6 / took
        for name, took in seconds.items()
        if took > 0 and amounts[name]
    }
