"""The tokenizer in a corpus, as its manifest says it was used."""

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.store.manifest import Manifest, TokenFormat, end_of_text_literal
from gristmill.store.proof import proven
from gristmill.tokens.tokenizer import Tokenizer


def tokenizer_in(corpus: TokenCorpus) -> Tokenizer | None:
    """Return the tokenizer of a corpus' tokens; None: it is not in the corpus.

    Raises RecipeError where it cannot be read, VerificationError where it is not as the manifest
    says.
    """
    for part in corpus.manifest.parts:
        if part.path.startswith("tokenizer/") and part.sha256 == corpus.format.tokenizer:
            data = proven(corpus.root / part.path, part.sha256).read_bytes()
            return read_tokenizer(part.path, data, corpus.manifest, corpus.format)
    return None


def read_tokenizer(name: str, data: bytes, manifest: Manifest, stated: TokenFormat) -> Tokenizer:
    """Return a tokenizer with the marks of documents of a corpus. The files that were beside it
    when they were chosen are not in the corpus. Raises RecipeError.
    """
    begin = stated.begin_of_text
    return Tokenizer(
        name,
        data,
        end_of_text_literal(manifest) or stated.end_of_text,
        begin_of_text=begin if isinstance(begin, int) else None,
        # It is asked for the bytes of tokens, and encodes no text.
        tried=True,
    )
