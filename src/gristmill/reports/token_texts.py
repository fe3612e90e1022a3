"""What the tokens of a corpus stand for: their bytes and characters, from the tokenizer in it."""

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.store.manifest import end_of_text_literal
from gristmill.store.proof import proven
from gristmill.tokens.tokenizer import Tokenizer


class TokenTexts:
    """Bytes and characters of each token. The end of text stands for none."""

    def __init__(self, spellings: list[bytes], end_of_text: int) -> None:
        """`spellings` are the bytes of each token."""
        self._spellings = spellings
        sizes = [len(spelling) for spelling in spellings]
        # Characters of UTF-8 are counted by their first bytes, of which a token may have none.
        begun = [sum(byte & 0xC0 != 0x80 for byte in spelling) for spelling in spellings]
        self._bytes = np.array(sizes, np.int64)
        self._characters = np.array(begun, np.int64)
        self._bytes[end_of_text] = self._characters[end_of_text] = 0

    @property
    def sizes(self) -> np.ndarray:
        """The bytes of each token, (vocabulary,) int64."""
        return self._bytes

    def bytes_of(self, counts: np.ndarray) -> int:
        """The bytes that tokens stand for, which occur `counts` (vocabulary,) times."""
        return int(counts @ self._bytes)

    def characters_of(self, counts: np.ndarray) -> int:
        """The characters that tokens stand for, which occur `counts` (vocabulary,) times."""
        return int(counts @ self._characters)

    def spelling(self, token: int) -> dict[str, str | None]:
        """A token's `text` (null: its bytes are not UTF-8 by themselves) and `bytes`, in
        hexadecimal.
        """
        spelled = self._spellings[token]
        try:
            return {"text": spelled.decode(), "bytes": spelled.hex()}
        except UnicodeDecodeError:
            return {"text": None, "bytes": spelled.hex()}


def token_texts(corpus: TokenCorpus) -> TokenTexts | None:
    """The texts of a corpus' tokens; None: no tokenizer is in it, or none that we read. Raises
    Damaged where it is not as the manifest says.
    """
    for part in corpus.manifest.parts:
        if part.path.startswith("tokenizer/") and part.sha256 == corpus.format.tokenizer:
            asked = end_of_text_literal(corpus.manifest)
            data = proven(corpus.root / part.path, part.sha256).read_bytes()
            try:
                tokenizer = Tokenizer(part.path, data, asked)
            except RecipeError:
                return None
            size = corpus.format.vocabulary
            spellings = [tokenizer.spelling(token) for token in range(size)]
            return TokenTexts(spellings, corpus.format.end_of_text)
    return None
