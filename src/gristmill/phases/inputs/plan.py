"""The plan: the numbered list of raw shards.

It only grows; once fetched, a shard is pinned by its sha256.

Within one generation shards are numbered by source priority, then by the order of the sources in
the recipe, then by the source's own order (the list's, or the bytes of the path). Shards that come
later get later numbers.

A source with a target ends in the shard where it is reached: `cut` says at which row, and the
shards after it are set aside. Where the target is raised they are planned again under new numbers,
the first of them from that row on (`start`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gristmill.errors import REASONS, SET_ASIDE, RecipeError, reason_of
from gristmill.phases.inputs.sources import Credentials, Listed, credentials_of, expand
from gristmill.recipe import Recipe, Source
from gristmill.schema import MOST_SHARDS, first_document
from gristmill.store.remotes import Remote
from gristmill.store.transfer import Transfer
from gristmill.store.urls import is_url

# Why a shard is not read although it is there: its source says enabled = false, or has reached its
# target. Where that changes, it is planned again under a new number.
DISABLED, REACHED = SET_ASIDE
# A source's keys that say which shards it names.
NAMING = (
    "urls",
    "commoncrawl",
    "paths",
    "base_url",
    "hub",
    "subset",
    "sample",
    "kind",
    "sha256sums",
)


class TargetCut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a source reached its target: its documents from a row on are dropped."""

    row: int  # the first row that is dropped
    tokens: int  # of the source's documents before it
    target: int  # tokens


class PlannedShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One raw shard. `url` is a URL without secrets, or a path from the recipe's folder."""

    number: int
    source: str
    url: str
    sha256: str | None = None  # null: not fetched yet
    size: int | None = None
    # why it is absent, one of errors.REASONS; it stays absent under this number
    missing: str | None = None
    # the first row that is read: those before it are read under an earlier number
    start: int = 0
    cut: TargetCut | None = None  # null: all of it is in its source


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
            or any(before.get(key) != now.get(key) for key in NAMING)
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
    finished: int = 0,
) -> tuple[Plan, Sources]:
    """Add the shards that the recipe names and the plan does not have.

    `lists` says whose lists are asked for (without it, all are); `absent_again` plans shards that
    are absent once more, under new numbers. Of the plan's shards the first `finished` are those of
    a finished corpus, whose entries stay.
    """
    names = [source.name for source in recipe.source]
    for shard in plan.shards:
        if shard.source not in names:
            raise RecipeError(
                f"the corpus holds shards of source {shard.source!r}, which the recipe no "
                "longer names. A plan only grows: "
                "put the source back, or start a new corpus"
            )
    shards = [_in_a_word(shard) for shard in plan.shards]
    known = {
        (shard.source, shard.url)
        for shard in shards
        if shard.missing in (None, *SET_ASIDE) or not absent_again
    }
    sources = Sources({}, {}, {source.name: source.max_shard_bytes for source in recipe.source})
    for source in sorted(recipe.source, key=lambda source: -source.priority):
        sources.credentials[source.name] = credentials_of(source, transfer)
        is_open = _reopen(shards, source, recipe.target(source), finished)
        ask = is_open and (
            lists is None
            or lists.are_asked(
                source.name, any(shard.source == source.name for shard in plan.shards)
            )
        )
        for listed in expand(source, folder, transfer, recipe.seed, ask=ask):
            key = (source.name, listed.url)
            sources.listed[key] = listed
            if key not in known and is_open:
                known.add(key)
                shards.append(PlannedShard(number=len(shards), source=source.name, url=listed.url))
    if len(shards) > MOST_SHARDS:
        raise RecipeError(f"{len(shards):,} raw shards; a corpus numbers at most {MOST_SHARDS:,}")
    for source in recipe.source:
        if source.enabled and not any(shard.source == source.name for shard in shards):
            raise RecipeError(
                f"source {source.name!r} has no shards: its files and lists name nothing that is "
                "there"
            )
    return Plan(shards=shards), sources


def last_planned(shards: Sequence[PlannedShard], source: str) -> list[PlannedShard]:
    """The shards of a source, each under its last number."""
    last = {shard.url: shard for shard in shards if shard.source == source}
    return sorted(last.values(), key=lambda shard: shard.number)


def cut_of(shards: Sequence[PlannedShard], source: str) -> PlannedShard | None:
    """The shard in which a source reached its target; None: it did not."""
    used = [shard for shard in shards if shard.source == source and shard.missing is None]
    return used[-1] if used and used[-1].cut is not None else None


def with_cut(
    shards: Sequence[PlannedShard], number: int, cut: TargetCut, finished: int
) -> list[PlannedShard]:
    """The shards, the source of one of them cut in it: its later ones are set aside. Those of the
    `finished` state that were absent stay so.
    """
    source, made = shards[number].source, list(shards)
    made[number] = replace(shards[number], cut=cut)
    for shard in shards[number + 1 :]:
        if shard.source == source and (shard.missing is None or shard.number >= finished):
            made[shard.number] = absent(shard, REACHED)
    return made


def without_cut(shards: Sequence[PlannedShard], source: str) -> list[PlannedShard]:
    """The shards, a source cut nowhere and all its shards to be read that were set aside."""
    made, cut = list(shards), cut_of(shards, source)
    assert cut is not None
    made[cut.number] = replace(cut, cut=None)
    for shard in last_planned(shards, source):
        if shard.missing == REACHED and shard.number > cut.number:
            made[shard.number] = replace(shard, missing=None)
    return made


def first_cut(shard: PlannedShard) -> int | None:
    """The first document of a shard that is dropped because its source reached its target."""
    return None if shard.cut is None else first_document(shard.number) + shard.cut.row


def _reopen(shards: list[PlannedShard], source: Source, target: int | None, finished: int) -> bool:
    """Have the plan fit what a source says now; whether more may be read of it.

    What a finished state cut off is planned again under new numbers, so that no document comes
    before one that was kept; a run that did not finish is undone in place.
    """
    at = cut_of(shards, source.name)
    cut = at.cut if at is not None else None
    if at is not None and cut is not None:
        if at.number >= finished:
            if cut.target != target:
                shards[:] = without_cut(shards, source.name)
                at = None
        elif source.enabled and (target is None or target > cut.tokens):
            _refuse_limit(source)
            coming = [replace(at, start=cut.row, cut=None)]
            for shard in last_planned(shards, source.name):
                if shard.missing == REACHED and shard.url != at.url:
                    coming.append(replace(shard, missing=None))
            for shard in coming:
                shards.append(replace(shard, number=len(shards)))
            at = None
    for shard in last_planned(shards, source.name):
        waiting = shard.missing is None and shard.sha256 is None
        if waiting and not source.enabled:
            shards[shard.number] = absent(shard, DISABLED)
        elif shard.missing == DISABLED and source.enabled and at is None:
            shards.append(replace(shard, number=len(shards), missing=None))
    return source.enabled and at is None


def _refuse_limit(source: Source) -> None:
    if source.limit is not None:
        raise RecipeError(
            f"source {source.name!r} has a limit of {source.limit:,} documents, and its target was "
            "raised: documents that are read again would count twice. Take one of them away"
        )


def absent(shard: PlannedShard, reason: str) -> PlannedShard:
    """A shard recorded as missing, for one of errors.REASONS: its number is never filled."""
    return replace(shard, missing=reason, sha256=None, size=None, cut=None)


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
