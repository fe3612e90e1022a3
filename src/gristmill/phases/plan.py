"""The plan: the numbered list of raw shards. It only grows; once fetched, a shard is pinned by its sha256.

Within one generation shards are numbered by source priority, then by the order of the sources in the recipe, then by the source's
own order (the list's, or the bytes of the path). Shards that come later get later numbers.
"""

import glob
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from gristmill.errors import RecipeError, SourceError
from gristmill.recipe import Recipe, Source
from gristmill.schema import MOST_SHARDS
from gristmill.source.codecs import Damage, Pieces
from gristmill.store import transfer


class Planned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One raw shard. `url` is a URL, or a path from the recipe's folder."""

    number: int
    source: str
    url: str
    sha256: str | None = None  # null: not fetched yet
    size: int | None = None
    missing: str | None = None  # why it is absent; it stays absent under this number


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All raw shards of a corpus, by number."""

    format: int = 1
    shards: list[Planned] = []


def extend(
    plan: Plan,
    recipe: Recipe,
    folder: Path,
    cache: Path,
    *,
    ask_lists: Callable[[Source], bool],
    absent_again: bool = True,
) -> Plan:
    """Add the shards that the recipe names and the plan does not have.

    `ask_lists` says whether to read a source's list; `absent_again` plans shards that are absent once more, under new numbers.
    """
    names = [source.name for source in recipe.source]
    for shard in plan.shards:
        if shard.source not in names:
            raise RecipeError(
                f"the corpus holds shards of source {shard.source!r}, which the recipe no longer names. A plan only grows: "
                "put the source back, or start a new corpus"
            )
    known = {(shard.source, shard.url) for shard in plan.shards if shard.missing is None or not absent_again}
    shards = list(plan.shards)
    order = sorted(range(len(names)), key=lambda place: -recipe.source[place].priority)
    for place in order:
        source = recipe.source[place]
        for url in expand(source, folder, cache, ask_list=ask_lists(source)):
            if (source.name, url) not in known:
                known.add((source.name, url))
                shards.append(Planned(number=len(shards), source=source.name, url=url))
    if len(shards) > MOST_SHARDS:
        raise RecipeError(f"{len(shards):,} raw shards; a corpus numbers at most {MOST_SHARDS:,}")
    for name in names:
        if not any(shard.source == name for shard in shards):
            raise RecipeError(f"source {name!r} has no shards: its files and lists name nothing that is there")
    return Plan(shards=shards)


def expand(source: Source, folder: Path, cache: Path, *, ask_list: bool = True) -> list[str]:
    """The URLs and paths of a source, in its own order, each once."""
    found: list[str] = list(source.urls)
    for url in source.urls:
        if not transfer.is_url(url):
            raise RecipeError(
                f"source {source.name!r}: {url!r} is no http, https or file URL; local paths go into `files`"
            )
        if transfer.has_credentials(url):
            raise RecipeError(
                f"source {source.name!r}: {transfer.shown(url)} comes with a user or password, which the corpus would store"
            )
    for pattern in source.files:
        found += _files(source, pattern, folder)
    if source.paths is not None and ask_list:
        listed = _list(source.paths, folder, cache)
        found += [line if transfer.is_url(line) else source.base_url + line.lstrip("/") for line in listed][
            : source.shards
        ]
    return list(dict.fromkeys(found))


def _files(source: Source, pattern: str, folder: Path) -> list[str]:
    if pattern.startswith("~"):
        pattern = os.path.expanduser(pattern)
    if not glob.has_magic(pattern) or (folder / pattern).is_file():
        if not (folder / pattern).is_file():
            raise RecipeError(f"source {source.name!r}: {folder / pattern}: no such file")
        return [_relative(folder / pattern, folder)]
    paths = glob.glob(str(folder / pattern) if not os.path.isabs(pattern) else pattern, recursive=True)
    files = [_relative(Path(path), folder) for path in paths if os.path.isfile(path)]
    return sorted(files, key=os.fsencode)


def _relative(path: Path, folder: Path) -> str:
    name = Path(os.path.relpath(path, folder)).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RecipeError(
            f"{os.fsencode(path)!r}: a file name that is not UTF-8 cannot stand in a plan: rename it"
        ) from None
    return name


def _list(name: str, folder: Path, cache: Path) -> list[str]:
    """The lines of a list such as Common Crawl's wet.paths.gz."""
    path = transfer.fetch(name, cache).path if transfer.is_url(name) else folder / name
    data = []
    try:
        with open(path, "rb") as file:
            for piece in Pieces(file):
                if isinstance(piece, Damage):
                    raise SourceError(f"{name}: the list of paths is {piece.reason} at byte {piece.offset}")
                data.append(piece)
    except OSError as error:
        raise RecipeError(f"{name}: the list of paths cannot be read: {error.strerror}") from error
    return [line.strip() for line in b"".join(data).decode("utf-8", "replace").splitlines() if line.strip()]


def bring(shard: Planned, folder: Path, cache: Path, progress: Callable[[int], None] | None = None) -> transfer.Fetched:
    """Have a raw shard here, and know its digest: fetch a URL, hash a local file in place."""
    if transfer.is_url(shard.url):
        return transfer.fetch(shard.url, cache, sha256=shard.sha256, progress=progress)
    return transfer.fetch((folder / shard.url).resolve().as_uri(), cache, sha256=shard.sha256)
