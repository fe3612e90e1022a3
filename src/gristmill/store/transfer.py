"""Bringing files in: `http://`, `https://` and `file://` URLs into a cache that runs share.

    CACHE/urls/<sha256 of the URL>.json     what the URL gave: sha256, size, ETag
    CACHE/objects/<sha256>                  the bytes

A download is streamed to a temporary name, hashed on the way, checked against the length that the server promised, fsynced,
renamed. Local files are read in place and never copied. (Resuming a download that was cut is not there yet.)
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from gristmill.errors import SourceError
from gristmill.store.parts import machine_errors, sha256_of, sync_folder, write_json

BLOCK = 1 << 20
RETRIES = 4
TIMEOUT = 60.0  # seconds without a byte


class Fetched(NamedTuple):
    """A file that is here, and what it is."""

    path: Path
    size: int
    sha256: str


class _Known(msgspec.Struct, frozen=True):
    url: str
    sha256: str
    size: int
    etag: str | None = None


def default_cache() -> Path:
    """The cache that runs share where none is named."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "shards"


def is_url(name: str) -> bool:
    """Whether a name is a URL that can be fetched."""
    return name.startswith(("http://", "https://", "file://"))


def shown(url: str) -> str:
    """A URL without user, password and query: what may be printed and stored."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SourceError(f"{url!r} is no URL: {error}") from error
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def has_credentials(url: str) -> bool:
    """Whether a URL names a user or password."""
    try:
        return "@" in urlsplit(url).netloc
    except ValueError:
        return False


def fetch(
    url: str,
    cache: Path,
    *,
    sha256: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Fetched:
    """Bring one file in; `sha256` is what it must be; `progress` is told of bytes.

    Raises SourceError, which names the URL, where it cannot be had or is not what it must be.
    """
    if url.startswith("file://"):
        path = Path(unquote(urlsplit(url).path))
        try:
            size, found = sha256_of(path)
        except OSError as error:
            raise SourceError(f"{url}: cannot be read: {error.strerror}") from error
        return _checked(url, Fetched(path, size, found), sha256)
    shown(url)  # refuses what is no URL
    if sha256 is not None and (here := _object(cache, sha256)).exists():
        return Fetched(here, here.stat().st_size, sha256)
    note = f"urls/{hashlib.sha256(url.encode()).hexdigest()}.json"
    known = _known(cache, note)
    got, etag = _download(url, cache, known, progress)
    write_json(cache, note, _Known(shown(url), got.sha256, got.size, etag))
    return _checked(url, got, sha256)


def _checked(url: str, got: Fetched, sha256: str | None) -> Fetched:
    if sha256 is not None and got.sha256 != sha256:
        raise SourceError(
            f"{shown(url)}: changed since it was pinned: expected sha256 {sha256}, got {got.sha256}. "
            "Start a new corpus for the new bytes, or bring the old ones back"
        )
    return got


def _object(cache: Path, sha256: str) -> Path:
    return cache / "objects" / sha256


def _known(cache: Path, note: str) -> _Known | None:
    try:
        known = msgspec.json.decode((cache / note).read_bytes(), type=_Known)
        whole = _object(cache, known.sha256).stat().st_size == known.size
    except (OSError, msgspec.DecodeError):
        return None
    return known if whole else None


def _download(
    url: str, cache: Path, known: _Known | None, progress: Callable[[int], None] | None
) -> tuple[Fetched, str | None]:
    import urllib3

    headers = {"User-Agent": "gristmill/0.1", "Accept-Encoding": "identity"}
    if known is not None and known.etag:
        headers["If-None-Match"] = known.etag
    last: Exception | None = None
    for _ in range(RETRIES):
        try:
            response = _pool().request("GET", url, headers=headers, preload_content=False, timeout=TIMEOUT)
        except urllib3.exceptions.HTTPError as error:
            last = error
            continue
        try:
            if response.status == 304 and known is not None:
                return Fetched(_object(cache, known.sha256), known.size, known.sha256), known.etag
            if response.status != 200:
                response.drain_conn()  # an unread page would stand before the next answer
                last = SourceError(
                    f"{shown(url)}: the server answered {response.status} {response.reason or ''}".rstrip()
                )
                if response.status < 500 and response.status != 429:
                    break
                continue
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise SourceError(f"{shown(url)}: sent with a Content-Encoding that was not asked for")
            return _store(url, response, cache, progress), response.headers.get("ETag")
        except (urllib3.exceptions.HTTPError, _Short) as error:
            last = error
        finally:
            response.release_conn()
    if isinstance(last, SourceError):
        raise last
    raise SourceError(f"{shown(url)}: could not be fetched in {RETRIES} tries: {_cause(last)}") from last


def _cause(error: Exception | None) -> str:
    """What went wrong, without the library's words: they may quote a URL with its secrets."""
    error = getattr(error, "reason", None) or error
    return str(error) if isinstance(error, _Short) else type(error).__name__


class _Short(Exception):
    """The connection ended before the promised length."""


def _store(url: str, response: Any, cache: Path, progress: Callable[[int], None] | None) -> Fetched:
    digest = hashlib.sha256()
    size = 0
    objects = cache / "objects"
    with machine_errors(objects):
        objects.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="fetching-", dir=objects)
        temporary = Path(name)
        try:
            with open(handle, "wb", buffering=0) as file:
                for block in response.stream(BLOCK, decode_content=False):
                    file.write(block)
                    digest.update(block)
                    size += len(block)
                    if progress is not None:
                        progress(len(block))
                promised = response.headers.get("Content-Length")
                if promised is not None and promised.isdecimal() and int(promised) != size:
                    raise _Short(f"{size} bytes came of {promised}")
                os.fsync(file.fileno())
            place = _object(cache, digest.hexdigest())
            temporary.rename(place)
            sync_folder(objects)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return Fetched(place, size, digest.hexdigest())


_pools: list[Any] = []


def _pool() -> Any:
    """One pool a process: connections are reused."""
    if not _pools:
        import urllib3

        _pools.append(urllib3.PoolManager(maxsize=8, retries=urllib3.Retry(total=RETRIES, redirect=10, status=0)))
    return _pools[0]
