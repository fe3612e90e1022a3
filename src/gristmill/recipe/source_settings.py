"""The recipe's `[[source]]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

COMMON_CRAWL = "https://data.commoncrawl.org/"
Kind = Literal["wet", "warc", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "html", "text"]

# Keys of a source that are stored only where they are set, and what they are otherwise.
LATER = {"hub": None, "subset": None, "target_shards": None, "target_tokens": None, "enabled": True}


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named origin of raw shards."""

    name: str
    urls: list[str] = []  # https, http, file, s3 and its kin, hf
    files: list[str] = []  # paths, folders and globs, from the recipe's folder
    # a crawl, such as CC-MAIN-2024-22, of which `kind` says wet or warc
    commoncrawl: str | None = None
    paths: str | None = None  # a file or URL that lists one path a line (wet.paths.gz) ...
    base_url: str = COMMON_CRAWL  # ... and what stands before each
    hub: str | None = None  # a dataset of the Hugging Face hub, `owner/name` ...
    subset: str | None = None  # ... and which configuration of it
    # of a list or crawl at most this many shards: a prefix of one seeded order
    sample: Annotated[int, Meta(ge=1)] | None = None
    sha256sums: str | None = None  # a file or URL that says what each shard must be
    # the variable with its hosts' header: GRISTMILL_AUTH_*, HF_TOKEN, or --allow-env
    authorization: str | None = None
    # of its shards, whatever they look like; null: recognised by the bytes, and refused where no
    # kind fits
    kind: Kind | None = None
    text: str = "text"  # the field that holds the text
    url: str = "url"
    priority: int = 0  # a higher one gets lower numbers, so that its copy of a duplicate is kept
    licence: str | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None  # at most this many documents
    # the source ends with the document that brings its tokens to one of these: a number of full
    # token shards, or tokens
    target_shards: Annotated[int, Meta(ge=1)] | None = None
    target_tokens: Annotated[int, Meta(ge=1)] | None = None
    enabled: bool = True  # false: nothing more is read of it
    max_document_bytes: Annotated[int, Meta(ge=1, le=1 << 30)] = 16 << 20
    # decoded, and on the wire; a packed shard that grows beyond is cut off as a bomb
    max_shard_bytes: Annotated[int, Meta(ge=1)] = 1 << 40
