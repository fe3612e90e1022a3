"""The plan: the numbered list of raw shards.

It only grows; once fetched, a shard is pinned by its sha256.

Within one generation shards are numbered by source priority, then by the order of the sources in
the recipe, then by the source's own order (the list's, or the bytes of the path). Shards that come
later get later numbers.

A source with a target ends in the shard where it is reached: `cut` says at which row, and the
shards after it are set aside. Where the target is raised they are planned again under new numbers,
the first of them from that row on (`start`).

A file that changed since it was pinned is planned again under a new number, and one that the recipe
no longer names is taken out, where the user says so (changed_inputs.py). The old number stays
absent, as `replaced` or `removed`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gristmill.errors import GONE, REASONS, SET_ASIDE, RecipeError, error_reason
from gristmill.phases.inputs.changed_inputs import Changes, Gone, refuse_or_tell
from gristmill.phases.inputs.packs import in_packs, pack_name
from gristmill.phases.inputs.sources import Credentials, Listed, expand, make_credentials
from gristmill.recipe import Recipe, Source
from gristmill.store.http.remotes import Remote, is_pattern
from gristmill.store.http.transfer import Transfer
from gristmill.store.http.urls import is_url
from gristmill.store.manifest import PackedFile, file_at
from gristmill.tables.schema import MOST_SHARDS, first_document

# Why a shard is not read although it is there: its source says enabled = false, or has reached its
# target. Where that changes, it is planned again under a new number.
DISABLED, REACHED = SET_ASIDE
REMOVED, REPLACED = GONE
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
    """One raw shard. `url` is a URL without secrets, or a path from the recipe's folder; it names
    a pack of small files for people (packs.py).
    """

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
    files: tuple[PackedFile, ...] = ()  # of a pack

    def parts(self) -> tuple[PackedFile, ...]:
        """List the files that it is made of: itself, or those of the pack."""
        return self.files or (PackedFile(url=self.url, sha256=self.sha256, size=self.size),)

    def file_at(self, row: int) -> str:
        """Name the file that a row comes from."""
        return file_at(self.files, row) if self.files else self.url

    def urls(self) -> list[str]:
        """Name the files that it is made of."""
        return [file.url for file in self.parts()]


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
        """Return whether to ask for the lists of a source, of which something is `planned`
        already.
        """
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
        """Return how to ask for a shard; None for a local path."""
        listed = self.listed.get((shard.source, shard.url))
        if listed is not None:
            return listed.remote
        return self.credentials[shard.source].remote(shard.url) if is_url(shard.url) else None

    def sha256(self, source: str, url: str) -> str | None:
        """Return what a source says that a file must be."""
        listed = self.listed.get((source, url))
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
    changes: Changes | None = None,
) -> tuple[Plan, Sources]:
    """Add the shards that the recipe names and the plan does not have.

    `lists` says whose lists are asked for (without it, all are); `absent_again` plans shards that
    are absent once more, under new numbers. Of the plan's shards the first `finished` are those of
    a finished corpus, whose entries stay. `changes` says which files changed, and what is done with
    them and with those that the recipe no longer names. Raises RecipeError where it allows neither.
    """
    changes = changes or Changes()
    shards = [_in_a_word(shard) for shard in plan.shards]
    sources = Sources({}, {}, {source.name: source.max_shard_bytes for source in recipe.source})
    listed: dict[str, list[Listed]] = {}
    whole = set()  # the sources of which every shard is listed
    for source in recipe.source:
        sources.credentials[source.name] = make_credentials(source, transfer)
        planned = any(shard.source == source.name for shard in shards)
        ask = _may_be_open(shards, source, recipe.target(source), finished) and (
            lists is None or lists.are_asked(source.name, planned)
        )
        listed[source.name] = expand(source, folder, transfer, recipe.seed, ask=ask)
        for entry in listed[source.name]:
            sources.listed[source.name, entry.url] = entry
        whole |= {source.name} if ask or not _has_lists(source) else set()
    gone = [
        entry
        for entry in _gone(shards, recipe, sources, whole)
        if entry.url not in changes.elsewhere or (folder / entry.url).exists()
    ]
    numbers = {(entry.source, file.url): entry.number for entry in shards for file in entry.parts()}
    there = {name: bool(entries) for name, entries in listed.items()}
    refuse_or_tell(changes, gone, folder, numbers, there)
    leaves = () if changes.is_stored_plan else gone
    out = {(entry.source, entry.url): REMOVED for entry in leaves}
    out |= dict.fromkeys(changes.changed, REPLACED)
    for source in sorted(recipe.source, key=lambda source: -source.priority):
        is_open = _reopen(shards, source, recipe.target(source), finished, out)
        _take_out(shards, source.name, finished, out)
        known = {
            (shard.source, file.url)
            for shard in shards
            if shard.missing in (None, *SET_ASIDE)
            or (not absent_again and shard.missing not in GONE)
            for file in shard.parts()
        }
        new = [entry for entry in listed[source.name] if (source.name, entry.url) not in known]
        for names in in_packs(new, folder) if is_open else ():
            shards.append(_new(len(shards), source.name, names))
    for name in {shard.source for shard in shards} - {source.name for source in recipe.source}:
        _take_out(shards, name, finished, out)
    if len(shards) > MOST_SHARDS:
        raise RecipeError(f"{len(shards):,} raw shards; a corpus numbers at most {MOST_SHARDS:,}")
    for source in recipe.source:
        if source.enabled and not any(shard.source == source.name for shard in shards):
            raise RecipeError(
                f"source {source.name!r} has no shards: its files and lists name nothing that is "
                "there"
            )
    return Plan(shards=shards), sources


def _new(number: int, source: str, names: Sequence[str]) -> PlannedShard:
    files = tuple(PackedFile(url=name) for name in names) if len(names) > 1 else ()
    return PlannedShard(number=number, source=source, url=pack_name(names), files=files)


def _has_lists(source: Source) -> bool:
    """Return whether a source has lists that are far away, perhaps, and that not every run asks
    for.
    """
    return bool(
        source.paths or source.commoncrawl or source.hub or any(map(is_pattern, source.urls))
    )


def _gone(
    shards: Sequence[PlannedShard], recipe: Recipe, sources: Sources, whole: set[str]
) -> list[Gone]:
    """Return the raw shards in the corpus that the recipe no longer names. Of a source with
    `enabled = false` all stays, as the key says.
    """
    stays = {source.name for source in recipe.source if not source.enabled}
    names = {source.name for source in recipe.source}
    gone: dict[tuple[str, str], Gone] = {}
    for shard in shards:
        if shard.missing not in (None, *SET_ASIDE) or shard.source in stays:
            continue
        for file in shard.parts():
            place = (shard.source, file.url)
            is_known = shard.source in whole or shard.source not in names or not is_url(file.url)
            if place not in sources.listed and is_known:
                gone.setdefault(place, Gone(shard.number, *place))
    return list(gone.values())


def _take_out(
    shards: list[PlannedShard], source: str, finished: int, out: Mapping[tuple[str, str], str]
) -> None:
    """Record raw shards of a source as absent that are `out` (by source and name: why), under all
    their numbers. One that changed before any state was finished with it is read under its number.
    A pack of which some files are `out` is replaced: the others are planned again.
    """
    first: dict[str, int] = {}
    for shard in [shard for shard in shards if shard.source == source]:
        reasons = {out.get((source, file.url)) for file in shard.parts()}
        if reasons == {None}:
            continue
        reason = REMOVED if reasons == {REMOVED} else REPLACED
        stays = SET_ASIDE if REMOVED in reasons or shard.files else ()
        if shard.missing not in (None, *stays):
            continue
        number = first.setdefault(shard.url, shard.number)
        if reasons == {REPLACED} and not shard.files and shard.number == number >= finished:
            shards[number] = replace(shard, sha256=None, size=None, cut=None)
        else:
            shards[shard.number] = absent(shard, reason)


def last_planned(shards: Sequence[PlannedShard], source: str) -> list[PlannedShard]:
    """Return the shards of a source, each under its last number."""
    last = {shard.url: shard for shard in shards if shard.source == source}
    return sorted(last.values(), key=lambda shard: shard.number)


def find_cut(shards: Sequence[PlannedShard], source: str) -> PlannedShard | None:
    """Return the shard in which a source reached its target; None: it did not."""
    used = [shard for shard in shards if shard.source == source and shard.missing is None]
    return used[-1] if used and used[-1].cut is not None else None


def with_cut(
    shards: Sequence[PlannedShard], number: int, cut: TargetCut, finished: int
) -> list[PlannedShard]:
    """Return the shards, the source of one of them cut in it: its later ones are set aside. Those
    of the `finished` state that were absent stay so.
    """
    source, made = shards[number].source, list(shards)
    made[number] = replace(shards[number], cut=cut)
    for shard in shards[number + 1 :]:
        if shard.source == source and (shard.missing is None or shard.number >= finished):
            made[shard.number] = absent(shard, REACHED)
    return made


def without_cut(shards: Sequence[PlannedShard], source: str) -> list[PlannedShard]:
    """Return the shards, a source cut nowhere and all its shards to be read that were set aside."""
    made, cut = list(shards), find_cut(shards, source)
    assert cut is not None
    made[cut.number] = replace(cut, cut=None)
    for shard in last_planned(shards, source):
        if shard.missing == REACHED and shard.number > cut.number:
            made[shard.number] = replace(shard, missing=None)
    return made


def first_cut(shard: PlannedShard) -> int | None:
    """Return the first document of a shard that is dropped because its source reached its
    target.
    """
    return None if shard.cut is None else first_document(shard.number) + shard.cut.row


def _may_be_open(
    shards: Sequence[PlannedShard], source: Source, target: int | None, finished: int
) -> bool:
    """Return whether more may be read of a source, so that its lists are asked for."""
    at = find_cut(shards, source.name)
    if at is None or at.cut is None:
        return source.enabled
    if at.number >= finished:
        return source.enabled and at.cut.target != target
    return source.enabled and (target is None or target > at.cut.tokens)


def _reopen(
    shards: list[PlannedShard],
    source: Source,
    target: int | None,
    finished: int,
    out: Mapping[tuple[str, str], str],
) -> bool:
    """Have the plan fit what a source says now; whether more may be read of it.

    What a finished state cut off is planned again under new numbers, so that no document comes
    before one that was kept; a run that did not finish is undone in place. Where raw shards of the
    source are `out`, its target is to be reached again.
    """
    at = find_cut(shards, source.name)
    cut = at.cut if at is not None else None
    fewer = any(name == source.name for name, _ in out)
    if at is not None and cut is not None:
        if at.number >= finished:
            if cut.target != target or fewer:
                shards[:] = without_cut(shards, source.name)
                at = None
        elif source.enabled and (target is None or target > cut.tokens or fewer):
            _refuse_limit(source)
            coming = [replace(at, start=cut.row, cut=None)]
            for shard in last_planned(shards, source.name):
                if shard.missing == REACHED and shard.url != at.url:
                    coming.append(replace(shard, missing=None))
            for shard in coming:
                if all((source.name, file.url) not in out for file in shard.parts()):
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
    """Return a shard recorded as missing, for one of errors.REASONS: its number is never filled."""
    return replace(shard, missing=reason, sha256=None, size=None, cut=None)


def without(plan: Plan, failed: Mapping[int, BaseException]) -> Plan:
    """Return the plan, its shards that failed recorded as missing."""
    return Plan(
        shards=[
            absent(shard, error_reason(failed[shard.number])) if shard.number in failed else shard
            for shard in plan.shards
        ]
    )


def _in_a_word(shard: PlannedShard) -> PlannedShard:
    """Return a shard as this version plans it: earlier ones kept the network's words as the
    reason.
    """
    return shard if shard.missing in (None, *REASONS) else absent(shard, "unreadable")
