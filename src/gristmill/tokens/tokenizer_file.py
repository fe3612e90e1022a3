"""Reads tokenizer files so that a hostile file costs little: only the parts that we use become
objects, and sizes are checked first.

    tokenizer.json    the file of HF tokenizers: vocabulary, merges, added tokens; all else is read
                      by the library
    *.tiktoken        on each line base64 of a token's bytes, a space, its rank
    vocab.bpe         GPT-2's merges, one on each line

All functions raise ValueError, with the cause, for a file of more than LARGEST bytes, MOST_COMMAS
commas or MOST_IDS lines, a token number of MOST_IDS or more, two tokens with one number, one token
with two numbers, and nesting that is too deep.
"""

import base64
import binascii
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gristmill.errors import NO_JSON

LARGEST = 128 << 20  # bytes of a file; the largest known one has 33 MB
MOST_COMMAS = 2 << 20  # in a JSON file; they limit its values (Gemma has 1.3 million)
MOST_IDS = 1 << 21  # token numbers are smaller
TEKKEN_HEAD = 1 << 16  # bytes in which a tekken.json has its settings and its first tokens
_SMALL = 1 << 16  # bytes of a pre-tokenizer that the kernel may support


class AddedToken(msgspec.Struct, frozen=True):
    """A token beside those of the model. HF tokenizers requires every field."""

    content: str
    id: int
    special: bool
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool


class TokenizerModel(msgspec.Struct, frozen=True):
    """The parts of a tokenizer.json's model that we use."""

    vocab: dict[str, int] | list[tuple[str, float]]
    type: str | None = None
    merges: list[str | tuple[str, str]] = []
    dropout: float | None = None
    unk_token: str | None = None
    unk_id: int | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool | None = None
    ignore_merges: bool | None = None


class TokenizerFile(msgspec.Struct, frozen=True):
    """The parts of a tokenizer.json that we use."""

    model: TokenizerModel
    added_tokens: list[AddedToken] | None = None
    normalizer: msgspec.Raw = msgspec.Raw(b"null")
    pre_tokenizer: msgspec.Raw = msgspec.Raw(b"null")
    post_processor: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def normalizers(self) -> list[dict[str, Any]]:
        """Return the steps of the normalizer, in order."""
        return list(_steps(msgspec.json.decode(self.normalizer), "normalizers"))

    @property
    def splits(self) -> list[dict[str, Any]]:
        """Return the steps of the pre-tokenizer, in order."""
        return list(_steps(msgspec.json.decode(self.pre_tokenizer), "pretokenizers"))

    @property
    def post_processing(self) -> Any:
        """Return the post-processor; a template may name thousands of tokens."""
        return msgspec.json.decode(self.post_processor)

    @property
    def unknown(self) -> int | None:
        """Return the number of the model's token for unknown pieces."""
        vocabulary, model = self.model.vocab, self.model
        if isinstance(vocabulary, dict):
            return vocabulary.get(model.unk_token) if model.unk_token is not None else None
        return model.unk_id if 0 <= (model.unk_id or 0) < len(vocabulary) else None

    @property
    def vocabulary(self) -> int:
        """Return one more than the largest number of a token."""
        pieces = 0 if isinstance(self.model.vocab, dict) else len(self.model.vocab)
        return max([pieces, *(number + 1 for number in self.numbers.values())])

    @property
    def added(self) -> dict[str, int]:
        """Return the numbers of added tokens."""
        return {token.content: token.id for token in self.added_tokens or []}

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number of every token; without those of a model that is a list of pieces."""
        return {**(self.model.vocab if isinstance(self.model.vocab, dict) else {}), **self.added}

    @property
    def splitting(self) -> dict[str, Any]:
        """Return the pre-tokenizer; empty: there is none that the kernel could support."""
        raw = bytes(self.pre_tokenizer)
        table = msgspec.json.decode(raw) if len(raw) < _SMALL else None
        return table if isinstance(table, dict) else {}

    @property
    def normalization(self) -> str:
        """Return what the normalizer does: "" nothing, "NFC", or "?", which our kernel does not
        know.
        """
        raw = bytes(self.normalizer)
        table = msgspec.json.decode(raw) if len(raw) < _SMALL else "?"
        steps: Any = [table]
        if isinstance(table, dict) and table.get("type") == "Sequence":
            steps = table.get("normalizers")
        if not isinstance(steps, list):
            return "?"
        steps = [step for step in steps if step is not None]
        if any(step != {"type": "NFC"} for step in steps):
            return "?"
        return "NFC" if steps else ""


def _steps(found: Any, inner: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer, those of sequences in their place."""
    if isinstance(found, list):
        for step in found:
            yield from _steps(step, inner)
    elif isinstance(found, dict) and found.get("type") == "Sequence":
        yield from _steps(found.get(inner), inner)
    elif isinstance(found, dict):
        yield found


def check_size(path: Path) -> None:
    """Raise ValueError, before a file is read, if it is too large or not a regular file. A file
    that does not exist is accepted here.
    """
    try:
        status = os.stat(path)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        _bound("bytes", status.st_size if stat.S_ISREG(status.st_mode) else LARGEST + 1, LARGEST)


def _bound(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"it has more than {most:,} {what}")


def read_json(data: bytes) -> TokenizerFile:
    """Read a tokenizer.json. Raises ValueError."""
    _bound("bytes", len(data), LARGEST)
    if b'"token_bytes"' in data[:TEKKEN_HEAD] and b'"default_vocab_size"' in data[:TEKKEN_HEAD]:
        raise ValueError(
            "it is Mistral's tekken.json, which gristmill does not read: use the tokenizer.json of "
            "the same model, or convert it with transformers "
            "(AutoTokenizer.from_pretrained(...).save_pretrained(...))"
        )
    _bound("values", data.count(b","), MOST_COMMAS)
    try:
        table = msgspec.json.decode(data, type=TokenizerFile)
        _ = table.splitting, table.normalizers, table.splits, table.post_processing
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except NO_JSON as error:
        raise ValueError(str(error)) from error
    vocabulary, added = table.model.vocab, table.added_tokens or []
    known = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    for token in added:
        if known.setdefault(token.content, token.id) != token.id:
            raise ValueError(
                f"the token {token.content!r} has two numbers, {known[token.content]:,} and "
                f"{token.id:,}"
            )
    _check_numbers(known)
    _check_plain_tokens(table)
    if any(isinstance(merge, str) and " " not in merge for merge in table.model.merges):
        raise ValueError("a merge does not name two tokens")
    return table


def _check_plain_tokens(table: TokenizerFile) -> None:
    """Raise ValueError where HF tokenizers gives a token of texts another number than the file: it
    numbers added tokens one after another behind the vocabulary, whatever the file says.
    """
    vocabulary = table.model.vocab
    size = len(vocabulary)
    numbers = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    if not isinstance(vocabulary, dict):
        numbers = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    following = size
    for token in table.added_tokens or []:
        if not token.content:
            continue
        given = numbers.setdefault(token.content, following)
        following = max(following, given + 1)
        if given != token.id and not token.special:
            raise ValueError(
                f"added_tokens: {token.content[:50]!r} has the number {token.id:,}, and the "
                f"tokenizers library gives it {given:,}: added tokens that are not special have "
                "the numbers behind the vocabulary, one after another"
            )


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


def read_ranks(data: bytes, holes: frozenset[int] = frozenset()) -> list[bytes]:
    """Read tiktoken's ranks: the tokens by rank; `holes` are ranks that no token has, which give
    b"". Raises ValueError.
    """
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
            raise ValueError(f"line {place}: rank {rank:,} is repeated")
        try:
            ranks[rank] = base64.b64decode(words[0], validate=True)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"line {place} is not base64: {error}") from error
    if ranks and ({*range(max(ranks) + 1)} - ranks.keys()) != holes:
        raise ValueError(f"its ranks are not 0 to {len(ranks) - 1} without a gap")
    if len(set(ranks.values())) < len(ranks):
        raise ValueError("a token has two ranks")
    if b"" in ranks.values():
        raise ValueError("a token has no bytes")
    return [ranks.get(rank, b"") for rank in range(len(ranks) + len(holes))]


def read_merges(data: bytes) -> list[tuple[str, str]]:
    """Read vocab.bpe: the pairs of tokens that merge, in order. Raises ValueError."""
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
