"""The plan: the numbered list of raw shards.

It only grows; once fetched, a shard is pinned by its sha256.

Within one generation shards are numbered by source priority, then by the order of the sources in
the recipe, then by the source's own order (the list's, or the bytes of the path). Shards that come
later get later numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.errors import REASONS, RecipeError, reason_of
from gristmill.phases.inputs.sources import Credentials, Listed, expand
from gristmill.recipe import Recipe
from gristmill.schema import MOST_SHARDS
from gristmill.store.remotes import Remote
from gristmill.store.transfer import Transfer
from gristmill.store.urls import is_url

# A source's keys that say which shards it names.
NAMING = ("urls", "commoncrawl", "paths", "base_url", "sample", "kind", "sha256sums")


class PlannedShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One raw shard. `url` is a URL without secrets, or a path from the recipe's folder."""

    number: int
    source: str
    url: str
    sha256: str | None = None  # null: not fetched yet
    size: int | None = None
    # why it is absent, one of errors.REASONS; it stays absent under this number
    missing: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All raw shards of a corpus, by number."""

    format: int = 1
    shards: list[PlannedShard] = []


class Lists(NamedTuple):
    """Whose lists are asked for: a finished corpus asks again only where the recipe names another
    list, or more of it.
    """

    before: list[dict[str, Any]]  # the sources of the recipe in the manifest
    now: list[dict[str, Any]]
    resume_only: bool = False  # nothing new is fetched: what is planned is enough

    def are_asked(self, source: str, planned: bool) -> bool:
        """Whether to ask for the lists of a source, of which something is `planned` already."""
        if planned and self.resume_only:
            return False
        before = next((table for table in self.before if table["name"] == source), None)
        now = next((table for table in self.now if table["name"] == source), None)
        return (
            not planned
            or before is None
            or now is None
            or any(before.get(key) != now[key] for key in NAMING)
        )


class Sources(NamedTuple):
    """What the recipe's sources name now: shards by (source, URL as stored), and credentials by
    source.
    """

    listed: dict[tuple[str, str], Listed]
    credentials: dict[str, Credentials]
    most: dict[str, int]  # bytes of a raw shard, by source

    def remote(self, shard: PlannedShard) -> Remote | None:
        """How to ask for a shard; None for a local path."""
        listed = self.listed.get((shard.source, shard.url))
        if listed is not None:
            return listed.remote
        return self.credentials[shard.source].remote(shard.url) if is_url(shard.url) else None

    def sha256(self, shard: PlannedShard) -> str | None:
        """What the source says that a shard must be."""
        listed = self.listed.get((shard.source, shard.url))
        return listed.sha256 if listed is not None else None


def extend(
    plan: Plan,
    recipe: Recipe,
    folder: Path,
    transfer: Transfer,
    *,
    lists: Lists | None = None,
    absent_again: bool = True,
) -> tuple[Plan, Sources]:
    """Add the shards that the recipe names and the plan does not have.

    `lists` says whose lists are asked for (without it, all are); `absent_again` plans shards that
    are absent once more, under new numbers.
    """
    names = [source.name for source in recipe.source]
    for shard in plan.shards:
        if shard.source not in names:
            raise RecipeError(
                f"the corpus holds shards of source {shard.source!r}, which the recipe no "
                "longer names. A plan only grows: "
                "put the source back, or start a new corpus"
            )
    known = {
        (shard.source, shard.url)
        for shard in plan.shards
        if shard.missing is None or not absent_again
    }
    shards = [_in_a_word(shard) for shard in plan.shards]
    sources = Sources({}, {}, {source.name: source.max_shard_bytes for source in recipe.source})
    for source in sorted(recipe.source, key=lambda source: -source.priority):
        sources.credentials[source.name] = Credentials(source, transfer.client.settings.allow_env)
        ask = lists is None or lists.are_asked(
            source.name, any(shard.source == source.name for shard in plan.shards)
        )
        for listed in expand(source, folder, transfer, recipe.seed, ask=ask):
            key = (source.name, listed.url)
            sources.listed[key] = listed
            if key not in known:
                known.add(key)
                shards.append(PlannedShard(number=len(shards), source=source.name, url=listed.url))
    if len(shards) > MOST_SHARDS:
        raise RecipeError(f"{len(shards):,} raw shards; a corpus numbers at most {MOST_SHARDS:,}")
    for name in names:
        if not any(shard.source == name for shard in shards):
            raise RecipeError(
                f"source {name!r} has no shards: its files and lists name nothing that is there"
            )
    return Plan(shards=shards), sources


def absent(shard: PlannedShard, reason: str) -> PlannedShard:
    """A shard recorded as missing, for one of errors.REASONS: its number is never filled."""
    return msgspec.structs.replace(shard, missing=reason, sha256=None, size=None)


def without(plan: Plan, failed: Mapping[int, BaseException]) -> Plan:
    """The plan, its shards that failed recorded as missing."""
    return Plan(
        shards=[
            absent(shard, reason_of(failed[shard.number])) if shard.number in failed else shard
            for shard in plan.shards
        ]
    )


def _in_a_word(shard: PlannedShard) -> PlannedShard:
    """A shard as this version plans it: earlier ones kept the network's words as the reason."""
    return shard if shard.missing in (None, *REASONS) else absent(shard, "unreadable")
