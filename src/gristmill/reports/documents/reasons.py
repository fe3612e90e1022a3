"""What the reason of a verdict says of a document: of a filter by the step itself, of all others by
the tables here. `gristmill why` and docs/reference/verdicts.md show it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Reason(NamedTuple):
    """A reason to drop a document that no filter gives."""

    meaning: str
    remedy: str  # what to do about it; empty: nothing


# A row of a raw shard that is not a readable document.
READ: Mapping[str, Reason] = {
    "not_json": Reason(
        "The line is no JSON object.", "If there are many, the file may be of another `kind`."
    ),
    "too_deep": Reason(
        "The JSON object is nested too deep to be read.",
        "Write its text as a field of a flat object.",
    ),
    "not_utf8": Reason(
        "More than `max_replaced` of the text's characters stand for bytes that are no UTF-8.",
        "Convert the file (iconv), or raise `max_replaced` in `[[source]]`.",
    ),
    "not_csv": Reason(
        "The row has more or fewer columns than the header.", "Check how the file quotes its cells."
    ),
    "no_text": Reason(
        "The field with the text is missing or holds no string; or the page is empty.",
        "Name the field with `text` in `[[source]]`.",
    ),
    "empty": Reason(
        "The text is empty, or has nothing but white space.",
        "`keep_empty = true` in `[[source]]` keeps such texts.",
    ),
    "too_large": Reason(
        "The document has more than `max_document_bytes` bytes.",
        "Raise `max_document_bytes` in `[[source]]`.",
    ),
    "not_text": Reason(
        "The record is a page, and no step extracts text from pages.",
        'Add a `[[step]]` with `use = "extract"` before the others.',
    ),
    "no_record": Reason("The bytes at this place are no record of an archive.", ""),
    "wrong_length": Reason(
        "The record is shorter or longer than its header says.",
        "The archive is damaged: fetch it again, or compare its checksum.",
    ),
    "cut_by_crawler": Reason(
        "The crawler cut the record off, as its field WARC-Truncated says, and `keep_truncated` is "
        "false.",
        "",
    ),
    "inside_record": Reason(
        "The head of a record stands in the text of another record, whose length proves right: it "
        "is a part of that text.",
        "If there are many, lengths in the archive are wrong: compare its checksum.",
    ),
    "truncated": Reason(
        "The shard ends within the document.",
        "The download or the copy was cut off: fetch the shard again.",
    ),
    "corrupt": Reason(
        "This part of the packed shard cannot be decoded.",
        "The shard is damaged: fetch it again, or compare its checksum.",
    ),
    "bomb": Reason(
        "The shard grows beyond `max_shard_bytes` when it is decoded, or has over 100,000 rows "
        "without a text and more than four for each of its bytes. The rest is not read.",
        "If the shard is what you expect, raise `max_shard_bytes` in `[[source]]`.",
    ),
    "window_too_large": Reason(
        "The shard was packed with a zstd window of more than 128 MiB.",
        "Pack it again without `--long`, or with at most `--long=27`.",
    ),
    "unreadable": Reason(
        "The file, one of several in a raw shard, is of no kind that can be read.",
        "Name it alone in `files`: the run then says what is wrong with it.",
    ),
    "not_html": Reason("The page is of another type than HTML.", ""),
    "http_status": Reason("The server answered with another status than 200.", ""),
    "no_http": Reason("The record has no HTTP header, and does not begin as HTML does.", ""),
    "bad_encoding": Reason(
        "The body cannot be decoded as its HTTP header says (gzip, br, chunked).", ""
    ),
    "binary": Reason("The body is no text.", ""),
    "revisit": Reason(
        "The record says that the page was as at an earlier visit, and holds no text.", ""
    ),
}

# A copy of an earlier document that is kept: the verdict's `keeper`.
DEDUPLICATE: Mapping[str, Reason] = {
    "same_url": Reason(
        "An earlier document that is kept has the same URL.", "`url = false` compares no URLs."
    ),
    "exact_duplicate": Reason(
        "An earlier document that is kept has the same text, once it is folded.",
        "`exact = false` compares no whole texts.",
    ),
    "near_duplicate": Reason(
        "An earlier document that is kept is as similar as `threshold`, or more.",
        "`gristmill why CORPUS DOCUMENT` names it; `rejudge --set "
        "deduplicate.near.threshold=0.9` tries another threshold.",
    ),
}

TARGET: Mapping[str, Reason] = {
    "reached": Reason(
        "The document comes after the one with which its source reached its target.",
        "Raise `target_shards` or `target_tokens`.",
    )
}

ROOMS: Mapping[str, Mapping[str, Reason]] = {
    "read": READ,
    "deduplicate": DEDUPLICATE,
    "target": TARGET,
}


def remedy(reason: str) -> str:
    """Return what to do about a reason such as `read.no_text`; empty: nothing is known."""
    step, _, word = reason.partition(".")
    known = ROOMS.get(step, {}).get(word)
    return known.remedy if known is not None else ""


def meaning(reason: str) -> str | None:
    """Return what a reason such as `gopher.short_doc` says, in a sentence. None: it is of a filter
    of your own, or of another version of gristmill.
    """
    step, _, word = reason.partition(".")
    if step in ROOMS:
        known = ROOMS[step].get(word)
        return known.meaning if known is not None else None
    return filter_reason(step, word)


def filter_reason(step: str, word: str) -> str | None:
    """Return what a built-in filter's reason says, as its class has it."""
    from gristmill.filters.api import registry

    kind = registry.find_step(step)
    for variant in registry.variants(kind) if kind is not None else ():
        for known, sentence in variant.reasons.items():
            if matches(known, word):
                return sentence
    return None


def matches(known: str, name: str) -> bool:
    """Return whether a name fits another one, with NAME or N in it."""
    pattern = re.sub("(?<![A-Z])N(?![A-Z])", r"\\d+", known.replace("NAME", r"\w+"))
    return re.fullmatch(pattern, name) is not None
