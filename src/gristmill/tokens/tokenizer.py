"""Tokenizers: tiktoken's ranks and HF's tokenizer.json, with one interface.

Our kernel encodes if it knows the pattern and every setting of the file (docs/tokenizers.md);
otherwise the library encodes, in batches. Special tokens in crawled text are plain text: a literal
`<|endoftext|>` never becomes the token that ends documents.
"""

import hashlib
import itertools
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.errors import ArgumentError, RecipeError
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.store.http import transfer, urls
from gristmill.tables.columns import utf8_buffers, well_formed
from gristmill.tables.user_texts import slice_batches, to_table
from gristmill.tokens import sentencepiece_model, tokenizer_file
from gristmill.tokens.added_tokens import AddedTokens, joined
from gristmill.tokens.byte_level import KernelRules, gpt2_tokens, kernel_rules, spelled_bytes
from gristmill.tokens.document_marks import (
    ENDS,
    NAMED,
    PUBLISHED,
    Choice,
    choose_end,
    read_configurations,
)
from gristmill.tokens.known_tokenizers import advice
from gristmill.tokens.library import Library, library_versions, try_library
from gristmill.tokens.rank_files import (
    END_OF_TEXT,
    R50K_BASE,
    RANK_FILES,
    RankFile,
    known_file,
    read_rank_file,
    tokens_of_published,
)
from gristmill.tokens.token_bytes import TokenBytes, file_token_bytes, rank_token_bytes


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
    uint16 if every token fits, else uint32. `end_of_text` is the number of the token after each
    document, `ending` its literal and what says that it is the one. `begin_of_text` is the number
    of the token before each document (None: there is none).
    """

    def __init__(
        self,
        name: str,
        data: bytes | None = None,
        end_of_text: str | int | None = None,
        *,
        begin_of_text: str | int | None = None,
        configurations: Mapping[str, bytes] | None = None,
        tried: bool = False,
    ) -> None:
        """Read a tokenizer by its name ("gpt2", "cl100k_base"), its path or URL; or from the bytes
        of its file, which is then only called `name`.

        `end_of_text` is the token after each document, by its literal or its number; None: by what
        the file and the `configurations` beside it say (document_marks.py). `tried`: a file for the
        library is not tried in a process of its own first. Raises RecipeError if the file is of no
        known format, has no such token, or harms the library.
        """
        if data is None:
            name, data, configurations = _read(name, Path(), None)
        data = _as_tokenizer_json(name, data)
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
        self._file: tokenizer_file.TokenizerFile | None = None  # of a tokenizer.json
        if data.lstrip()[:1] == b"{":
            self.file_name = "tokenizer.json"
            self._read_json(end_of_text, configurations or {}, tried)
        else:
            self.file_name = (
                "tokenizer.tiktoken" if not data.startswith(b"#version") else "vocab.bpe"
            )
            self._read_ranks(end_of_text)
        self.end_of_text = self._special_tokens()[self.ending.literal]
        self.begin_of_text = None if begin_of_text is None else self._begin(begin_of_text)
        self.kernel = self.pattern is not None
        self.dtype = np.dtype("<u2") if self.vocabulary <= 1 << 16 else np.dtype("<u4")

    def encode(self, texts: pa.Array | list[str] | str) -> Encoded:
        """Encode texts: a string column without nulls, or a list; one string is a list of one.

        Of one string, `encode_text` gives an array; `encode_batch` takes what filters take.
        """
        texts = [texts] if isinstance(texts, str) else texts
        column = pa.array(texts, pa.string()) if isinstance(texts, list) else texts
        if self._encoder is None:
            self._encoder = self._rank_encoder()
        return Encoded(*self._encoder.encode(*utf8_buffers(column)))

    def encode_text(self, text: str) -> np.ndarray:
        """Return the token numbers of one text, (m,) int32."""
        if not isinstance(text, str):
            raise ArgumentError(f"text: a {type(text).__name__} was given: expected a string")
        return self.encode([well_formed(text)]).tokens

    def encode_batch(self, texts: Any, *, text: str = "text") -> Encoded:
        """Return the token numbers of texts, in any form that user_texts.py takes: text i has
        `tokens[offsets[i]:offsets[i + 1]]`. Raises ArgumentError, also for a missing text.
        """
        offsets, tokens = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for part in slice_batches(to_table(texts, text)):
            column = part["text"].chunk(0)
            if column.null_count:
                raise ArgumentError("texts: one is missing (None): leave it out, or give ''")
            batch = self.encode(column)
            offsets.append(batch.offsets[1:] + offsets[-1][-1])
            tokens.append(batch.tokens)
        return Encoded(np.concatenate(offsets), np.concatenate(tokens))

    def decode_batch(self, encoded: Encoded) -> list[str]:
        """Return the texts of what `encode_batch` gave."""
        bounds = itertools.pairwise(encoded.offsets.tolist())
        return [self.decode(encoded.tokens[start:stop]) for start, stop in bounds]

    def _rank_encoder(self) -> "_TextEncoder":
        from gristmill.kernels.bpe import encoder, merges

        assert self.pattern is not None
        return encoder.Encoder(merges.merges_of_ranks(self._ranks), self.pattern)

    def decode(self, tokens: Any) -> str:
        """Return the text of token numbers; bytes that are not UTF-8 become U+FFFD."""
        return self.token_bytes.decode(map(int, tokens)).decode("utf-8", "replace")

    def spelling(self, token: int) -> bytes:
        """Return the bytes of a token inside a text, of a special one its literal; none for a
        number without a token.
        """
        return self.token_bytes.shown[token] if token < self.vocabulary else b""

    def token_text(self, token: int) -> str:
        """Return the text of a token inside a text, for people; ill-formed UTF-8 becomes U+FFFD."""
        return self.spelling(token).decode("utf-8", "replace")

    @cached_property
    def token_bytes(self) -> TokenBytes:
        """Return what text each token stands for."""
        if self._file is not None:
            return file_token_bytes(self._file, self.vocabulary)
        return rank_token_bytes(self._ranks, self._special_tokens(), self.vocabulary)

    def _special_tokens(self) -> dict[str, int]:
        """Return the numbers of tokens that may end or begin a document."""
        if self._file is not None:
            return self._file.numbers
        return (known_file(self.sha256) or R50K_BASE).special

    @property
    def marks(self) -> list[int]:
        """Return the tokens that end or begin documents."""
        begin = self.begin_of_text
        return [self.end_of_text, *([] if begin is None else [begin])]

    def may_end(self, token: int) -> bool:
        """Return whether a token is a special one, or is called as ends of texts are."""
        if self._file is None:
            return token in self._special_tokens().values()
        added = self._file.added_tokens or []
        return any(
            entry.id == token and (entry.special or entry.content in ENDS) for entry in added
        )

    def _begin(self, token: str | int) -> int:
        """Return the number of the token before each document. Raises RecipeError."""
        if self._file is None:
            special = self._special_tokens()
        else:
            special = {
                entry.content: entry.id for entry in self._file.added_tokens or [] if entry.special
            }
        number = token if isinstance(token, int) else special.get(token)
        if number is None or number not in special.values():
            raise RecipeError(
                f"tokens.begin_of_text: {token!r} is no special token of the tokenizer "
                f"{self.name!r}; it has {', '.join(list(special)[:10]) or 'none'}"
            )
        return number

    @cached_property
    def _ranks(self) -> list[bytes]:
        """Return the tokens by rank, of a rank file."""
        file = known_file(self.sha256)
        if self.file_name == "vocab.bpe":
            return gpt2_tokens(self.data)
        if file is not None:
            return tokens_of_published(file, self.data)
        return tokenizer_file.read_ranks(self.data, R50K_BASE.holes)

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

    def _read_ranks(self, end_of_text: str | int | None) -> None:
        # A file of GPT-2's size that is not the published one is taken for GPT-2's: its pattern is
        # that of all old files.
        published = known_file(self.sha256)
        file = published or R50K_BASE
        if published is None:
            self._check_ranks(file)
        literals = {number: literal for literal, number in file.special.items()}
        ends = literals.get(end_of_text) if isinstance(end_of_text, int) else end_of_text
        if end_of_text is not None and ends not in file.special:
            raise RecipeError(
                f"tokens.end_of_text: this tokenizer's ranks have {', '.join(file.special)} only, "
                f"not {end_of_text!r}"
            )
        self.ending = Choice(ends or END_OF_TEXT, (NAMED if ends is not None else PUBLISHED,))
        self.vocabulary = max(*file.special.values(), file.ranks + len(file.holes) - 1) + 1
        self.pattern = file.pattern

    def _read_json(
        self, end_of_text: str | int | None, configurations: Mapping[str, bytes], tried: bool
    ) -> None:
        try:
            read = tokenizer_file.read_json(self.data)
        except ValueError as error:
            raise RecipeError(
                f"tokenizer {self.name!r} is not a tokenizer.json: {error}"
            ) from error
        self._file = read
        self.ending = self._ending(read, end_of_text, configurations)
        end = read.numbers[self.ending.literal]
        self.vocabulary = read.vocabulary
        try:
            rules = kernel_rules(read)
            self._encoder = _Kernel(read, rules, end)
            self.pattern = rules.pattern
            if rules.nfc:
                self.libraries = {"tokenizers": library_versions()["tokenizers"]}
            return
        except ValueError as error:
            self.library_reason = str(error)
        if not tried:
            try_library(self.name, self.data)
        self._encoder = Library(self.data, end, self.ending.literal)
        self.libraries = library_versions()

    def _ending(
        self,
        read: tokenizer_file.TokenizerFile,
        asked: str | int | None,
        configurations: Mapping[str, bytes],
    ) -> Choice:
        """Return the token that ends documents. Raises RecipeError."""
        if asked is None:
            try:
                return choose_end(read, configurations)
            except ValueError as error:
                raise RecipeError(f"tokenizer {self.name!r}: {error}") from error
        literals = {number: literal for literal, number in read.numbers.items()}
        literal = literals.get(asked) if isinstance(asked, int) else asked
        if literal is None or literal not in read.numbers:
            raise RecipeError(
                f"tokenizer {self.name!r} has no token {asked!r}: set tokens.end_of_text to one"
            )
        return Choice(literal, (NAMED,))


class _Kernel:
    """A tokenizer.json that our kernel encodes."""

    def __init__(
        self, read: tokenizer_file.TokenizerFile, rules: KernelRules, end_of_text: int
    ) -> None:
        """Raise ValueError for added tokens that only the library knows."""
        self._added = AddedTokens(read.added_tokens or [], end_of_text, nfc=rules.nfc)
        # Made when the first text is encoded (see Tokenizer), of what is not needed any more then.
        self._encoder: _TextEncoder | None = None
        self._making = Lock()
        self._made_of: tuple[tokenizer_file.TokenizerFile, KernelRules] | None = (read, rules)

    def _made(self) -> _TextEncoder:
        with self._making:
            if self._encoder is None:
                assert self._made_of is not None
                self._encoder = _make_encoder(*self._made_of)
                self._made_of = None
            return self._encoder

    def encode(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode n texts in UTF-8, as kernels.bpe.encoder does."""
        fragments = self._added.cut(offsets, data)
        return joined(fragments, *self._made().encode(fragments.offsets, fragments.data))


def _make_encoder(read: tokenizer_file.TokenizerFile, rules: KernelRules) -> _TextEncoder:
    from gristmill.kernels.bpe import encoder
    from gristmill.kernels.bpe.merges import merges_of_list

    assert isinstance(read.model.vocab, dict)
    plain = [b""] * read.vocabulary
    not_text = {token.id for token in read.added_tokens or []}
    for token, number in read.model.vocab.items():
        if number not in not_text:
            plain[number] = spelled_bytes(token)
    merges = merges_of_list(plain, rules.merges, whole=bool(read.model.ignore_merges))
    return encoder.Encoder(merges, rules.pattern)


def _as_tokenizer_json(name: str, data: bytes) -> bytes:
    """Return a SentencePiece model as a tokenizer.json; other files as they are. Raises
    RecipeError.
    """
    if not sentencepiece_model.is_sentencepiece(data):
        return data
    try:
        return sentencepiece_model.tokenizer_json(data)
    except ValueError as error:
        raise RecipeError(f"tokenizer {name!r}: a SentencePiece model, and {error}") from error


def _check_size(name: str, path: Path) -> None:
    try:
        tokenizer_file.check_size(path)
    except ValueError as error:
        raise RecipeError(f"tokenizer {name!r}: {path}: {error}") from error


def load(
    name: str,
    folder: Path,
    cache: Path | None,
    end_of_text: str | int | None = None,
    resume_only: bool = False,
    begin_of_text: str | int | None = None,
) -> Tokenizer:
    """Load a tokenizer by its name ("gpt2", "cl100k_base"), its URL, or its path relative to
    `folder`.

    `resume_only`: do not fetch; use a URL only if its file is in the cache. Raises RecipeError.
    """
    called, data, beside = _read(name, folder, cache, resume_only)
    return Tokenizer(called, data, end_of_text, begin_of_text=begin_of_text, configurations=beside)


def _read(
    name: str, folder: Path, cache: Path | None, resume_only: bool = False
) -> tuple[str, bytes, dict[str, bytes]]:
    """Return the name of a tokenizer, the bytes of its file, and the configurations beside it."""
    from gristmill.store.cache import default_cache

    if name in RANK_FILES:
        return name, read_rank_file(name, cache or default_cache(), resume_only), {}
    if urls.is_url(name):
        got = transfer.fetch(
            name, cache or default_cache(), resume_only=resume_only, most=tokenizer_file.LARGEST
        )
        return urls.shown(name), got.path.read_bytes(), {}
    path = folder / name
    _check_size(name, path)
    try:
        data = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise RecipeError(f"tokenizer {name!r}: {advice(name, path)}") from error
    except OSError as error:
        raise RecipeError(f"tokenizer {name!r}: {path}: {error.strerror}") from error
    try:
        return name, data, read_configurations(path.parent)
    except ValueError as error:
        raise RecipeError(f"tokenizer {name!r}: {error}") from error
