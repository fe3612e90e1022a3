"""Where the lines of a source's list may go.

A recipe is a stranger's words: it may read what it names, and send to whom it names, never the one
to the other. A line of a list becomes a request, so a host sees it.

a list that everybody can read     over the web, without credentials, at a public address: its lines
                                   go where the recipe says
any other (`is_private`)           a file, an object in a store, one that credentials open, or one
                                   in this machine's network: its paths go to Common Crawl if they
                                   are paths of Common Crawl's, to the place that the list is from,
                                   and to a host of --allow-host
a whole URL as a line              is asked for as it stands: the list's author chose its host, and
                                   not the recipe's. A list from the web leads to no address of this
                                   machine's network

No message quotes a line of a private list: `paths` may name any file.
"""

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from gristmill.errors import RecipeError
from gristmill.recipe import Source
from gristmill.recipe.source_settings import COMMON_CRAWL
from gristmill.store.http import secrets, urls
from gristmill.store.http.hosts import PUBLIC, nearness
from gristmill.store.http.remotes import Remote, hub_endpoint

# How a path of Common Crawl's begins, and how files that can be raw shards end.
CRAWL = re.compile(r"/?(?:crawl-data|contrib|projects)/[A-Za-z0-9._/=+-]+\.(?:gz|parquet|zst)")
SUFFIX = re.compile(
    r"\.(?:gz|zst|bz2|xz|lz4|zip|warc|wet|wat|arc|jsonl?|ndjson|csv|tsv|parquet|arrow|feather"
    r"|html?|txt|text|md)$",
    re.IGNORECASE,
)
TEXT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/?#\[\]-]+|[^\x00-\x7f\ufffd]+")
LONGEST = 4096  # characters of a line


def request_host(url: str) -> str:
    """Return the host, with its port where it is not the usual one, or the bucket that sees a
    request.
    """
    if url.startswith(urls.HUB):
        return urlsplit(hub_endpoint()).netloc.lower()
    return urls.origin(url)[1]


def may_stay_near(source: Source, url: str, allowed: Collection[str]) -> bool:
    """Return whether a URL of a source may lead into this machine's network: the recipe, the
    command line or a list that lies here names its host.
    """
    if not url.startswith(urls.WEB) or secrets.is_allowed(request_host(url), allowed):
        return True
    lists = [source.paths] if source.paths else []
    lists += [source.base_url] if source.commoncrawl else []
    named = [*source.urls, *lists, source.sha256sums or "", source.base_url if lists else ""]
    if any(urls.origin(url) == urls.origin(name) for name in named if name.startswith(urls.WEB)):
        return True
    return not any(urls.is_url(name) and not _is_here(name) for name in lists)


def list_remote(source: Source, remote: Remote, allowed: Collection[str]) -> Remote:
    """Return how to ask for a list: at a public address only, where its lines go on to another
    place.
    """
    if not remote.url.startswith(urls.WEB) or is_private(remote.url, remote):
        return remote
    return remote._replace(public=not secrets.is_allowed(request_host(source.base_url), allowed))


def is_private(name: str, remote: Remote | None) -> bool:
    """Return whether not everybody can read a list; `remote` is None for a file."""
    if remote is None or not name.startswith(urls.WEB):
        return True
    return remote.authorization is not None or _is_here(name)


def named_urls(
    source: Source, name: str, remote: Remote | None, lines: list[str], allowed: Collection[str]
) -> list[str]:
    """Return the URLs that the lines of a list name, before any is asked for. Raises
    RecipeError.
    """
    if not is_private(name, remote):
        return [_joined(source, line) for line in lines]
    shown = urls.shown(name) if remote is not None else name
    where = f"source {source.name!r}: paths = {shown!r}"
    if not urls.is_url(source.base_url):
        raise RecipeError(f"source {source.name!r}: base_url is no URL")
    free = source.base_url.startswith("file://") or secrets.is_allowed(
        request_host(source.base_url), allowed
    )
    free = free or (remote is not None and _is_same_place(name, source.base_url))
    crawl = source.base_url == COMMON_CRAWL
    for number, line in enumerate(lines, 1):
        if urls.is_url(line):
            if not _is_whole(line):
                raise RecipeError(f"{where}: line {number} is no URL of a file")
        elif not _is_path(line):
            raise RecipeError(
                f"{where}: line {number} is neither a URL nor the path of a raw shard, such as "
                "crawl-data/.../a.warc.wet.gz: is it a list?"
            )
        elif not free and not (crawl and CRAWL.fullmatch(line)):
            raise RecipeError(
                f"{where}: line {number} would be sent to {request_host(source.base_url)}, which "
                "the recipe names, and the list is not public: a recipe may not send what it reads "
                "here. If you know both, say --allow-host "
                f"{request_host(source.base_url)} (in Python: allow_hosts=[...])"
            )
    return [_joined(source, line) for line in lines]


def _joined(source: Source, line: str) -> str:
    return line if urls.is_url(line) else source.base_url + line.lstrip("/")


def _is_path(line: str) -> bool:
    path = line.partition("?")[0]
    parts = TEXT.sub("", line) == "" and len(line) <= LONGEST
    return parts and SUFFIX.search(path) is not None


def _is_whole(line: str) -> bool:
    if len(line) > LONGEST or TEXT.sub("", line):
        return False
    try:
        parts = urlsplit(line)
        return bool(parts.path.strip("/")) and parts.port != 0
    except ValueError:
        return False


def _is_same_place(name: str, base: str) -> bool:
    """Return whether a private list and its shards are on one host, in one bucket or on the hub."""
    both_hub = name.startswith(urls.HUB) and base.startswith(urls.HUB)
    return both_hub or urls.origin(name) == urls.origin(base)


def _is_here(url: str) -> bool:
    """Return whether a URL names a place in this machine's network by its address, so that its name
    can lead nowhere else: a file, localhost, an address that is not public.
    """
    if url.startswith("file://") or urls.is_loopback(url):
        return True
    try:
        return nearness(urlsplit(url).hostname or "") != PUBLIC
    except ValueError:
        return False
