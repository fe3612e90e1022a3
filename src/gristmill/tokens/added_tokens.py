"""What a tokenizer.json does to a text before its pattern: tokens that are cut out of it as they
stand, and composition (NFC, UAX 15).

HF tokenizers cuts added tokens that are not normalized, composes what lies between, cuts those that
are normalized, and splits each fragment as if it were a text. Special tokens are plain text here:
they are found, and left in the text (`encode_special_tokens`).

A text that our tables know to be composed (kernels/unicode/composition.py) is not touched. The few
others are composed by HF tokenizers itself, whose Unicode version is its own: so the tokens are the
library's, and its version is in the manifest and in the key.
"""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gristmill.tokens.tokenizer_file import AddedToken

if TYPE_CHECKING:
    from gristmill.kernels.pieces.literals import Trie

MOST_BYTES = 256  # of an added token; the limit of kernels.pieces.literals


class Fragments(NamedTuple):
    """n texts cut into m fragments, which follow each other in the data."""

    offsets: np.ndarray  # (m + 1,) int32
    data: np.ndarray  # (bytes,) uint8
    tokens: np.ndarray  # (m,) int32: the added token that a fragment is, or -1
    firsts: np.ndarray  # (n + 1,) int64: the first fragment of each text, and m


class _Literals:
    """The added tokens of one kind."""

    def __init__(self, tokens: dict[str, int]) -> None:
        """`tokens`: the number of each; -1: it stays in the text."""
        self._tokens = np.array([*tokens.values()], np.int32)
        self._lengths = np.array([len(content.encode()) for content in tokens], np.int32)
        self._literals = [content.encode() for content in tokens]

    @cached_property
    def _trie(self) -> "Trie":
        from gristmill.kernels.pieces.literals import build_trie

        return build_trie(self._literals)

    def cut(self, before: Fragments) -> Fragments:
        """Cut these tokens out of all fragments that are no tokens."""
        if not (self._tokens >= 0).any():
            return before
        from gristmill.kernels.pieces.literals import find

        rows, starts, numbers = find(before.offsets, before.data, self._trie)
        tokens = self._tokens[numbers]
        mask = (tokens >= 0) & (before.tokens[rows] < 0)
        rows, starts, tokens = rows[mask], starts[mask], tokens[mask]
        if len(rows) == 0:
            return before
        # Each token makes three fragments of one; those before and behind it may be empty.
        extra = np.zeros(len(before.tokens) + 1, np.int64)
        np.cumsum(2 * np.bincount(rows, minlength=len(before.tokens)), out=extra[1:])
        places = np.arange(len(before.tokens) + 1) + extra
        offsets = np.empty(places[-1] + 1, np.int32)
        numbered = np.full(places[-1], -1, np.int32)
        offsets[places] = before.offsets
        numbered[places[:-1]] = before.tokens
        cuts = rows + 2 * np.arange(len(rows)) + 1
        offsets[cuts] = starts
        offsets[cuts + 1] = starts + self._lengths[numbers[mask]]
        numbered[cuts] = tokens
        return Fragments(offsets, before.data, numbered, places[before.firsts])


class AddedTokens:
    """The added tokens of a tokenizer.json, and its composition."""

    def __init__(self, added: list[AddedToken], end_of_text: int, *, nfc: bool) -> None:
        """The end of text stays plain text, special or not.

        Raises ValueError if the kernel cannot cut as the library does.
        """
        self._normalize = None
        if nfc:
            from tokenizers import normalizers

            self._normalize = normalizers.NFC().normalize_str
        self._raw = _Literals(self._listed(added, end_of_text, normalized=False))
        self._composed = _Literals(self._listed(added, end_of_text, normalized=True))

    def _listed(
        self, added: list[AddedToken], end_of_text: int, *, normalized: bool
    ) -> dict[str, int]:
        listed: dict[str, int] = {}
        for token in added:
            if token.normalized != normalized or not token.content:
                continue
            plain = token.special or token.id == end_of_text
            if not plain and (token.single_word or token.lstrip or token.rstrip):
                raise ValueError(
                    f"its added token {token.content[:50]!r} takes the space around it, or whole "
                    "words only"
                )
            content = token.content
            if normalized and self._normalize is not None:
                content = self._normalize(content)
            if len(content.encode()) > MOST_BYTES or content in listed:
                raise ValueError(
                    f"its added token {token.content[:50]!r} is too long, or occurs twice"
                )
            listed[content] = -1 if plain else token.id
        return listed

    def cut(self, offsets: np.ndarray, data: np.ndarray) -> Fragments:
        """Return the fragments of n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,)
        uint8.
        """
        count = len(offsets) - 1
        whole = Fragments(offsets, data, np.full(count, -1, np.int32), np.arange(count + 1))
        return self._composed.cut(self._compose(self._raw.cut(whole)))

    def _compose(self, before: Fragments) -> Fragments:
        if self._normalize is None:
            return before
        from gristmill.kernels.unicode.composition import unsettled

        rows = (unsettled(before.offsets, before.data) > 0) & (before.tokens < 0)
        if not rows.any():
            return before
        view, bounds = np.ascontiguousarray(before.data).data, before.offsets.tolist()
        parts: list[bytes] = []
        lengths = np.diff(before.offsets)
        at = bounds[0]
        for row in np.flatnonzero(rows).tolist():
            text = self._normalize(str(view[bounds[row] : bounds[row + 1]], "utf-8")).encode()
            parts += [view[at : bounds[row]], text]  # type: ignore[list-item]
            lengths[row] = len(text)
            at = bounds[row + 1]
        parts.append(view[at : bounds[-1]])  # type: ignore[arg-type]
        offsets = np.zeros(len(bounds), np.int32)
        np.cumsum(lengths, out=offsets[1:])
        data = np.frombuffer(b"".join(parts), np.uint8)
        return Fragments(offsets, data, before.tokens, before.firsts)


def joined(
    fragments: Fragments, ends: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of each text from those of its fragments, `ends` (m + 1,) int64 in tokens:
    of a fragment that is an added token that one.
    """
    added = np.flatnonzero(fragments.tokens >= 0)
    if len(added) == 0:
        return ends[fragments.firsts], tokens
    tokens[ends[added]] = fragments.tokens[added]
    # What follows an added token's place is dropped up to the fragment's end.
    steps = np.zeros(len(tokens) + 1, np.int32)
    np.add.at(steps, ends[added] + 1, 1)
    np.add.at(steps, ends[added + 1], -1)
    kept = np.cumsum(steps[:-1]) == 0
    lengths = np.diff(ends)
    lengths[added] = 1
    shorter = np.zeros(len(ends), np.int64)
    np.cumsum(lengths, out=shorter[1:])
    return shorter[fragments.firsts], tokens[kept]
