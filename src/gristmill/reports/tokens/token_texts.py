"""What the tokens of a corpus stand for: their bytes and characters, from the tokenizer in it."""

from collections.abc import Sequence

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.corpus.tokenizer_part import tokenizer_in
from gristmill.errors import RecipeError
from gristmill.tokens.token_bytes import TokenBytes


class TokenTexts:
    """Bytes and characters of each token (tokens/token_bytes.py). The tokens that mark documents
    stand for none.
    """

    def __init__(self, known: TokenBytes, marks: Sequence[int]) -> None:
        """`marks` are the tokens that end or begin documents."""
        self._known = known
        self.sizes, self._characters = known.sizes, known.characters
        self.leads = known.leads.copy()
        for mark in marks:
            self.sizes[mark] = self._characters[mark] = self.leads[mark] = 0

    def sizes_in_place(self, tokens: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return the bytes of text of tokens (n,), int64; `first` (n,) bool says which are a
        document's first that is no mark.
        """
        return np.asarray(self.sizes[tokens] - (first & self.leads[tokens]))

    def bytes_of(self, counts: np.ndarray, led: int) -> int:
        """Return the bytes that tokens stand for, which occur `counts` (vocabulary,) times; `led`
        documents begin with a space that is no text.
        """
        return int(counts @ self.sizes) - led

    def characters_of(self, counts: np.ndarray, led: int) -> int:
        """Return the characters that tokens stand for, likewise."""
        return int(counts @ self._characters) - led

    def spelling(self, token: int) -> dict[str, str | None]:
        """Return a token's `text` (null: its bytes are not UTF-8 by themselves) and `bytes`, in
        hexadecimal.
        """
        spelled = self._known.shown[token]
        try:
            return {"text": spelled.decode(), "bytes": spelled.hex()}
        except UnicodeDecodeError:
            return {"text": None, "bytes": spelled.hex()}


def token_texts(corpus: TokenCorpus) -> TokenTexts | None:
    """Return the texts of a corpus' tokens; None: no tokenizer is in it, or none that we read.
    Raises Damaged where it is not as the manifest says.
    """
    try:
        tokenizer = tokenizer_in(corpus)
    except RecipeError:
        return None
    if tokenizer is None:
        return None
    known = tokenizer.token_bytes.resized(corpus.format.vocabulary)
    return TokenTexts(known, [mark for mark in tokenizer.marks if mark < len(known.text)])
