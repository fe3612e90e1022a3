"""What a run does with raw shards that are not what the plan pinned, or that the recipe no longer
names.

    changed    a local file has other bytes: refused, or with --replace read again under a new
               number; the old number stays absent, as `replaced`
    gone       a file vanished, or left the lists: refused, or with --remove its documents leave the
               corpus; its number stays absent, as `removed`

Nothing of it happens without the word of the user. A folder that cannot be reached is no takedown:
it is refused whatever was asked (docs/adr/0042-inputs-that-change.md).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gristmill.errors import RecipeError
from gristmill.store.http.urls import is_url, shown
from gristmill.tables.schema import shard_name

SHOWN = 5  # names in a message


class Changes(NamedTuple):
    """What is another than in the plan, and what the command line says to do with it."""

    # Files with other bytes, by source and name in the plan: what is another, in words.
    changed: Mapping[tuple[str, str], str] = {}
    replace: bool = False
    remove: bool = False
    # Whether a finished corpus may lose documents: not with order = "append".
    may_shrink: bool = True
    is_stored_plan: bool = False  # the plan was given with --plan: it says which bytes
    elsewhere: frozenset[str] = frozenset()  # files that lie where a pulled corpus was made
    on_line: Callable[[str], None] = lambda _: None


class Gone(NamedTuple):
    """A raw shard that the recipe no longer names."""

    number: int
    source: str
    url: str


def refuse_or_tell(
    changes: Changes,
    gone: Sequence[Gone],
    folder: Path,
    numbers: Mapping[tuple[str, str], int],
    there: Mapping[str, bool],
) -> None:
    """Raise RecipeError for what changed and is gone, unless the command line allows it; else say
    what is done with each.

    `numbers` are those of all raw shards, by source and name; `there` says of each source of the
    recipe whether anything of it is.
    """
    if not changes.is_stored_plan:
        _refuse_unreachable([entry for entry in gone if entry.source in there], folder, there)
    if changes.is_stored_plan and gone:
        changes.on_line(
            f"{len(gone):,} raw shards are not in the recipe's lists: they are read because the "
            "plan that is given names them"
        )
    if not changes.changed and not gone:
        return
    said = []
    if changes.changed and (changes.is_stored_plan or not changes.replace):
        said.append(_changed(changes, numbers))
    if gone and not changes.remove and not changes.is_stored_plan:
        said.append(_gone(gone, folder))
    if not said and (changes.changed or gone) and not changes.may_shrink:
        first = next(iter(changes.changed), None) or (gone[0].source, gone[0].url)
        raise RecipeError(
            f"source {first[0]!r}: {_name(first[1])} changed or is gone, and with order = "
            '"append" token shards that are written never change. Put its old bytes back; withdraw '
            "its documents with `gristmill release withdraw`; give new text in a file of another "
            "name; or start a new corpus"
        )
    if said:
        raise RecipeError("; ".join(said))
    for place, wrong in changes.changed.items():
        changes.on_line(
            f"replaced: raw shard {shard_name(numbers[place])} ({_name(place[1])}): {wrong}; it is "
            "read again, with all that depends on it"
        )
    for shard in () if changes.is_stored_plan else gone:
        changes.on_line(
            f"removed: raw shard {shard_name(shard.number)} ({_name(shard.url)}): "
            f"{_why(shard, folder)}; its documents leave the corpus"
        )


def _name(url: str) -> str:
    return shown(url) if is_url(url) else url


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _changed(changes: Changes, numbers: Mapping[tuple[str, str], int]) -> str:
    names = [
        f"{_name(url)} (raw shard {numbers[source, url]}: {wrong})"
        for (source, url), wrong in changes.changed.items()
    ]
    head = f"{len(names):,} input files are not what the plan pinned: {_listing(names)}. "
    if changes.is_stored_plan:
        return head + "A plan that is given with --plan says which bytes: bring the old files back"
    return head + (
        "Bring the old files back, or run with --replace, which reads them again with all that "
        "depends on them, or start a new corpus"
    )


def _why(shard: Gone, folder: Path) -> str:
    is_there = is_url(shard.url) or (folder / shard.url).exists()
    return "the recipe no longer names it" if is_there else "the file is not there"


def _gone(gone: Sequence[Gone], folder: Path) -> str:
    names = [
        f"{_name(shard.url)} (raw shard {shard.number}: {_why(shard, folder)})" for shard in gone
    ]
    return (
        f"{len(names):,} raw shards of the corpus are not in the recipe's lists any more: "
        f"{_listing(names)}. Their documents are still in the corpus: run with --remove to take "
        "them out of it; or name the files again, or bring them back; or say enabled = false for "
        "the source, which keeps what the corpus has of it. A file that was renamed is read again "
        "under a new number"
    )


def _refuse_unreachable(gone: Sequence[Gone], folder: Path, there: Mapping[str, bool]) -> None:
    """Raise RecipeError where files are not there because nothing is: a disk that is not mounted
    looks like that.
    """
    checked: set[Path] = set()
    for shard in gone:
        if is_url(shard.url) or (folder / shard.url).exists():
            continue
        place = (folder / shard.url).parent
        if not there[shard.source]:
            raise RecipeError(
                f"source {shard.source!r}: none of its files is there ({_name(shard.url)} and all "
                "others): is a disk not mounted? Bring them back, or say enabled = false for the "
                "source, which keeps what the corpus has of it; to take it out of the corpus, take "
                "the source out of the recipe and run with --remove"
            )
        if place in checked:
            continue
        checked.add(place)
        try:
            is_empty = not os.listdir(place)
        except OSError:
            is_empty = True
        if is_empty:
            raise RecipeError(
                f"source {shard.source!r}: {place} is not there or holds nothing, and the corpus "
                f"has {_name(shard.url)} of it: is a disk not mounted? Bring it back. If the "
                f"folder was emptied on purpose, put a file into it (`mkdir -p {place} && touch "
                f"{place}/.emptied`) and run with --remove"
            )
