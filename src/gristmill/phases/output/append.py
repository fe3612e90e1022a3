"""Append: what a corpus with `order = "append"` promises. A full token shard never changes; only
the last one of a split, which is shorter, may grow.
"""

from collections.abc import Iterable

from gristmill.errors import RecipeError
from gristmill.recipe import Recipe
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part


def only_grows(finished: Manifest | None, recipe: Recipe) -> bool:
    """Return whether a run may only add to the finished tokens."""
    before = (finished.recipe.get("tokens") or {}) if finished is not None else {}
    appends = recipe.tokens is not None and recipe.tokens.order == "append"
    return appends and before.get("order") == "append"


def refuse_changed(finished: Manifest | None, recipe: Recipe, parts: Iterable[Part]) -> None:
    """Raise RecipeError where a full token shard of the finished corpus would change."""
    if finished is None or not only_grows(finished, recipe):
        return
    now = {part.path: part.sha256 for part in parts}
    full = finished.recipe["tokens"]["tokens_per_shard"]
    for part in finished.parts:
        is_full = part.path.startswith("tokens/") and part.counts.get("tokens") == full
        if is_full and now.get(part.path) != part.sha256:
            raise RecipeError(
                f'{part.path} would change, and with order = "append" token shards that are '
                "written never do: another tokenizer, other steps or another tokens_per_shard "
                'need a new corpus (or order = "shuffled")'
            )
