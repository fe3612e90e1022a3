"""What text each token stands for: the one place that knows it, for every family of tokenizers.

    byte-level BPE                 a printable character is a byte (byte_level.py)
    SentencePiece's BPE, Unigram   `▁` is a space; `<0xE2>` is a byte where the model falls back
                                   to bytes
    WordPiece, WordLevel           `##` joins a token to the one before; which white space was
                                   before the others is not known

Special tokens never come from a text: they stand for no bytes. Nor does the token for unknown
pieces, whose text is lost.

Many tokenizers put a space before a text (Llama 2's `Prepend`, Metaspace, `add_prefix_space`).
A text's first token has that space in it, which is not the text's: `leads`. Metaspace and
`add_prefix_space` put none before a text that begins with one, and the tokens are the same, so
that this text counts as one without it.

The bytes are those of the text as the tokenizer's normalizer leaves it: Lowercase, NFKC and Strip
change the text before there are tokens. A literal `▁` (U+2581) looks like a space, nor,
in Unigram with byte fallback, a literal `<0xE2>` from the byte.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gristmill.tokens.byte_level import spelled_bytes
from gristmill.tokens.tokenizer_file import TokenizerFile

METASPACE = "▁"
_BYTE = re.compile("<0x([0-9A-F]{2})>")
# Pre-tokenizers that leave white space out.
_LEAVE_OUT = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit")


class TokenBytes(NamedTuple):
    """What n tokens stand for."""

    shown: list[bytes]  # for people: special tokens as their literals, words with a space before
    text: list[bytes]  # the bytes of text that each stands for inside a text
    leads: np.ndarray  # (n,) bool: as a text's first token, its first byte is no text
    restarts: np.ndarray  # (n,) bool: what follows begins as a text does
    words: bool  # white space is not in tokens; `shown` has a space before each word

    @property
    def sizes(self) -> np.ndarray:
        """Return the bytes of text of each, (n,) int64; of a text's first token `leads` less."""
        return np.array([len(spelling) for spelling in self.text], np.int64)

    @property
    def characters(self) -> np.ndarray:
        """Return characters that begin in each, (n,) int64: a token may have none."""
        begun = [sum(byte & 0xC0 != 0x80 for byte in spelling) for spelling in self.text]
        return np.array(begun, np.int64)

    def resized(self, count: int) -> "TokenBytes":
        """Of `count` tokens: a vocabulary may be stated larger than its tokenizer's."""
        more = count - len(self.text)
        if more <= 0:
            lists = (self.shown[:count], self.text[:count])
            return TokenBytes(*lists, self.leads[:count], self.restarts[:count], self.words)
        lists = ([*self.shown, *[b""] * more], [*self.text, *[b""] * more])
        return TokenBytes(
            *lists, np.pad(self.leads, (0, more)), np.pad(self.restarts, (0, more)), self.words
        )

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of a text's tokens."""
        out, first = [], True
        for token in tokens:
            shown = self.shown[token]
            if first and shown.startswith(b" ") and (self.words or self.leads[token]):
                shown = shown[1:]
            out.append(shown)
            first = bool(self.restarts[token])
        return b"".join(out)


def rank_token_bytes(tokens: list[bytes], special: dict[str, int], vocabulary: int) -> TokenBytes:
    """Of a rank file, whose tokens are bytes."""
    shown = [*tokens, *[b""] * (vocabulary - len(tokens))]
    text = list(shown)
    restarts = np.zeros(vocabulary, np.bool_)
    for literal, number in special.items():
        shown[number], text[number] = literal.encode(), b""
        restarts[number] = True
    return TokenBytes(shown, text, np.zeros(vocabulary, np.bool_), restarts, words=False)


class _Scheme(NamedTuple):
    """How a tokenizer.json spells tokens."""

    byte_level: bool
    space: str | None  # what stands for a space; None: nothing does
    prefix: bool  # a space is put before a text
    everywhere: bool  # and before what follows an added token
    fallback: bool  # `<0xE2>` is a byte
    joins: str  # what begins a token that goes on with a word
    ends: str  # what ends a token that ends a word
    words: bool  # white space is left out of tokens


def _scheme(file: TokenizerFile) -> _Scheme:
    normalizers, splits = file.normalizers, file.splits
    space: str | None = None
    prefix = everywhere = False
    for step in normalizers:
        if step.get("type") == "Replace" and step.get("pattern") == {"String": " "}:
            space = step["content"] if isinstance(step.get("content"), str) else space
        elif step.get("type") == "Prepend":
            prefix = everywhere = step.get("prepend") in (METASPACE, " ")
    byte_level = any(step.get("type") == "ByteLevel" for step in (*normalizers, *splits))
    leaves_out = False
    for step in splits:
        leaves_out |= step.get("type") in _LEAVE_OUT or step.get("behavior") == "Removed"
        if step.get("type") == "Metaspace":
            space = step["replacement"] if isinstance(step.get("replacement"), str) else METASPACE
            put = "always" if step.get("add_prefix_space", True) else "never"
            prefix |= step.get("prepend_scheme", put) != "never"
        elif step.get("type") == "ByteLevel":
            # The library's default is to put one.
            prefix |= step.get("add_prefix_space", True) is not False
    model = file.model
    joins = model.continuing_subword_prefix or ("##" if model.type == "WordPiece" else "")
    return _Scheme(
        byte_level,
        space or None,
        prefix,
        everywhere,
        bool(model.byte_fallback),
        joins,
        model.end_of_word_suffix or "",
        leaves_out and not byte_level and space is None,
    )


def file_token_bytes(file: TokenizerFile, vocabulary: int) -> TokenBytes:
    """Of a tokenizer.json; a number without a token stands for nothing."""
    scheme = _scheme(file)
    shown = [b""] * vocabulary
    text = [b""] * vocabulary
    leads, restarts = np.zeros(vocabulary, np.bool_), np.zeros(vocabulary, np.bool_)
    model = file.model
    pieces: Any = (
        model.vocab.items()
        if isinstance(model.vocab, dict)
        else ((piece, number) for number, (piece, _) in enumerate(model.vocab))
    )
    for piece, number in pieces:
        spelled, begins = _spelled(piece, scheme)
        text[number] = spelled
        shown[number] = b" " + spelled if scheme.words and begins else spelled
    if (unknown := file.unknown) is not None and not scheme.byte_level:
        text[unknown] = b""
    for token in file.added_tokens or []:
        literal = token.content.encode()
        if scheme.space is not None and not token.special:
            literal = token.content.replace(scheme.space, " ").encode()
        shown[token.id], text[token.id] = literal, b"" if token.special else literal
        restarts[token.id] = token.special or (scheme.everywhere and not token.normalized)
    if scheme.prefix:
        leads[:] = [spelling.startswith(b" ") for spelling in text]
    return TokenBytes(shown, text, leads, restarts, scheme.words)


def _spelled(piece: str, scheme: _Scheme) -> tuple[bytes, bool]:
    """Return the bytes of a piece of the model, and whether it begins a word."""
    begins = True
    if scheme.joins and piece.startswith(scheme.joins) and piece != scheme.joins:
        piece, begins = piece[len(scheme.joins) :], False
    if scheme.ends:
        piece = piece.removesuffix(scheme.ends)
    if scheme.byte_level:
        return spelled_bytes(piece), begins
    if scheme.fallback and (byte := _BYTE.fullmatch(piece)):
        return bytes([int(byte[1], 16)]), False
    if scheme.space is not None:
        piece = piece.replace(scheme.space, " ")
    return piece.encode("utf-8", "surrogatepass"), begins
