"""The documents of a stream as pieces of at most a window, in the order of the stream.

Where documents are cut at the ends of paragraphs or sentences, a table says of each token of the
vocabulary what its bytes begin and end with (kernels/packing/lengths.py names the marks). A
sentence ends after `.`, `?` or `!`, closing quotes and brackets included, if white space follows;
after a full stop, question or exclamation mark of Chinese, Japanese or Hindi; and where a line
ends. So `Mr. Smith` is two sentences. A mark whose bytes are divided among several tokens is not
seen. Of WordPiece, whose tokens have no white space, no sentence is seen to end but a wide one.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus, TokenStream
from gristmill.errors import RecipeError
from gristmill.kernels.packing import lengths

if TYPE_CHECKING:
    from gristmill.tokens.token_bytes import TokenBytes

CLOSING = tuple(character.encode() for character in "\"')]}»”’")
STOPS = (b".", b"?", b"!", "…".encode())
WIDE = tuple(character.encode() for character in "。！？｡।")


def mark_tokens(spellings: Sequence[bytes]) -> np.ndarray:
    """Return the marks of tokens by their bytes, (n,) uint8."""
    return np.array([_mark(spelling) for spelling in spellings], np.uint8)


def _mark(spelling: bytes) -> int:
    open_end = spelling
    while open_end.endswith(CLOSING):
        open_end = next(open_end.removesuffix(c) for c in CLOSING if open_end.endswith(c))
    lines = spelling.replace(b"\r", b"").replace(b" ", b"").replace(b"\t", b"")
    return (
        lengths.BREAK * (b"\n\n" in lines)
        | lengths.LINE * lines.endswith(b"\n")
        | lengths.NEXT * lines.startswith(b"\n")
        | lengths.STOP * open_end.endswith(STOPS)
        | lengths.CLOSE * (bool(spelling) and not open_end)
        | lengths.SPACE * spelling.startswith((b" ", b"\n", b"\r", b"\t"))
        | lengths.WIDE * open_end.endswith(WIDE)
    )


def token_spellings(corpus: TokenCorpus) -> list[bytes]:
    """Return the bytes of text of each token of a corpus, by the tokenizer in it; a token that no
    text has has none.

    Raises RecipeError if it has none that can be read, VerificationError if it is damaged.
    """
    texts = list(token_bytes_of_corpus(corpus).text)
    texts[corpus.format.end_of_text] = b""
    return texts


def token_bytes_of_corpus(corpus: TokenCorpus) -> "TokenBytes":
    """Return what text each token of a corpus stands for. Raises as `token_spellings`."""
    from gristmill.corpus.tokenizer_part import tokenizer_in

    tokenizer = tokenizer_in(corpus)
    if tokenizer is None:
        raise RecipeError(
            f"{corpus.root}: no tokenizer is in it, so that nobody knows where a sentence ends: "
            "pack without split_at"
        )
    return tokenizer.token_bytes.resized(corpus.format.vocabulary)


def piece_lengths(
    stream: TokenStream, limit: int, marks: np.ndarray | None = None, *, sentences: bool = False
) -> Iterator[np.ndarray]:
    """Yield the lengths of the pieces of all documents, in order, as arrays of uint32 of one shard
    each; together they are the stream. `marks`: cut at the ends of paragraphs, and of sentences if
    asked.
    """
    position = 0
    for documents in document_lengths(stream):
        if marks is None:
            yield lengths.cut(documents, limit)
        else:
            # The first document may have begun in the shard before; the others are in one shard and
            # are not copied.
            for some in (documents[:1], documents[1:]):
                total = int(some.sum())
                tokens = stream.read(position, position + total)
                yield lengths.cut_texts(tokens, some, marks, limit, sentences=sentences)
                position += total


def document_lengths(stream: TokenStream) -> Iterator[np.ndarray]:
    """Yield tokens of the documents of a stream, (n,) int64 for each shard; a document that goes on
    in the next shard counts there, as a whole.
    """
    number, left = -1, 0  # the last document of the shards before, and its tokens
    for shard in range(len(stream.shards)):
        documents, ends = stream.boundaries(shard)
        if not len(documents):
            continue
        found = np.diff(ends, prepend=0).astype(np.int64)
        if left and documents[0] == number:
            found[0] += left
        elif left:
            found = np.insert(found, 0, left)
        number, left = int(documents[-1]), int(found[-1])
        yield found[:-1]
    yield np.array([left] if left else [], np.int64)
