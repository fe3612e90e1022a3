"""HF tokenizers, for files that our kernel does not know.

Texts go to the library in batches of bounded size. Its own threads stay off: a run has a process
for each processor, and the library refuses threads after a fork.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

import msgspec
import numpy as np

from gristmill.errors import NO_JSON, RecipeError
from gristmill.system.try_in_process import TrialError, TrialLimits, try_in_process

BATCH_BYTES = 1 << 20  # of text that goes to the library together, or one longer text

# What a file may take when it is tried: memory for the process and for each byte of the file, which
# becomes tables, and seconds of processor time. The largest known file (33 MB) takes 2 GB and 4 s.
TRIAL = "gristmill.tokens.library_trial:encode_texts"
TRIAL_BYTES, TRIAL_BYTES_A_BYTE, TRIAL_SECONDS = 2 << 30, 128, 60

SMALL = 4 << 20  # bytes of a file that is tried without each of its fields, to name the wrong one

# For each Unicode version a letter that is new in it, and an upper-case letter whose lower-case
# letter is new in it.
LETTERS = {
    "12.0": 0xA7BA,
    "13.0": 0xA7C7,
    "14.0": 0xA7C0,
    "15.0": 0x31350,
    "15.1": 0x2EBF0,
    "16.0": 0xA7CB,
    "17.0": 0xA7CE,
}
CAPITALS = {"12.0": 0xA7BA, "13.0": 0xA7C7, "14.0": 0xA7C0, "16.0": 0xA7CB, "17.0": 0xA7CE}


def library_versions() -> dict[str, str]:
    """Return the version of HF tokenizers, and the versions of Unicode in its patterns and its
    lower case.

    The library does not report the versions of Unicode. They are found by trying a letter that is
    new in each version.
    """
    import tokenizers

    letters = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\p{L}"), "isolated")
    lower = tokenizers.normalizers.Lowercase().normalize_str
    known = [
        name
        for name, point in LETTERS.items()
        if len(letters.pre_tokenize_str(f"!{chr(point)}!")) == 3
    ]
    cased = [name for name, point in CAPITALS.items() if lower(chr(point)) != chr(point)]
    return {
        "tokenizers": tokenizers.__version__,
        "tokenizers.unicode": max(known, key=float, default="before 12.0"),
        "tokenizers.unicode_case": max(cased, key=float, default="before 12.0"),
    }


def try_library(name: str, data: bytes) -> None:
    """Load a tokenizer.json in a process of its own, and encode a few texts. Raises RecipeError if
    the library refuses it, or if it ends the process or takes too much time or memory.
    """
    limits = TrialLimits(TRIAL_BYTES + TRIAL_BYTES_A_BYTE * len(data), TRIAL_SECONDS)
    try:
        try_in_process(TRIAL, data, limits)
    except TrialError as error:
        raise RecipeError(
            f"tokenizer {name!r}: its tokenizer.json cannot be used by the tokenizers library: "
            f"{error}. See {_culprit(data, limits)}"
        ) from error


def _culprit(data: bytes, limits: TrialLimits) -> str:
    """Return the field without which the library takes a file; all of them if it is none alone."""
    fields = ("normalizer", "pre_tokenizer", "added_tokens", "post_processor", "decoder")
    every = f"its {', '.join(fields)} and model"
    if len(data) > SMALL:
        return every
    try:
        table = msgspec.json.decode(data)
        for field in fields:
            less = msgspec.json.encode({**table, field: [] if field == "added_tokens" else None})
            with suppress(TrialError):
                try_in_process(TRIAL, less, limits)
                return f"its {field}"
    except (TypeError, *NO_JSON):
        pass
    return every


class Library:
    """A tokenizer.json that HF tokenizers encodes."""

    def __init__(self, data: bytes, end: int, literal: str) -> None:
        """`end` is the number of the end of text, and `literal` its spelling. The file is loaded
        when the first text is encoded: it may take much memory.
        """
        self._data, self._end, self._literal = data, end, literal
        self._making = Lock()
        self._tokenizer: Any = None
        self._spelled: list[int] = []

    def _loaded(self) -> Any:
        """Return the library's tokenizer. Raises RecipeError if the library cannot load the
        file.
        """
        with self._making:
            if self._tokenizer is None:
                os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
                import tokenizers

                try:
                    made = tokenizers.Tokenizer.from_buffer(self._data)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a panic of the library is not an Exception
                    raise RecipeError(f"the tokenizer cannot be loaded: {error}") from error
                made.no_truncation()
                made.no_padding()
                made.encode_special_tokens = True
                # Some models have the literal in their vocabulary: such a token is replaced by
                # those of its single characters.
                self._spelled = [
                    token
                    for character in self._literal
                    for token in _character(made, character)
                    if token != self._end
                ]
                self._tokenizer = made
            return self._tokenizer

    def _encode(self, texts: list[str]) -> list[np.ndarray]:
        """Return the tokens of each text, int32. Raises RecipeError where the library fails."""
        loaded = self._loaded()
        try:
            encodings = loaded.encode_batch_fast(texts, add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            shown = max(texts, key=len)[:60]
            raise RecipeError(
                f"the tokenizers library cannot encode a text with this tokenizer.json: {error}; "
                f"the longest of {len(texts)} texts begins with {shown!r}. Its pre-tokenizer may "
                "have a pattern that takes exponential time"
            ) from error
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def _plain(self, ids: np.ndarray) -> np.ndarray:
        """Return the tokens of a text without the end of text."""
        if self._end not in ids:
            return ids
        parts = [self._spelled if token == self._end else [token] for token in ids.tolist()]
        return np.array([token for part in parts for token in part], np.int32)

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, as kernels.bpe.encoder does."""
        out = [self._plain(ids) for batch in _batches(offsets, data) for ids in self._encode(batch)]
        ends = np.zeros(len(out) + 1, np.int64)
        np.cumsum([len(ids) for ids in out], out=ends[1:])
        return ends, np.concatenate([*out, np.empty(0, np.int32)])


def _character(made: Any, character: str) -> list[int]:
    """Return the tokens of a character inside a text, where no space is put before it."""
    pieces = [character]
    if made.token_to_id(character) is None:
        pieces = [f"<0x{byte:02X}>" for byte in character.encode()]
    numbers = [made.token_to_id(piece) for piece in pieces]
    if None in numbers:
        return list(made.encode(character, add_special_tokens=False).ids)
    return numbers


def _batches(offsets: np.ndarray, data: np.ndarray) -> Iterator[list[str]]:
    """Yield the texts, as many together as have BATCH_BYTES."""
    view, bounds = np.ascontiguousarray(data).data, offsets.tolist()
    batch: list[str] = []
    size = 0
    for start, stop in itertools.pairwise(bounds):
        if batch and size + stop - start > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(str(view[start:stop], "utf-8"))
        size += stop - start
    if batch:
        yield batch
