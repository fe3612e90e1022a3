"""The recipe's `[[source]]`: where raw shards come from, and what is read of them."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from gristmill.source.source_format import FORMATS
from gristmill.system.own_code import USE

COMMON_CRAWL = "https://data.commoncrawl.org/"


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named origin of raw shards."""

    name: str  # Its name: a folder of the corpus, so use letters, digits, `.`, `_` and `-`.
    urls: list[str] = []  # The shards by URL: https, http, file, s3 (also gs and az) or hf.
    files: list[str] = []  # The shards as paths, folders or globs, relative to the recipe's folder.
    # A crawl, such as `CC-MAIN-2024-22`; `kind` says whether its WET or its WARC files are read.
    commoncrawl: str | None = None
    # A file or URL that lists the shards, one path a line, such as `wet.paths.gz`.
    paths: str | None = None
    base_url: str = COMMON_CRAWL  # What is put before each path of `paths`.
    hub: str | None = None  # A dataset of the Hugging Face hub, as `owner/name`.
    subset: str | None = None  # Which configuration of the dataset of `hub` is read.
    # At most this many shards of a list or crawl. They are the start of one seeded order, so a
    # larger sample contains a smaller one.
    sample: Annotated[int, Meta(ge=1)] | None = None
    # A file or URL with the sha256 of each shard; a shard with another one is refused.
    sha256sums: str | None = None
    # The environment variable with the header for the source's hosts: `GRISTMILL_AUTH_*`,
    # `HF_TOKEN`, or one that `--allow-env` permits.
    authorization: str | None = None
    # The format of its shards. Unset: recognised by their first bytes; a shard that fits no format
    # is refused. One of [these](../format.md#raw-shards), the name of one that an installed package
    # brings, or `package.module:VALUE`, in a run with `--allow-code`.
    kind: str | None = None
    text: str = "text"  # The field that holds the text.
    url: str = "url"  # The field that holds the URL.
    # The field with the id of the document that a rephrased one was made of, for `why`.
    parent: str = "parent"
    # Shards of a source with a higher priority get lower numbers, so that its copy of a duplicate
    # is kept.
    priority: int = 0
    # A note about the licence. It is stored in the manifest and on the dataset's card.
    licence: str | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None  # Read at most this many documents.
    # The source ends with the document that brings it to this many full token shards.
    target_shards: Annotated[int, Meta(ge=1)] | None = None
    # The source ends with the document that brings it to this many tokens.
    target_tokens: Annotated[int, Meta(ge=1)] | None = None
    # A text of nothing but white space is a document; without it, it is dropped as `read.empty`.
    keep_empty: bool = False
    enabled: bool = True  # With false nothing more is read of it; what the corpus has of it stays.
    # A larger document is dropped as `read.too_large`.
    max_document_bytes: Annotated[int, Meta(ge=1, le=1 << 30)] = 16 << 20
    # A document in which more than this share of the characters stands for bytes that are no UTF-8
    # is dropped as `read.not_utf8`. With less, U+FFFD stands in their place.
    max_replaced: Annotated[float, Meta(ge=0, le=1)] = 0.01
    # With false, records that the crawler cut off (`WARC-Truncated`) are dropped as
    # `read.cut_by_crawler`. They have the reason in `extra`, as `warc_truncated`.
    keep_truncated: bool = True
    # The most bytes of a shard, as sent and decoded. A packed shard that grows beyond it is cut off
    # as `read.bomb`.
    max_shard_bytes: Annotated[int, Meta(ge=1)] = 1 << 40


def is_own_format(source: Source) -> bool:
    """Return whether a source's `kind` names code of a user's own."""
    return re.match(USE, source.kind or "") is not None


def format_location(source: Source) -> str | None:
    """Return what a source's format is read from, as a step's input is; None: it is built in."""
    if is_own_format(source):
        return f"code:{str(source.kind).partition(':')[0]}"
    package = FORMATS.package(source.kind or "")
    return None if package is None else f"version:{package}"
