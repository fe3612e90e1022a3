"""The limits by which a corpus' steps drop documents: what each measure is compared with.

They come from the stored recipe; of shares of the corpus, and of scores that it ranks, from
judgement/rules.json. Custom code is never imported here: its limits are not known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gristmill.filters.api.step import Check, Step
from gristmill.filters.language.language import Language
from gristmill.recipe import is_custom, is_post_dedup, make_step
from gristmill.reports.page.tables import CorpusTables

RULES = "judgement/rules.json"


def limits(tables: CorpusTables, columns: Mapping[str, Any]) -> dict[str, list[Check]]:
    """Return the checks of each measure, by its column in measures/: `gopher.words`."""
    by_name: dict[str, list[Check]] = {}
    for step in judging_steps(tables):
        for check in _checks(step):
            name = f"{step.name}.{check.measure}"
            if check.limit is not None and name in columns:
                by_name.setdefault(name, []).append(check)
    for name, check in _of_rules(tables):
        if name in columns:
            by_name.setdefault(name, []).append(check)
    return {name: list(dict.fromkeys(checks)) for name, checks in by_name.items()}


def judging_steps(tables: CorpusTables) -> list[Step]:
    """Return the steps of the stored recipe that judge before deduplication, without custom
    code.
    """
    stored = tables.manifest.recipe.get("step", [])
    steps = [make_step(place, table) for place, table in enumerate(stored) if not is_custom(table)]
    return [step for step in steps if not is_post_dedup(step)]


def _checks(step: Step) -> Sequence[Check]:
    if isinstance(step, Language):  # it decides by the label as well
        limit = step.min_score
        return [] if isinstance(limit, dict) else [Check("low_score", "score", "<", limit)]
    return step.comparisons


def _of_rules(tables: CorpusTables) -> list[tuple[str, Check]]:
    """Return the quantiles that a share of the corpus turned out to be."""
    path = tables.root / RULES
    if all(part.path != RULES for part in tables.manifest.parts):
        return []
    pairs = []
    for rule in msgspec.json.decode(path.read_bytes()):
        if rule.get("quantile") is not None and "measure" in rule:
            lowest = rule["end"] == "lowest"
            name = f"{rule['step']}.{rule['measure']}"
            pairs.append(
                (
                    name,
                    Check(rule["end"], rule["measure"], "<" if lowest else ">", rule["quantile"]),
                )
            )
    return pairs
