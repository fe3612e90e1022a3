"""Tokenizers: tiktoken's ranks and HF's tokenizer.json, with one interface.

Our kernel encodes if it knows the pattern and every setting of the file (docs/tokenizers.md);
otherwise the library encodes, in batches. Special tokens in crawled text are plain text: a literal
`<|endoftext|>` never becomes the token that ends documents.
"""

import hashlib
import itertools
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.columns import utf8_buffers, well_formed
from gristmill.errors import ArgumentError, RecipeError
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.store import transfer, urls
from gristmill.tokens import tokenizer_file
from gristmill.tokens.added_tokens import AddedTokens, joined
from gristmill.tokens.byte_level import KernelRules, bytes_of, gpt2_tokens, kernel_rules
from gristmill.tokens.known_tokenizers import advice
from gristmill.tokens.library import Library, library_versions
from gristmill.tokens.rank_files import (
    END_OF_TEXT,
    R50K_BASE,
    RANK_FILES,
    RankFile,
    known_file,
    read_rank_file,
    tokens_of_published,
)
from gristmill.user_texts import batches_of, table_of

ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>")


class Encoded(NamedTuple):
    """The token numbers of n texts, consecutive."""

    offsets: np.ndarray  # (n + 1,) int64
    tokens: np.ndarray  # (m,) int32


class _TextEncoder(Protocol):
    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Tokenizer:
    """A tokenizer that was read from a file.

    `kernel` says whether our kernel encodes, and `pattern` how it cuts text into pieces (None: the
    library encodes, and `library_reason` says why). `dtype` is the type of the numbers in shards:
    uint16 if every token fits, else uint32.
    """

    def __init__(
        self, name: str, data: bytes | None = None, end_of_text: str | None = None
    ) -> None:
        """Read a tokenizer by its name ("gpt2", "cl100k_base"), its path or URL; or from the bytes
        of its file, which is then only called `name`.

        `end_of_text` is the token after each document; None: the tokenizer's own. Raises
        RecipeError if the file is of no known format or has no such token.
        """
        if data is None:
            name, data = _file_of(name)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.name = name
        self.data = data
        self.pattern: Pattern | None = None
        # None: it is made from the ranks when the first text is encoded. A process that only asks
        # for numbers loads no kernels and fills no tables; of a published file it reads no ranks.
        self._encoder: _TextEncoder | None = None
        # Versions of the library, if it encodes or composes: for the manifest and for content keys.
        self.libraries: dict[str, str] = {}
        self.library_reason: str | None = None
        if data.lstrip()[:1] == b"{":
            self.file_name = "tokenizer.json"
            self._read_json(end_of_text)
        else:
            self.file_name = (
                "tokenizer.tiktoken" if not data.startswith(b"#version") else "vocab.bpe"
            )
            self._read_ranks(end_of_text)
        self.kernel = self.pattern is not None
        self.dtype = np.dtype("<u2") if self.vocabulary <= 1 << 16 else np.dtype("<u4")

    def encode(self, texts: pa.Array | list[str]) -> Encoded:
        """Encode texts: a string column without nulls, or a list.

        Of one string, `encode_text` gives an array; `encode_batch` takes what filters take.
        """
        column = pa.array(texts, pa.string()) if isinstance(texts, list) else texts
        if self._encoder is None:
            self._encoder = self._rank_encoder()
        return Encoded(*self._encoder.encode(*utf8_buffers(column)))

    def encode_text(self, text: str) -> np.ndarray:
        """The token numbers of one text, (m,) int32."""
        if not isinstance(text, str):
            raise ArgumentError(f"text: a {type(text).__name__} was given: expected a string")
        return self.encode([well_formed(text)]).tokens

    def encode_batch(self, texts: Any, *, text: str = "text") -> Encoded:
        """The token numbers of texts, in any form that user_texts.py takes: text i has
        `tokens[offsets[i]:offsets[i + 1]]`. Raises ArgumentError, also for a missing text.
        """
        offsets, tokens = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for part in batches_of(table_of(texts, text)):
            column = part["text"].chunk(0)
            if column.null_count:
                raise ArgumentError("texts: one is missing (None): leave it out, or give ''")
            found = self.encode(column)
            offsets.append(found.offsets[1:] + offsets[-1][-1])
            tokens.append(found.tokens)
        return Encoded(np.concatenate(offsets), np.concatenate(tokens))

    def decode_batch(self, encoded: Encoded) -> list[str]:
        """The texts of what `encode_batch` gave."""
        bounds = itertools.pairwise(encoded.offsets.tolist())
        return [self.decode(encoded.tokens[start:stop]) for start, stop in bounds]

    def _rank_encoder(self) -> "_TextEncoder":
        from gristmill.kernels.bpe import encoder, merges

        assert self.pattern is not None
        return encoder.Encoder(merges.merges_of_ranks(self._ranks), self.pattern)

    def decode(self, tokens: Any) -> str:
        """The text of token numbers; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self._bytes_of[int(token)] for token in tokens).decode("utf-8", "replace")

    def spelling(self, token: int) -> bytes:
        """The bytes of a token; none for a number below `vocabulary` without a token.

        Those of a special token are its literal.
        """
        return self._bytes_of[token] if token < len(self._bytes_of) else b""

    @cached_property
    def _ranks(self) -> list[bytes]:
        """The tokens by rank, of a rank file."""
        file = known_file(self.sha256)
        if self.file_name == "vocab.bpe":
            return gpt2_tokens(self.data)
        if file is not None:
            return tokens_of_published(file, self.data)
        return tokenizer_file.read_ranks(self.data, R50K_BASE.holes)

    @cached_property
    def _bytes_of(self) -> list[bytes]:
        """The bytes of every token; special ones have those of their literals."""
        special = (known_file(self.sha256) or R50K_BASE).special
        found = [*self._ranks, *[b""] * (self.vocabulary - len(self._ranks))]
        for literal, number in special.items():
            found[number] = literal.encode()
        return found

    def _check_ranks(self, file: RankFile) -> None:
        """Read the ranks of a file that is not a published one. Raises RecipeError."""
        try:
            tokens = self._ranks
        except ValueError as error:
            raise RecipeError(
                f"tokenizer {self.name!r} is neither a tokenizer.json nor tiktoken's ranks: {error}"
            ) from error
        if tokens[:1] != [b"!"] or len(tokens) - len(file.holes) != file.ranks:
            raise RecipeError(
                f"tokenizer {self.name!r}: ranks of {len(tokens):,} tokens, and not one of the "
                f"published files ({', '.join(RANK_FILES)}): a rank file does not contain the "
                "pattern that splits text into pieces. Use the tokenizer.json of the same tokenizer"
            )
        missing = {bytes([byte]) for byte in range(256)} - set(tokens)
        if missing:
            raise RecipeError(
                f"tokenizer {self.name!r}: no token for the byte {min(missing).hex()}: expected "
                "one for each of the 256 bytes. Download the file again"
            )

    def _read_ranks(self, end_of_text: str | None) -> None:
        # A file of GPT-2's size that is not the published one is taken for GPT-2's: its pattern is
        # that of all old files.
        published = known_file(self.sha256)
        file = published or R50K_BASE
        if published is None:
            self._check_ranks(file)
        ends = END_OF_TEXT if end_of_text is None else end_of_text
        if ends not in file.special:
            raise RecipeError(
                f"tokens.end_of_text: this tokenizer's ranks have {', '.join(file.special)} only, "
                f"not {end_of_text!r}"
            )
        self.end_of_text = file.special[ends]
        self.vocabulary = max(*file.special.values(), file.ranks + len(file.holes) - 1) + 1
        self.pattern = file.pattern

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
            self._bytes_of[number] = token.encode() if token in added else bytes_of(token)
        try:
            rules = kernel_rules(read)
            self._encoder = _Kernel(read, rules, self._bytes_of, self.end_of_text)
            self.pattern = rules.pattern
            if rules.nfc:
                self.libraries = {"tokenizers": library_versions()["tokenizers"]}
            return
        except ValueError as error:
            self.library_reason = str(error)
        library = Library(self.data, self.end_of_text, ends[0])
        self._encoder = library
        self.vocabulary = max(self.vocabulary, library.vocabulary)
        self._bytes_of += [b""] * (self.vocabulary - len(self._bytes_of))
        if isinstance(read.model.vocab, list):  # Unigram: the numbers are the places
            for number, (token, _) in enumerate(read.model.vocab):
                self._bytes_of[number] = self._bytes_of[number] or token.encode()
        self.libraries = library_versions()


class _Kernel:
    """A tokenizer.json that our kernel encodes."""

    def __init__(
        self,
        read: tokenizer_file.TokenizerFile,
        rules: KernelRules,
        spelled: list[bytes],
        end_of_text: int,
    ) -> None:
        """`spelled`: the bytes of every token. Raises ValueError for added tokens that only the
        library knows.
        """
        self._added = AddedTokens(read.added_tokens or [], end_of_text, nfc=rules.nfc)
        # Made when the first text is encoded (see Tokenizer), of what is not needed any more then.
        self._encoder: _TextEncoder | None = None
        self._making = Lock()
        self._made_of: tuple[Any, ...] | None = (read, rules, spelled)

    def _made(self) -> _TextEncoder:
        with self._making:
            if self._encoder is None:
                assert self._made_of is not None
                self._encoder = _encoder_of(*self._made_of)
                self._made_of = None
            return self._encoder

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, as kernels.bpe.encoder does."""
        fragments = self._added.cut(offsets, data)
        return joined(fragments, *self._made().encode(fragments.offsets, fragments.data))


def _encoder_of(
    read: tokenizer_file.TokenizerFile, rules: KernelRules, spelled: list[bytes]
) -> _TextEncoder:
    from gristmill.kernels.bpe import encoder
    from gristmill.kernels.bpe.merges import merges_of_list

    not_text = {token.id for token in read.added_tokens or []}
    plain = [b"" if number in not_text else token for number, token in enumerate(spelled)]
    merges = merges_of_list(plain, rules.merges, whole=bool(read.model.ignore_merges))
    return encoder.Encoder(merges, rules.pattern)


def _check_size(name: str, path: Path) -> None:
    try:
        tokenizer_file.check_size(path)
    except ValueError as error:
        raise RecipeError(f"tokenizer {name!r}: {path}: {error}") from error


def _file_of(name: str) -> tuple[str, bytes]:
    """The name of a tokenizer, and the bytes of its file."""
    from gristmill.store.cache import default_cache

    found = load(name, Path(), default_cache())
    return found.name, found.data


def load(
    name: str, folder: Path, cache: Path, end_of_text: str | None = None, resume_only: bool = False
) -> Tokenizer:
    """Load a tokenizer by its name ("gpt2", "cl100k_base"), its URL, or its path relative to
    `folder`.

    `resume_only`: do not fetch; use a URL only if its file is in the cache. Raises RecipeError.
    """
    if name in RANK_FILES:
        return Tokenizer(name, read_rank_file(name, cache, resume_only), end_of_text)
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
