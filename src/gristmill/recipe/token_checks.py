"""What a recipe's parts ask of its steps: measures that rules over the corpus read, and those that
`[tokens] repeat` and `partition` are made by.
"""

from collections.abc import Sequence

from gristmill.errors import RecipeError, suggest
from gristmill.filters.api.step import Step
from gristmill.tokens.token_settings import COPIES, TokenSettings


def check_reads(steps: Sequence[Step], name: str) -> None:
    """Raise RecipeError where a step reads a measure that no step before it has."""
    before: list[str] = []
    for place, step in enumerate(steps):
        for measure in step.reads:
            if (word := measure.partition(".")[0]) not in before:
                raise RecipeError(
                    f"{name}: step[{place}] ({step.name}) reads {measure!r}, and no step before it "
                    f"is called {word!r}{suggest(word, before)}"
                )
        before += _measures(step)


def _measures(step: Step) -> list[str]:
    """Return its name, if it measures before duplicates are removed."""
    return [] if getattr(step, "after_dedup", False) else [step.name]


def check_tokens(
    tokens: TokenSettings | None,
    steps: Sequence[Step],
    target: str | None,
    name: str,
    *,
    deduplicates: bool,
) -> None:
    """Raise RecipeError where a value is named that nothing measures, or where a source has a
    target. `target` is the first source with one.
    """
    if tokens is None or (tokens.repeat is None and tokens.partition is None):
        return
    if target is not None:
        raise RecipeError(
            f"{name}: source {target!r} has a target, which counts every document once and in one "
            "row of shards: it cannot be combined with tokens.repeat and tokens.partition"
        )
    if tokens.repeat is not None and tokens.repeat.by == COPIES and not deduplicates:
        raise RecipeError(
            f'{name}: tokens.repeat.by = "{COPIES}", and the recipe has no [deduplicate] that '
            "counts them"
        )
    known = {step.name: step for step in steps if _measures(step)}
    for measure in tokens.reads():
        word, _, rest = measure.partition(".")
        if word not in known:
            raise RecipeError(
                f"{name}: tokens: no step before deduplication measures {measure!r}"
                f"{suggest(word, list(known))}"
            )
        if known[word].reads and rest not in ("score", "bucket"):
            raise RecipeError(
                f"{name}: tokens: {measure!r}: {word} gives {word}.score and {word}.bucket"
            )
