"""What a source names: its URLs, globs, lists and crawls, expanded to raw shards in the source's
own order.

urls          as they are; in an object store and on the hub a glob is listed
files         paths, folders (all files in them) and globs, sorted by the bytes of the path
paths         a list, one path a line (wet.paths.gz), `base_url` before each
commoncrawl   the list of a crawl's WET or WARC files
hub, subset   the files of a dataset of the hub, as its card names them
sample        a prefix of one seeded order of a list: 16 contains 8
sha256sums    what each must be, in sha256sum's format, or a corpus' manifest.json or plan.json
"""

import glob
import hashlib
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from gristmill.errors import NO_JSON, RecipeError, SourceError
from gristmill.phases.inputs import list_lines
from gristmill.recipe import Source
from gristmill.store.codecs import Damage, DecodedPieces
from gristmill.store.http import hub_datasets, remotes, secrets, urls
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.transfer import Transfer

LONGEST_LIST = 1 << 30  # bytes, decoded


class Listed(NamedTuple):
    """One raw shard that a source names."""

    url: str  # as the plan stores it: a URL without secrets, or a path from the recipe's folder
    remote: Remote | None  # null: a local path
    sha256: str | None = None  # what the source says that it must be


class Credentials:
    """A source's Authorization header, for the origins that its recipe names: a list or a plan may
    name any other.
    """

    def __init__(
        self, source: Source, allowed: Collection[str] = (), hosts: Collection[str] = ()
    ) -> None:
        """`allowed` are the variables of --allow-env, `hosts` those of --allow-host.

        Raises RecipeError where the environment holds no such variable, or it may not be sent
        there: store/http/secrets.py.
        """
        named = [*source.urls, source.paths or "", source.sha256sums or ""]
        named += [hub_url(source)] if source.hub else []
        named += [source.base_url] if source.paths or source.commoncrawl else []
        web = [url for url in named if url.startswith(urls.WEB)]
        where = f"source {source.name!r}"
        self._source, self._hosts = source, hosts
        self._header = (
            secrets.header(source.authorization, web, allowed, where)
            if source.authorization
            else None
        )
        self._origins = {urls.origin(url) for url in web} if self._header else set()
        self._hub = any(url.startswith(urls.HUB) for url in named)

    def remote(self, url: str) -> Remote:
        """Return a URL, with the header where it may go.

        Raises RecipeError where user and password would go in the clear.
        """
        if urls.url_user(url) is not None:
            secrets.check(url, "user and password")
        own = (
            self._hub
            if url.startswith(urls.HUB)
            else url.startswith(urls.WEB) and self._header and urls.origin(url) in self._origins
        )
        near = list_lines.may_stay_near(self._source, url, self._hosts)
        return Remote(url, self._header if own else None, public=not near)


def make_credentials(source: Source, transfer: Transfer) -> Credentials:
    """Return a source's credentials, and what the command line allows it. Raises RecipeError."""
    settings = transfer.client.settings
    return Credentials(source, settings.allow_env, settings.allow_hosts)


def expand(
    source: Source, folder: Path, transfer: Transfer, seed: int, *, ask: bool = True
) -> list[Listed]:
    """Return the raw shards of a source, in its own order, each once; `ask` false leaves lists
    alone, which may be far away.
    """
    credentials = make_credentials(source, transfer)
    shards: dict[str, Listed] = {}
    names = list(source.urls)
    for url in names:
        if not urls.is_url(url):
            raise RecipeError(
                f"source {source.name!r}: {url.partition('?')[0].rpartition('@')[2]!r} is no "
                f"URL of ours ({', '.join(urls.SCHEMES)}); local paths go "
                "into `files`"
            )
    if ask:
        asked = [*filter(remotes.is_pattern, names), *([hub_url(source)] if source.hub else [])]
        for url in asked if transfer.resume_only else ():
            raise SourceError(
                f"{urls.shown(url)}: --resume-only: it would have to be listed. Give the "
                "plan (--plan)"
            )
        if source.hub:
            card = credentials.remote(hub_url(source))
            names += hub_datasets.data_urls(source.hub, source.subset, card, transfer.client)
        names = [
            name
            for url in names
            for name in remotes.expand(credentials.remote(url), transfer.client)
        ]
    else:
        names = [url for url in names if not remotes.is_pattern(url)]
    listed = [_remote(source, url, credentials) for url in names]
    for pattern in source.files:
        listed += [Listed(path, None) for path in _files(source, pattern, folder)]
    if ask:
        listed += [
            _remote(source, url, credentials)
            for url in _listed(source, folder, transfer, seed, credentials)
        ]
    for shard in listed:
        same = shards.setdefault(shard.url, shard)
        if (
            same.remote is not None
            and shard.remote is not None
            and same.remote.url != shard.remote.url
        ):
            raise RecipeError(
                f"source {source.name!r}: two URLs of {shard.remote.shown} differ only in "
                "what is never stored (signatures, "
                "tokens, users): a plan could not tell them apart"
            )
    if source.sha256sums is None:
        return list(shards.values())
    digests = _Digests(source, folder, transfer, credentials)
    return [shard._replace(sha256=digests.of(shard.url)) for shard in shards.values()]


def hub_url(source: Source) -> str:
    """Return a URL of the dataset that a source names."""
    return f"{urls.HUB}datasets/{source.hub}/README.md"


def _remote(source: Source, url: str, credentials: Credentials) -> Listed:
    try:
        remote = credentials.remote(url)
        return Listed(remote.stored, remote)
    except SourceError as error:
        raise RecipeError(f"source {source.name!r}: {error}") from error


def _listed(
    source: Source, folder: Path, transfer: Transfer, seed: int, credentials: Credentials
) -> list[str]:
    """Return the URLs of a source's lists, or the sample of them that it asks for."""
    lists = [source.paths] if source.paths else []
    if source.commoncrawl:
        if not re.fullmatch(r"[A-Za-z0-9-]{1,40}", source.commoncrawl):
            raise RecipeError(
                f"source {source.name!r}: {source.commoncrawl!r} is no crawl's name, such as "
                "CC-MAIN-2024-22"
            )
        lists.append(f"{source.base_url}crawl-data/{source.commoncrawl}/{source.kind}.paths.gz")
    named: list[str] = []
    allowed = transfer.client.settings.allow_hosts
    for name in lists:
        remote = credentials.remote(name) if urls.is_url(name) else None
        if remote is not None:
            remote = list_lines.list_remote(source, remote, allowed)
        lines = _lines(name, remote, folder, transfer)
        named += list_lines.named_urls(source, name, remote, lines, allowed)
    if source.sample is None:
        return named
    return sorted(dict.fromkeys(named), key=lambda url: _place(seed, url))[: source.sample]


def _place(seed: int, url: str) -> bytes:
    """Return the place of a URL in the seeded order, which the order of the list and the signer do
    not change.
    """
    return hashlib.sha256(f"{seed}\0{urls.stored(url)}".encode()).digest()


def _files(source: Source, pattern: str, folder: Path) -> list[str]:
    if pattern.startswith("~"):
        pattern = os.path.expanduser(pattern)
    if (folder / pattern).is_dir():
        return sorted(
            (_relative(path, folder) for path in _within(folder / pattern)), key=os.fsencode
        )
    if not glob.has_magic(pattern) or (folder / pattern).is_file():
        if not (folder / pattern).is_file():
            raise RecipeError(
                f"source {source.name!r}: {folder / pattern}: no such file. Bring it back, or take "
                "it out of `files`; what a corpus has of it is taken out with --remove"
            )
        return [_relative(folder / pattern, folder)]
    # The recipe's folder may have a name that is a glob too.
    whole = pattern if os.path.isabs(pattern) else os.path.join(glob.escape(str(folder)), pattern)
    paths = glob.glob(whole, recursive=True)
    files = {_relative(Path(path), folder) for path in paths if os.path.isfile(path)}
    if not files:  # folders alone: what is in them, as of a folder that is named
        inside = (path for base in paths for path in _within(Path(base)))
        files = {_relative(path, folder) for path in inside}
    return sorted(files, key=os.fsencode)


def _within(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and those below it.

    Left out: names that begin with a dot or underscore, corpora and caches of ours, recipes.
    """
    for place, below, names in os.walk(folder):
        if _is_ours(Path(place)):
            below.clear()
            continue
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            path = Path(place, name)
            if not name.startswith((".", "_")) and path.is_file() and not _is_recipe(path):
                yield path


def _is_ours(folder: Path) -> bool:
    """Return whether a folder is a corpus, finished or not, or a cache."""
    corpus = (folder / "manifest.lock").is_file() or (folder / "work/lock").is_file()
    return corpus or all((folder / name).is_dir() for name in ("objects", "urls", "partial"))


def _is_recipe(path: Path) -> bool:
    if path.suffix != ".toml":
        return False
    with open(path, "rb") as file:
        return b"[[source]]" in file.read(1 << 16)


def _relative(path: Path, folder: Path) -> str:
    name = Path(os.path.relpath(path, folder)).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RecipeError(
            f"{os.fsencode(path)!r}: a file name that is not UTF-8 cannot be in a plan: rename it"
        ) from None
    return name


def _read(name: str, remote: Remote | None, folder: Path, transfer: Transfer) -> bytes:
    """Return a list, decoded; `remote` is None for a path."""
    most = Promise(most=LONGEST_LIST, limit="a list may have")
    path = transfer.fetch(remote, most).path if remote is not None else folder / name
    shown = urls.shown(name) if urls.is_url(name) else name
    data = []
    try:
        with open(path, "rb") as file:
            for piece in DecodedPieces(file, LONGEST_LIST):
                if isinstance(piece, Damage):
                    raise SourceError(f"{shown}: the list is {piece.reason} at byte {piece.offset}")
                data.append(piece)
    except OSError as error:
        raise RecipeError(f"{shown}: the list cannot be read: {error.strerror}") from error
    return b"".join(data)


def _lines(name: str, remote: Remote | None, folder: Path, transfer: Transfer) -> list[str]:
    """Return the lines of a list such as Common Crawl's wet.paths.gz."""
    data = _read(name, remote, folder, transfer)
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]


class _Digests:
    """The digests that a source gives for its shards."""

    def __init__(
        self, source: Source, folder: Path, transfer: Transfer, credentials: Credentials
    ) -> None:
        assert source.sha256sums is not None
        sums = source.sha256sums
        self._where = f"source {source.name!r}: {urls.shown(sums) if urls.is_url(sums) else sums}"
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        remote = credentials.remote(sums) if urls.is_url(sums) else None
        data = _read(sums, remote, folder, transfer)
        named = self._table(data) if data.lstrip().startswith(b"{") else self._sums(data)
        for path, digest in named:
            self._by_name.setdefault(path.rpartition("/")[2], []).append((path, digest))

    def _table(self, data: bytes) -> list[tuple[str, str]]:
        try:
            table: Any = msgspec.json.decode(data)
            shards = table["raw_shards"] if "raw_shards" in table else table["shards"]
            return [
                (_path(shard["url"]), shard["sha256"]) for shard in shards if shard.get("sha256")
            ]
        except (KeyError, TypeError, AttributeError, *NO_JSON) as error:
            raise RecipeError(f"{self._where}: neither a manifest nor a plan") from error

    def _sums(self, data: bytes) -> list[tuple[str, str]]:
        named = []
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = re.fullmatch(r"([0-9a-fA-F]{64})[ \t]+\*?(?:\./)?(.+)", line.strip())
            if match is None:
                raise RecipeError(f"{self._where}: line {number} is not `<sha256>  <path>`")
            named.append((match[2], match[1].lower()))
        return named

    def of(self, url: str) -> str:
        """Return the digest whose path is the end of this shard's.

        Raises RecipeError where none is, or several differ.
        """
        path = _path(url)
        ends = [
            digest
            for name, digest in self._by_name.get(path.rpartition("/")[2], [])
            if ("/" + path).endswith("/" + name.lstrip("/"))
        ]
        if len(set(ends)) != 1:
            said = "names no digest for" if not ends else "names several digests for"
            raise RecipeError(f"{self._where}: {said} {url}")
        return ends[0]


def _path(url: str) -> str:
    """Return the path of a URL, decoded; a local path is itself."""
    return unquote(urls.split(url)[2]) if urls.is_url(url) else url
