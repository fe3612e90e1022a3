"""Grows a tokenizer: each source adds merges of its own, and no token ever changes its number.

    10 special tokens, 256 bytes, then merges: 266 tokens to begin with, 10,000,000 at most

A source's merges are chosen on a sample of its texts that all earlier merges were applied to, in
the order in which they were added. A version is one call; it may take several sources, which
contribute one after another.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.store.parts import write_bytes
from gristmill.tokens.growth_record import (
    BASE_TOKENS,
    MOST_TOKENS,
    NO_DIGEST,
    SPECIAL_TOKENS,
    Contribution,
    GrowthRecord,
    TokenizerVersion,
    read_record,
    required_version,
    seal,
)
from gristmill.tokens.rank_files import END_OF_TEXT
from gristmill.tokens.tokenizer_file import check_size, read_json
from gristmill.training.texts import Amount, TextSource, name_sources, sampled
from gristmill.training.tokenizer_json import BytePairTokenizer, named_pattern, write_tokenizer_json
from gristmill.training.train_tokenizer import (
    check_special,
    merge_pairs,
    output_file,
    refuse_made_special,
)
from gristmill.user_input import local, one_or_more

SAMPLE = 10_000  # documents a source
BYTES = tuple(range(256))  # in the order of their values
DEFAULT_SPECIAL = (
    END_OF_TEXT,
    "<|padding|>",
    "<|beginning_of_text|>",
    "<|unknown|>",
    "<|mask|>",
    *(f"<|reserved_{number}|>" for number in range(5)),
)
CORPORA = ""  # in the place of a source's name: its files are corpora
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class GrownTokenizer(NamedTuple):
    """A version of a tokenizer that grows."""

    tokenizer: BytePairTokenizer
    record: GrowthRecord


@one_or_more("sources", "special")
def grow_tokenizer(
    sources: Mapping[str, Sequence[Path | str]],
    out: Path | str,
    *,
    tokenizer: Path | str | None = None,
    merges: int | None = None,
    total: int | None = None,
    sample: int = SAMPLE,
    least: int = 1,
    pattern: str | None = None,
    special: Sequence[str] | None = None,
    text: str = "text",
    workers: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Make the next version of `tokenizer`, or version 1 if it is None, and write it to `out`.

    `sources` are files by the name of their source, in the order in which they contribute; under
    the name `CORPORA` stand corpora, each of whose sources contributes. `merges` is the number that
    each source adds; `total` is shared out by the bytes of the samples, with the largest remainder
    (of equal ones the earlier source). A sample has at most `sample` documents. `pattern` and the
    10 `special` tokens are chosen for version 1 and stay. A file `out` is replaced only with
    `force`. Raises RecipeError for numbers and names that cannot be, and for a sample with too many
    different pieces; VerificationError if `tokenizer` was changed after it was written.
    """
    target = local(out, "--out")
    _check(merges, total, sample, least)
    if tokenizer is None:
        before, previous = _first(pattern or "gpt2", special or DEFAULT_SPECIAL), []
    else:
        if pattern is not None or special is not None:
            raise RecipeError(
                "--pattern and --special are chosen for the first version and cannot change: leave "
                "them out"
            )
        if target.resolve() == Path(tokenizer).resolve():
            raise RecipeError(
                f"--out {target}: it is the version that grows, and corpora may name it: keep "
                "every version, and name another file"
            )
        before, version = read_grown(Path(tokenizer))
        previous = [*version.previous, version.sha256]
    output_file(target, force=force)
    named = _named(sources, text)
    asked = merges * len(named) if merges is not None else total or 0
    size = before.record.vocab_size
    if size + asked > MOST_TOKENS:
        raise RecipeError(
            f"{asked:,} merges would make {size + asked:,} tokens: the limit is {MOST_TOKENS:,}"
        )
    after = _grow(before, named, merges, total, sample=sample, least=least, workers=workers)
    refuse_made_special(after.tokenizer)
    record = msgspec.structs.replace(after.record, previous=previous)
    data = seal(write_tokenizer_json(after.tokenizer, msgspec.to_builtins(record)))
    part = write_bytes(target.parent, target.name, data)
    return {
        "tokenizer": str(target),
        "sha256": part.sha256,
        "version": record.version,
        "vocab_size": record.vocab_size,
        "next_merge_id": record.next_merge_id,
        "sources_contributed": [
            msgspec.to_builtins(source)
            for source in record.sources_contributed
            if source.version == record.version
        ],
    }


def _check(merges: int | None, total: int | None, sample: int, least: int) -> None:
    if (merges is None) == (total is None):
        raise RecipeError(
            "name the number of merges that each source adds (--merges), or the number that is "
            "shared out (--total)"
        )
    for option, value in (
        ("--merges", merges),
        ("--total", total),
        ("--sample", sample),
        ("--least", least),
    ):
        if value is not None and value < 1:
            raise RecipeError(f"{option} {value}: expected a number of at least 1")


def _first(pattern: str, special: Sequence[str]) -> GrownTokenizer:
    """Return what version 1 grows from."""
    named_pattern(pattern)
    check_special(special)
    if len(special) != SPECIAL_TOKENS:
        raise RecipeError(
            f"--special: a tokenizer that grows has {SPECIAL_TOKENS} special tokens, here are "
            f"{len(special)}: add names for later use"
        )
    record = GrowthRecord(
        version=0,
        vocab_size=BASE_TOKENS,
        next_merge_id=BASE_TOKENS,
        limit=MOST_TOKENS,
        pattern=pattern,
        sources_contributed=[],
        previous=[],
        file_sha256=NO_DIGEST,
    )
    return GrownTokenizer(BytePairTokenizer(pattern, tuple(special), True, BYTES, ()), record)


def read_grown(path: Path) -> tuple[GrownTokenizer, TokenizerVersion]:
    """Read a version of a tokenizer that grows, and check all that it says of itself.

    Raises RecipeError if it is no such file, VerificationError if it was changed.
    """
    try:
        check_size(path)
        data = path.read_bytes()
        read = read_json(data)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(f"{path} is not a tokenizer.json: {error}") from error
    try:
        version = required_version(data)
        record = read_record(data)
    except (RecipeError, VerificationError) as error:
        raise type(error)(f"{path}: {error}") from error
    assert record is not None
    special = tuple(sorted(read.added, key=lambda token: read.added[token]))
    numbers = read.numbers
    merges = []
    for merge in read.model.merges:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        pair = (numbers.get(left, -1), numbers.get(right, -1))
        merges.append((pair[0] - SPECIAL_TOKENS, pair[1] - SPECIAL_TOKENS))
    tokenizer = BytePairTokenizer(record.pattern, special, True, BYTES, tuple(merges))
    # The digest says that the file is as it was written; this, that `grow` wrote it.
    if (
        len(special) != SPECIAL_TOKENS
        or any(max(pair) >= 256 + place or min(pair) < 0 for place, pair in enumerate(merges))
        or record.vocab_size != record.next_merge_id
        or record.vocab_size != BASE_TOKENS + len(merges)
        or sum(source.merges for source in record.sources_contributed) != len(merges)
        or len(record.previous) != record.version - 1
        or seal(_without_seal(tokenizer, record)) != data
    ):
        raise VerificationError(
            f"{path}: its record of growth does not fit its tokens: `gristmill tokenizer grow` did "
            "not write it. Fetch or grow it again"
        )
    return GrownTokenizer(tokenizer, record), version


def _without_seal(tokenizer: BytePairTokenizer, record: GrowthRecord) -> bytes:
    named_pattern(record.pattern)
    plain = msgspec.structs.replace(record, file_sha256=NO_DIGEST)
    return write_tokenizer_json(tokenizer, msgspec.to_builtins(plain))


def sources_of_words(words: Sequence[str]) -> dict[str, list[Path | str]]:
    """Return the sources that a command line names, NAME=FILE or a corpus. Raises RecipeError."""
    sources: dict[str, list[Path | str]] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if Path(word).is_dir():
            sources.setdefault(CORPORA, []).append(word)
        elif equals and path:
            sources.setdefault(name, []).append(path)
        else:
            raise RecipeError(f"{word}: expected NAME=FILE, or the folder of a corpus")
    return sources


def _named(sources: Mapping[str, Sequence[Path | str]], text: str) -> list[TextSource]:
    """Return the sources, in order."""
    origins: list[TextSource] = []
    for name, paths in sources.items():
        if name == CORPORA:
            origins += name_sources(paths, text=text)
            continue
        if not NAME.fullmatch(name):
            raise RecipeError(
                f"source {name!r}: a name has 1 to 100 letters, digits, '_', '.' and '-'"
            )
        for path in map(Path, paths):
            if path.is_dir():
                raise RecipeError(
                    f"{name}={path}: a folder; the sources of a corpus have names already: write "
                    f"{path}"
                )
        origins += [one._replace(name=name) for one in name_sources(paths, text=text)]
    names = [source.name for source in origins]
    if not names:
        raise RecipeError("no source: name one as NAME=FILE, or a corpus")
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"source {name}: named twice, in a corpus and beside it")
    return origins


def lines(result: dict[str, Any]) -> list[str]:
    """Return `grow_tokenizer`'s result as lines of text."""
    head = f"{result['tokenizer']}: version {result['version']}, {result['vocab_size']:,} tokens"
    out = [f"{head}, sha256 {result['sha256']}"]
    for row in result["sources_contributed"]:
        fewer = f" ({row['asked']:,} asked)" if row["merges"] < row["asked"] else ""
        out.append(
            f"  {row['source']}: {row['merges']:,} merges{fewer} from {row['documents']:,} "
            "documents"
        )
    return out


def _grow(
    before: GrownTokenizer,
    sources: list[TextSource],
    merges: int | None,
    total: int | None,
    *,
    sample: int,
    least: int,
    workers: int | None,
) -> GrownTokenizer:
    """Return the next version; its `previous` is not known here."""
    from gristmill.kernels.bpe_training.pairs import choose_merges
    from gristmill.training.count_pieces import check_memory, count_pieces

    pattern = named_pattern(before.record.pattern).kernel
    counted, amounts = [], []
    for source in sources:
        batches, amount_of = sampled(source, sample)
        counted.append(count_pieces(batches, pattern, workers)[0])
        check_memory(counted)
        amounts.append(amount_of())
        if not amounts[-1].documents:
            raise RecipeError(f"source {source.name}: {source.where}: no text to learn from")
    asked = [merges] * len(sources) if merges is not None else shares(total or 0, _sizes(amounts))
    known = list(before.tokenizer.merges)
    version = before.record.version + 1
    contributions = list(before.record.sources_contributed)
    for source, pieces, amount, count in zip(sources, counted, amounts, asked, strict=True):
        given = np.array([left << 32 | right for left, right in known], np.int64)
        order = np.arange(256, dtype=np.int32)
        new = merge_pairs(choose_merges(*pieces, order, count, given=given, least=least))
        contributions.append(
            Contribution(
                version=version,
                source=source.name,
                asked=count,
                merges=len(new),
                first_id=BASE_TOKENS + len(known),
                documents=amount.documents,
                bytes=amount.bytes,
                sample=amount.sha256 or "",
            )
        )
        known += new
    if len(known) == len(before.tokenizer.merges):
        raise RecipeError(
            f"no pair of tokens occurs {least} times in the samples: there is nothing to add"
        )
    record = msgspec.structs.replace(
        before.record,
        version=version,
        vocab_size=BASE_TOKENS + len(known),
        next_merge_id=BASE_TOKENS + len(known),
        sources_contributed=contributions,
        file_sha256=NO_DIGEST,
    )
    return GrownTokenizer(before.tokenizer._replace(merges=tuple(known)), record)


def _sizes(amounts: list[Amount]) -> list[int]:
    return [amount.bytes for amount in amounts]


def shares(total: int, sizes: list[int]) -> list[int]:
    """Return `total` shared out by sizes, with the largest remainder (Hamilton's method); of equal
    remainders the earlier one is served first.
    """
    whole = sum(sizes)
    parts = [total * size // whole for size in sizes]
    order = sorted(range(len(sizes)), key=lambda place: (-(total * sizes[place] % whole), place))
    for place in order[: total - sum(parts)]:
        parts[place] += 1
    return parts
