"""Shares of tokens by source, out of a rule.

* `weights`: as given. A name without parts of its own means all parts of a source (`web` means
  `web~science` and `web~sport`), in proportion to their tokens.
* `targets`: tokens of each, as given.
* `proportional`: n_i / sum n.
* `temperature`: n_i^(1/T) / sum, T = 1 is proportional, a large T nears equal shares (mT5, Xue et
  al. 2021, arXiv 2010.11934: 1/T = 0.3).
* `unimax`: equal budgets, filled from the smallest source up, of which none is read more than
  `max_epochs` times (Chung et al. 2023, arXiv 2304.09151).
"""

import math
from collections.abc import Mapping

from gristmill.errors import RecipeError, suggest
from gristmill.recipe.mix_settings import Shares
from gristmill.tokens.partitions import belongs_to


def compute_shares(
    rule: Shares, tokens: Mapping[str, int], budget: int | None = None
) -> dict[str, float]:
    """Return the share of each source, in the order of `tokens`; they sum to 1.

    `tokens` are those that each source has, `budget` those that will be read (default: all). The
    shares depend on no order of the sources but for rounding's last digit. Raises RecipeError for a
    source that is unknown or has no tokens, and where `unimax` cannot reach the budget.
    """
    if not any(tokens.values()):
        raise RecipeError("mix: no source has tokens")
    given = rule.weights if rule.kind == "weights" else rule.targets
    if rule.kind in ("weights", "targets") and given is not None:
        amounts = _of_parts({name: float(value) for name, value in given.items()}, tokens)
    elif rule.kind == "temperature" and rule.temperature is not None:
        most = max(tokens.values())
        power = 1.0 / rule.temperature
        amounts = {
            name: (count / most) ** power if count else 0.0 for name, count in tokens.items()
        }
    elif rule.kind == "unimax" and rule.max_epochs is not None:
        amounts = _unimax(
            tokens, sum(tokens.values()) if budget is None else budget, rule.max_epochs
        )
    else:
        amounts = {name: float(count) for name, count in tokens.items()}
    total = math.fsum(amounts.values())
    if total <= 0:
        raise RecipeError("mix: no source has a share above 0")
    return {name: value / total for name, value in amounts.items()}


def expand_name(name: str, sources: Mapping[str, int]) -> list[str]:
    """Return the sources that a name means: itself, or its parts. Raises RecipeError."""
    if name in sources:
        return [name]
    parts = [source for source in sources if belongs_to(source, name)]
    if not parts:
        raise RecipeError(f"mix: there is no source {name!r}{suggest(name, sources)}")
    return parts


def _of_parts(given: Mapping[str, float], tokens: Mapping[str, int]) -> dict[str, float]:
    """Return what is given for names, for each source; one that is not named has 0."""
    amounts = dict.fromkeys(tokens, 0.0)
    named: dict[str, str] = {}
    for name, value in given.items():
        parts = expand_name(name, tokens)
        held = sum(tokens[part] for part in parts)
        if value and not held:
            raise RecipeError(f"mix: source {name!r} has no tokens: give it 0, or leave it out")
        for part in parts:
            if part in named:
                raise RecipeError(
                    f"mix: {part} is named twice, as {named[part]!r} and as {name!r}: a source "
                    "or its parts, not both"
                )
            named[part] = name
            amounts[part] = value * tokens[part] / held if held else 0.0
    return amounts


def _unimax(tokens: Mapping[str, int], budget: int, most: float) -> dict[str, float]:
    """Return tokens of each source: the budget that is left in equal parts, from the smallest
    source up, each at most `most` times its tokens.
    """
    if (supply := most * sum(tokens.values())) < budget:
        raise RecipeError(
            f"mix: unimax: {budget:,} tokens are asked for, and all sources read {most:g} times "
            f"have {supply:,.0f}: ask for fewer, or raise max_epochs"
        )
    amounts = dict.fromkeys(tokens, 0.0)
    left = float(budget)
    ordered = sorted(
        (name for name in tokens if tokens[name]), key=lambda name: (tokens[name], name)
    )
    for place, name in enumerate(ordered):
        amounts[name] = min(left / (len(ordered) - place), most * tokens[name])
        left -= amounts[name]
    return amounts
