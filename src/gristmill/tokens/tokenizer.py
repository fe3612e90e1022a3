"""Tokenizers: GPT-2's ranks and HF's tokenizer.json, with one interface.

Our kernel encodes if it supports the pattern and every setting of the file; otherwise the library
encodes, one document at a time. Special tokens in crawled text are plain text: a literal
`<|endoftext|>` never becomes the token that ends documents.
"""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.columns import utf8_buffers
from gristmill.errors import RecipeError
from gristmill.store import transfer, urls
from gristmill.tokens import tokenizer_file
from gristmill.tokens.known_tokenizers import advice

END_OF_TEXT = "<|endoftext|>"
ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>")
# The published files with GPT-2's ranks, and their sha256. tiktoken caches them under the sha1 of
# the URL (tiktoken, load.py).
_PUBLIC = "https://openaipublic.blob.core.windows.net"
GPT2_FILES = {
    f"{_PUBLIC}/encodings/r50k_base.tiktoken": (
        "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
    ),
    f"{_PUBLIC}/gpt-2/encodings/main/vocab.bpe": (
        "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    ),
}


class Encoded(NamedTuple):
    """The token numbers of n texts, consecutive."""

    offsets: np.ndarray  # (n + 1,) int64
    tokens: np.ndarray  # (m,) int32


class _TextEncoder(Protocol):
    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Tokenizer:
    """A tokenizer that was read from a file.

    `dtype` is the type of the numbers in its shards: uint16 if every token fits, else uint32.
    """

    def __init__(self, name: str, data: bytes, end_of_text: str | None = None) -> None:
        """Read a tokenizer from the bytes of its file.

        `end_of_text` is the token after each document; None: the tokenizer's own. Raises
        RecipeError if the file is of no known format or has no such token.
        """
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.name = name
        self.data = data
        self._encoder: _TextEncoder
        # Versions of the library, if it encodes: for the manifest and for content keys.
        self.libraries: dict[str, str] = {}
        if data.lstrip()[:1] == b"{":
            self.file_name = "tokenizer.json"
            self._read_json(end_of_text)
        else:
            self.file_name = (
                "tokenizer.tiktoken" if not data.startswith(b"#version") else "vocab.bpe"
            )
            self._read_ranks(end_of_text)
        self.dtype = np.dtype("<u2") if self.vocabulary <= 1 << 16 else np.dtype("<u4")

    def encode(self, texts: pa.Array | list[str]) -> Encoded:
        """Encode texts: a string column without nulls, or a list."""
        column = pa.array(texts, pa.string()) if isinstance(texts, list) else texts
        return Encoded(*self._encoder.encode(*utf8_buffers(column)))

    def decode(self, tokens: Any) -> str:
        """The text of token numbers; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self._bytes_of[int(token)] for token in tokens).decode("utf-8", "replace")

    def spelling(self, token: int) -> bytes:
        """The bytes that a token stands for; none for a number below `vocabulary` without a token.

        A special token stands for its literal.
        """
        return self._bytes_of[token] if token < len(self._bytes_of) else b""

    def _read_ranks(self, end_of_text: str | None) -> None:
        from gristmill.kernels.bpe import encoder, merges

        try:
            tokens = (
                _gpt2_merges(self.data)
                if self.data.startswith(b"#version")
                else tokenizer_file.read_ranks(self.data)
            )
        except ValueError as error:
            raise RecipeError(
                f"tokenizer {self.name!r} is neither a tokenizer.json nor tiktoken's ranks: {error}"
            ) from error
        if tokens[:1] != [b"!"] or len(tokens) != 50256:
            raise RecipeError(
                f"tokenizer {self.name!r}: ranks of {len(tokens):,} tokens, not GPT-2's: a rank "
                "file does not contain the pattern that splits text into pieces. Use the "
                "tokenizer.json of the same tokenizer"
            )
        if end_of_text not in (None, END_OF_TEXT):
            raise RecipeError(
                f"tokens.end_of_text: GPT-2's ranks have {END_OF_TEXT} only, not {end_of_text!r}"
            )
        self._bytes_of = [*tokens, END_OF_TEXT.encode()]
        self.end_of_text = len(tokens)
        self.vocabulary = len(tokens) + 1
        self.kernel = True
        self._encoder = encoder.Encoder(merges.merges_of_ranks(tokens))

    def _read_json(self, end_of_text: str | None) -> None:
        try:
            read = tokenizer_file.read_json(self.data)
        except ValueError as error:
            raise RecipeError(
                f"tokenizer {self.name!r} is not a tokenizer.json: {error}"
            ) from error
        added, numbers = read.added, read.numbers
        ends = [end_of_text] if end_of_text is not None else [end for end in ENDS if end in added]
        if not ends or ends[0] not in numbers:
            raise RecipeError(
                f"tokenizer {self.name!r} has no token {ends[0]!r}: set tokens.end_of_text to one"
                if ends
                else f"tokenizer {self.name!r} has no known end of text: set tokens.end_of_text"
            ) from None
        self.end_of_text = numbers[ends[0]]
        self.vocabulary = max(numbers.values()) + 1
        self._bytes_of = [b""] * self.vocabulary
        for token, number in numbers.items():
            self._bytes_of[number] = (
                token.encode() if token in added else _bytes_of_byte_level(token)
            )
        merges = kernel_merges(read)
        self.kernel = merges is not None
        if merges is None:
            self._encoder = _Library(self.data, self.end_of_text, ends[0])
            self.vocabulary = max(self.vocabulary, self._encoder.vocabulary)
            self.libraries = library_versions()
        else:
            from gristmill.kernels.bpe import encoder
            from gristmill.kernels.bpe.merges import merges_of_list

            plain = [
                b"" if token in added.values() else spelled
                for token, spelled in enumerate(self._bytes_of)
            ]
            whole = bool(read.model.ignore_merges)
            self._encoder = encoder.Encoder(merges_of_list(plain, merges, whole=whole))


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
    """The version of HF tokenizers, and the versions of Unicode in its patterns and its lower case.

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


class _Library:
    """HF tokenizers, for files that the kernel does not support."""

    def __init__(self, data: bytes, end: int, literal: str) -> None:
        import tokenizers

        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the library is not an Exception
            raise RecipeError(f"the tokenizer cannot be loaded: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.vocabulary = self._tokenizer.get_vocab_size(with_added_tokens=True)
        # Some models have the literal in their vocabulary: such a token is replaced by those of its
        # single characters.
        self._end = end
        self._spelled = [
            token for character in literal for token in self._ids(character) if token != end
        ]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _plain(self, text: str) -> list[int]:
        ids = self._ids(text)
        if self._end not in ids:
            return ids
        return [
            part for token in ids for part in (self._spelled if token == self._end else (token,))
        ]

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        view = np.ascontiguousarray(data).data
        bounds = offsets.tolist()
        out = [
            np.array(self._plain(str(view[bounds[i] : bounds[i + 1]], "utf-8")), np.int32)
            for i in range(len(bounds) - 1)
        ]
        ends = np.zeros(len(out) + 1, np.int64)
        np.cumsum([len(ids) for ids in out], out=ends[1:])
        return ends, np.concatenate([*out, np.empty(0, np.int32)])


def kernel_merges(read: tokenizer_file.TokenizerFile) -> list[tuple[int, int, int]] | None:
    """The merges of a tokenizer.json as numbers; None: our kernel cannot encode it exactly."""
    model, added, vocabulary = read.model, read.added, read.model.vocab
    unknown = (
        model.dropout,
        model.unk_token,
        model.continuing_subword_prefix,
        model.end_of_word_suffix,
    )
    if model.type != "BPE" or read.normalises or any(unknown) or not isinstance(vocabulary, dict):
        return None
    if model.byte_fallback or any(not token.special for token in read.added_tokens or []):
        return None
    splitting = read.splitting
    if (
        splitting.get("type") != "ByteLevel"
        or splitting.get("add_prefix_space")
        or not splitting.get("use_regex", True)
    ):
        return None
    if any(character not in vocabulary for character in BYTE_LEVEL):
        return None
    # A token that spells no bytes in the byte-level alphabet is never produced.
    if any(token not in added and not _BYTE_OF.keys() >= set(token) for token in vocabulary):
        return None
    merges = []
    for merge in model.merges:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        if any(part in added for part in (left, right)) or left + right not in vocabulary:
            return None
        merges.append((vocabulary[left], vocabulary[right], vocabulary[left + right]))
    # For a pair listed twice the library uses the later rank; the kernel's tables have a limit.
    if (
        len({merge[:2] for merge in merges}) < len(merges)
        or max(*vocabulary.values(), len(merges)) >= MOST_TOKENS
    ):
        return None
    return merges


def _byte_level() -> list[str]:
    """GPT-2's printable character for each byte (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


MOST_TOKENS = (1 << 20) - 1  # the limit of kernels.bpe.merges
BYTE_LEVEL = _byte_level()
_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_LEVEL)}


def _bytes_of_byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTE_OF[character] for character in token)
    except KeyError:
        return token.encode()


def _gpt2_merges(data: bytes) -> list[bytes]:
    """The tokens of vocab.bpe: the bytes in the order of their printable characters, then the
    merges.
    """
    tokens = [bytes([_BYTE_OF[character]]) for character in sorted(BYTE_LEVEL)]
    for left, right in tokenizer_file.read_merges(data):
        tokens.append(_bytes_of_byte_level(left) + _bytes_of_byte_level(right))
    return tokens


def _check_size(name: str, path: Path) -> None:
    try:
        tokenizer_file.check_size(path)
    except ValueError as error:
        raise RecipeError(f"tokenizer {name!r}: {path}: {error}") from error


def load(
    name: str, folder: Path, cache: Path, end_of_text: str | None = None, resume_only: bool = False
) -> Tokenizer:
    """Load a tokenizer by its name ("gpt2"), its URL, or its path relative to `folder`.

    `resume_only`: do not fetch; use a URL only if its file is in the cache. Raises RecipeError.
    """
    if name == "gpt2":
        return Tokenizer(name, _gpt2(cache, resume_only), end_of_text)
    if urls.is_url(name):
        got = transfer.fetch(name, cache, resume_only=resume_only, most=tokenizer_file.LARGEST)
        return Tokenizer(urls.shown(name), got.path.read_bytes(), end_of_text)
    _check_size(name, folder / name)
    path = folder / name
    try:
        return Tokenizer(name, path.read_bytes(), end_of_text)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise RecipeError(f"tokenizer {name!r}: {advice(name, path)}") from error
    except OSError as error:
        raise RecipeError(f"tokenizer {name!r}: {path}: {error.strerror}") from error


def _gpt2(cache: Path, resume_only: bool) -> bytes:
    """GPT-2's ranks, from tiktoken's cache or by URL; the digest is checked in both cases."""
    folders = [os.environ.get("TIKTOKEN_CACHE_DIR"), os.environ.get("DATA_GYM_CACHE_DIR")]
    folders.append(str(Path(tempfile.gettempdir()) / "data-gym-cache"))
    for url, sha256 in GPT2_FILES.items():
        for folder in folders:
            path = Path(folder or "/nonexistent") / hashlib.sha1(url.encode()).hexdigest()
            if path.is_file() and hashlib.sha256(data := path.read_bytes()).hexdigest() == sha256:
                return data
    url, sha256 = next(iter(GPT2_FILES.items()))
    try:
        return transfer.fetch(url, cache, sha256, resume_only).path.read_bytes()
    except Exception as error:
        raise RecipeError(
            "tokenizer 'gpt2': its ranks are not in TIKTOKEN_CACHE_DIR and could not be fetched "
            f"({error}). Set TIKTOKEN_CACHE_DIR to tiktoken's cache, or name a tokenizer file"
        ) from error
