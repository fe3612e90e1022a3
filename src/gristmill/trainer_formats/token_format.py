"""What formats of tokens are: a `TrainerFormat`, and an `ImportFormat` where it can be read too."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.store.manifest import TokenFormat
from gristmill.tokens.tokenizer import Tokenizer
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.token_blocks import Side, TokenBlock


class Stream(NamedTuple):
    """What an export writes as files that belong together."""

    name: str  # the source; `mixed`: several in one stream
    split: str  # train or val
    sources: list[str]
    blocks: Iterator[TokenBlock]
    tokens: TokenFormat  # of the corpus; the blocks have `end_of_text_side` as the format wants it


class Written(NamedTuple):
    """What a writer wrote of a stream."""

    files: list[str]
    documents: int
    tokens: int
    by_source: dict[str, int]  # tokens


class Finished(NamedTuple):
    """All that an export of tokens wrote, for the `finish` of its format."""

    corpus: TokenCorpus
    tokenizer: Tokenizer
    streams: list[tuple[Stream, Written]]
    tokens_per_file: int


class Opened(NamedTuple):
    """A stream of documents in a folder of another's files."""

    split: str
    files: list[Path]
    # (tokens (m,), lengths (n,) int64 of whole documents, file (n,) int64: the file in which each
    # begins), in blocks
    blocks: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]


class OpenedFolder(NamedTuple):
    """What a reader found in a folder."""

    streams: list[Opened]
    boundaries: str  # `index`, or `end-of-text`
    # the side on which the end of text is by the format; None: look at the documents
    side: Side | None


class ReadOptions(NamedTuple):
    """What a reader needs to know besides the files."""

    tokenizer: Tokenizer
    side: Side | None  # as the caller says, or as gristmill.json says
    dtype: str | None  # of a token in files that do not say it; None: by the tokenizer


def unsigned(vocabulary: int, smallest: int = 1) -> str:
    """Return the smallest unsigned type, of at least `smallest` bytes, that holds every token."""
    for size in (1, 2, 4):
        if size >= smallest and vocabulary - 1 < 1 << 8 * size:
            return f"uint{8 * size}"
    raise RecipeError(f"a vocabulary of {vocabulary:,}: too large for 32 bits")


class TrainerFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format of tokens that a trainer reads."""

    name: str  # for `--to`
    files: str  # what they are called, for docs/trainer-formats.md
    holds: str  # of which type a token is, for the same page
    checked: str = ""  # with which reader, for the same page
    side: Side  # where its readers expect the end of text
    one_stream: bool = False  # several sources are one stream
    ends_by_token: bool = False  # its readers divide documents at the end of text
    tokens_per_file: int = 0  # unless the caller says another number; 0: one file a stream
    most_files: int = 1  # of a stream, where there may be several
    # The type of a token in the files, by the vocabulary. Raises RecipeError if none holds it.
    dtype: Callable[[int], str] = unsigned
    write: Callable[[ExportFolder, Stream, int], Written]  # (folder, stream, tokens a file)
    # Writes what files there are besides when all streams are written; returns what a user should
    # know.
    finish: Callable[[ExportFolder, Finished], list[str]] | None = None
    tokenizer_names: dict[str, str] = {}  # what the tokenizer's file is called instead

    @property
    def meaning(self) -> str:
        """Return what it is, for `explain`."""
        return f"Tokens: {self.files}, {self.holds}, with the end of text {self.side} a document."


class ImportFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format of tokens that can be imported."""

    name: str  # for `--from`
    files: str  # which of a folder are read, for docs/trainer-formats.md
    boundaries: str  # where documents end, for the same page
    end_of_text: str  # how its side is known, for the same page
    # Opens the streams of a folder; the files are read while their blocks are. Raises RecipeError
    # or VerificationError.
    read: Callable[[Path, ReadOptions], OpenedFolder]


class Counter:
    """Counts what goes through a writer."""

    def __init__(self, stream: Stream) -> None:
        self._names = stream.sources
        self._tokens = np.zeros(len(stream.sources), np.int64)
        self._documents = 0
        self._blocks = stream.blocks

    def blocks(self) -> Iterator[TokenBlock]:
        """Yield the stream's blocks, counted as they pass."""
        for block in self._blocks:
            self._documents += len(block.documents) - (not block.begins)
            self._tokens += np.bincount(
                block.sources, weights=block.lengths, minlength=len(self._names)
            ).astype(np.int64)
            yield block

    def pass_by(self) -> None:
        """Count the rest of the stream, which is not written again."""
        for _ in self.blocks():
            pass

    def written(self, files: list[str]) -> Written:
        tokens = self._tokens.tolist()
        by_source = {name: count for name, count in zip(self._names, tokens, strict=True) if count}
        return Written(files, self._documents, sum(tokens), by_source)


def pieces(
    blocks: Iterable[TokenBlock], size: int, *, cut: bool
) -> Iterator[tuple[int, TokenBlock]]:
    """Yield (the number of the file, a piece of a block for it): files of `size` tokens.

    `cut`: a file ends in the middle of a document. Otherwise it ends behind the document that
    brings it to `size`.
    """
    number = filled = 0
    for block in blocks:
        while len(block.documents):
            stops = filled + np.cumsum(block.lengths)
            if stops[-1] < size:
                filled = int(stops[-1])
                yield number, block
                break
            last = int(np.searchsorted(stops, size))  # the document that fills the file
            surplus = int(stops[last]) - size if cut else 0
            at = int(stops[last]) - filled - surplus
            lengths = block.lengths[: last + 1].copy()
            lengths[-1] -= surplus
            ends = block.ended()[last] and not surplus
            yield (
                number,
                block._replace(
                    tokens=block.tokens[:at],
                    documents=block.documents[: last + 1],
                    lengths=lengths,
                    sources=block.sources[: last + 1],
                    ends=bool(ends),
                ),
            )
            full = cut or bool(ends)
            first = last if surplus else last + 1
            rest = block.lengths[first:].copy()
            rest[:1] -= lengths[-1] if surplus else 0
            block = TokenBlock(
                block.tokens[at:],
                block.documents[first:],
                rest,
                block.sources[first:],
                not surplus,
                block.ends,
            )
            if full:
                number, filled = number + 1, 0
            else:
                filled = int(stops[last])


def whole_files(
    counter: Counter, size: int
) -> Iterator[tuple[int, Iterator[tuple[TokenBlock, np.ndarray]]]]:
    """Yield the files of a stream, each of which ends behind the document that brings it to `size`
    tokens: (its number, its blocks with the end of each document (n,) int64 in the file's tokens).
    A file's blocks are to be taken before the next file.
    """
    cut = pieces(counter.blocks(), size, cut=False)
    for number, group in groupby(cut, key=lambda pair: pair[0]):
        yield number, _with_ends(block for _, block in group)


def _with_ends(blocks: Iterable[TokenBlock]) -> Iterator[tuple[TokenBlock, np.ndarray]]:
    at = 0
    for block in blocks:
        ends = at + np.cumsum(block.lengths)
        yield block, ends
        at = int(ends[-1])
