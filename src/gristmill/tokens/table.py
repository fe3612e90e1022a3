"""Tokenizer files as bytes, read so that a hostile one costs little: only what we use becomes
objects, and what is counted is bounded first.

tokenizer.json      HF tokenizers' file: vocabulary, merges, added tokens; everything else is left
                    to the library
*.tiktoken          base64 of a token's bytes, a space, its rank, a line each
vocab.bpe           GPT-2's merges, a line each

All refuse with a ValueError that says what is wrong: more than LARGEST bytes, MOST_COMMAS commas,
MOST_IDS lines, a number from MOST_IDS on, two tokens of one number, a token of two numbers, nesting
without end.
"""

import base64
import binascii
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

LARGEST = 128 << 20  # bytes of a file; of those that are known the largest has 33 MB
MOST_COMMAS = 2 << 20  # of a JSON file, which bound its values (Gemma, 262,144 tokens: 1.3 million)
MOST_IDS = 1 << 21  # a token's number is below
_SMALL = 1 << 16  # bytes of a pre-tokenizer that the kernel may know


class Added(msgspec.Struct, frozen=True):
    """A token that was added to the model's own."""

    content: str
    id: int
    special: bool = False


class Model(msgspec.Struct, frozen=True):
    """The model of a tokenizer.json, as far as we read it."""

    vocab: dict[str, int] | list[tuple[str, float]]
    type: str | None = None
    merges: list[str | tuple[str, str]] = []
    dropout: float | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool | None = None
    ignore_merges: bool | None = None


class Table(msgspec.Struct, frozen=True):
    """A tokenizer.json, as far as we read it."""

    model: Model
    added_tokens: list[Added] | None = None
    normalizer: msgspec.Raw = msgspec.Raw(b"null")
    pre_tokenizer: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def added(self) -> dict[str, int]:
        """The numbers of added tokens."""
        return {token.content: token.id for token in self.added_tokens or []}

    @property
    def numbers(self) -> dict[str, int]:
        """Every token's number, as far as the file says it: a list of pieces says none."""
        return {**(self.model.vocab if isinstance(self.model.vocab, dict) else {}), **self.added}

    @property
    def cut(self) -> dict[str, Any]:
        """The pre-tokenizer; empty where there is none that the kernel could know."""
        raw = bytes(self.pre_tokenizer)
        found = msgspec.json.decode(raw) if len(raw) < _SMALL else None
        return found if isinstance(found, dict) else {}

    @property
    def normalises(self) -> bool:
        """Whether a normalizer stands in the file."""
        return bytes(self.normalizer).strip() not in (b"", b"null", b"{}")


def check_size(path: Path) -> None:
    """Refuse a file that is too large, or none, before it is read; ValueError. Nothing is said of a
    file that is not there.
    """
    try:
        found = os.stat(path)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode):
        _bound("bytes", found.st_size if stat.S_ISREG(found.st_mode) else LARGEST + 1, LARGEST)


def _bound(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"it has more than {most:,} {what}")


def read_json(data: bytes) -> Table:
    """A tokenizer.json."""
    _bound("bytes", len(data), LARGEST)
    _bound("values", data.count(b","), MOST_COMMAS)
    try:
        table = msgspec.json.decode(data, type=Table)
        _ = table.cut
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    vocabulary, added = table.model.vocab, table.added_tokens or []
    known = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    for token in added:
        if known.setdefault(token.content, token.id) != token.id:
            raise ValueError(
                f"the token {token.content!r} has two numbers, {known[token.content]:,} and "
                f"{token.id:,}"
            )
    _check_numbers(known)
    if any(isinstance(merge, str) and " " not in merge for merge in table.model.merges):
        raise ValueError("a merge does not name two tokens")
    return table


def _check_numbers(numbers: dict[str, int]) -> None:
    owners: dict[int, str] = {}
    for token, number in numbers.items():
        if not 0 <= number < MOST_IDS:
            raise ValueError(
                f"the token {token[:50]!r} has the number {number:,}: expected 0 to "
                f"{MOST_IDS - 1:,}"
            )
        if (other := owners.setdefault(number, token)) is not token:
            raise ValueError(
                f"two tokens have the number {number:,}: {other[:50]!r} and {token[:50]!r}"
            )


def read_ranks(data: bytes) -> list[bytes]:
    """Tiktoken's format: the tokens by rank."""
    _bound("bytes", len(data), LARGEST)
    _bound("lines", data.count(b"\n"), MOST_IDS)
    ranks: dict[int, bytes] = {}
    for place, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        words = line.split(None, 2)
        if len(words) != 2 or not words[1].isdigit() or len(words[1]) > len(str(MOST_IDS)):
            raise ValueError(f"line {place} is not a token in base64 and a rank below {MOST_IDS:,}")
        rank = int(words[1])
        if rank in ranks:
            raise ValueError(f"line {place}: rank {rank:,} stands twice")
        try:
            ranks[rank] = base64.b64decode(words[0], validate=True)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"line {place} is no base64: {error}") from error
    if ranks and max(ranks) != len(ranks) - 1:
        raise ValueError(f"its ranks are not 0 to {len(ranks) - 1} without a gap")
    if len(set(ranks.values())) < len(ranks):
        raise ValueError("a token has two ranks")
    return [ranks[rank] for rank in range(len(ranks))]


def read_merges(data: bytes) -> list[tuple[str, str]]:
    """vocab.bpe: the pairs of tokens that merge, in order."""
    _bound("bytes", len(data), LARGEST)
    _bound("lines", data.count(b"\n"), MOST_IDS)
    pairs = []
    for place, line in enumerate(data.decode().split("\n")[1:], 2):
        if line:
            left, space, right = line.partition(" ")
            if not space or not left or not right or " " in right:
                raise ValueError(f"line {place} does not name two tokens")
            pairs.append((left, right))
    return pairs
