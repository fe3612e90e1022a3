"""The normal form of a URL, by which `[deduplicate] url` compares. The URL in the documents does
not change. RFC 3986, 6.2.2 and 6.2.3, except that http and https are the same.

    http, https, in any case       -> https
    host                           -> lower case; labels that are not ASCII in Punycode (RFC 3492);
                                      no dot at its end
    port 80 of http, 443 of https,
    or an empty port               -> removed
    an empty path                  -> /
    %c3 in path and query          -> %C3; a % without two hexadecimal digits is not changed
    tracking parameters            -> removed; the others keep their order
    fragment                       -> removed, unless it begins with `#!`: such pages differ by it

Anything else, and a URL without a host, is compared as it is written.
"""

import re
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.engine.executor import Executor, fresh
from gristmill.store.parts import read_batches

KEYS = pa.schema([pa.field("document", pa.int64()), pa.field("url", pa.string())])
LABEL = 63  # characters of a host's label (RFC 1035)
_PARTS = re.compile(
    r"\s*(https?)://([^/?#\\]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.IGNORECASE | re.DOTALL
)
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_PORTS = {"http": "80", "https": "443"}


def normal_form(url: str, tracking: tuple[str, ...]) -> str:
    """Return the normal form of a URL.

    tracking: names of parameters to remove, in lower case; a name that ends in `*` is a prefix.
    """
    match = _PARTS.fullmatch(url.rstrip())
    if match is None:
        return url
    scheme, authority, path, query, fragment = match.groups()
    user, at, place = authority.rpartition("@")
    host, port = place, ""
    if not place.endswith("]") and ":" in place:
        host, _, port = place.rpartition(":")
    host = _host(host)
    if not host:
        return url
    port = "" if port in ("", _PORTS[scheme.lower()]) else f":{port}"
    if query is not None:
        query = _query(query, tracking)
    tail = f"{path or '/'}?{query}" if query else path or "/"
    if "%" in tail:
        tail = _PERCENT.sub(lambda sign: sign[0].upper(), tail)
    kept = fragment if fragment and fragment.startswith("#!") else ""
    return f"https://{user}{at}{host}{port}{tail}{kept}"


def _host(host: str) -> str:
    host = host.lower().removesuffix(".")
    if host.isascii():
        return host
    # A label longer than any host may have is left as it is: the time of Punycode grows with the
    # square of its length.
    labels = (
        label
        if label.isascii() or len(label) > LABEL
        else f"xn--{label.encode('punycode').decode()}"
        for label in host.split(".")
    )
    return ".".join(labels)


def _query(query: str, tracking: tuple[str, ...]) -> str:
    """Without tracking parameters."""
    whole, starts = _names(tracking)
    kept = []
    for part in query.split("&"):
        name = part.partition("=")[0].lower()
        if name not in whole and not name.startswith(starts):
            kept.append(part)
    return "&".join(kept)


@lru_cache(maxsize=8)
def _names(tracking: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Whole names, and prefixes of names."""
    whole = frozenset(name for name in tracking if not name.endswith("*"))
    return whole, tuple(name[:-1] for name in tracking if name.endswith("*"))


class UrlTask(NamedTuple):
    """A table of documents whose URLs are written in their normal form: a task."""

    documents: Path
    tracking: tuple[str, ...]
    work: Path


def write_keys(task: UrlTask) -> Path:
    """Write the normal forms of a table: a Parquet file of KEYS."""
    target = fresh(task.work, "urls")
    form = partial(normal_form, tracking=task.tracking)
    with pq.ParquetWriter(target, KEYS, compression="zstd") as writer:
        for batch in read_batches(task.documents, ["document", "url"]):
            keys = [None if url is None else form(url) for url in batch["url"].to_pylist()]
            writer.write_table(
                pa.table([batch["document"], pa.array(keys, pa.string())], schema=KEYS)
            )
    return target


def normal_urls(
    documents: list[Path], tracking: tuple[str, ...], work: Path, executor: Executor
) -> dict[Path, Path]:
    """Write the normal forms of tables of documents; returns the file of each table."""
    written = executor(write_keys, [UrlTask(path, tracking, work) for path in documents])
    return dict(zip(documents, written, strict=True))
