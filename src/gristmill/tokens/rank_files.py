"""tiktoken's tokenizers by name. A rank file has the bytes of tokens, and nothing else: the pattern
and the special tokens are facts of tiktoken's source (tiktoken_ext/openai_public.py, 0.14), and the
published file is known by its sha256.
"""

import binascii
import hashlib
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from gristmill.errors import RecipeError
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.store.http import transfer

END_OF_TEXT = "<|endoftext|>"
_PUBLIC = "https://openaipublic.blob.core.windows.net"
_MIDDLES = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")


class RankFile(NamedTuple):
    """A published rank file."""

    path: str  # of its URL
    sha256: str
    pattern: Pattern
    ranks: int  # tokens in the file
    special: dict[str, int]

    @property
    def holes(self) -> frozenset[int]:
        """Return the ranks that special tokens have and no token of the file."""
        return frozenset(number for number in self.special.values() if number < self.ranks)


R50K_BASE = RankFile(
    "encodings/r50k_base.tiktoken",
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    Pattern.GPT2,
    50_256,
    {END_OF_TEXT: 50_256},
)
# The same tokens as r50k_base, as merges.
VOCAB_BPE = R50K_BASE._replace(
    path="gpt-2/encodings/main/vocab.bpe",
    sha256="1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
)
# The files of each name; the first is fetched, all are searched for in tiktoken's cache.
RANK_FILES: dict[str, tuple[RankFile, ...]] = {
    "gpt2": (R50K_BASE, VOCAB_BPE),
    "r50k_base": (R50K_BASE, VOCAB_BPE),
    "p50k_base": (
        RankFile(
            "encodings/p50k_base.tiktoken",
            "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
            Pattern.GPT2,
            50_280,
            {END_OF_TEXT: 50_256},
        ),
    ),
    "cl100k_base": (
        RankFile(
            "encodings/cl100k_base.tiktoken",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
            Pattern.CL100K,
            100_256,
            {
                END_OF_TEXT: 100_257,
                **{name: 100_258 + place for place, name in enumerate(_MIDDLES)},
                "<|endofprompt|>": 100_276,
            },
        ),
    ),
    "o200k_base": (
        RankFile(
            "encodings/o200k_base.tiktoken",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
            Pattern.O200K,
            199_998,
            {END_OF_TEXT: 199_999, "<|endofprompt|>": 200_018},
        ),
    ),
}


def known_file(sha256: str) -> RankFile | None:
    """Return the published file of a digest."""
    every = (file for files in RANK_FILES.values() for file in files)
    return next((file for file in every if file.sha256 == sha256), None)


def tokens_of_published(file: RankFile, data: bytes) -> list[bytes]:
    """Return the tokens by rank of a published file, b"" for a rank that no token has. Its digest
    is known, so nothing else is checked.
    """
    words = data.split()
    tokens = [b""] * (file.ranks + len(file.holes))
    for token, rank in zip(words[::2], words[1::2], strict=True):
        tokens[int(rank)] = binascii.a2b_base64(token)
    return tokens


def read_rank_file(name: str, cache: Path, resume_only: bool) -> bytes:
    """Return a published rank file, from tiktoken's cache or by URL; its digest is checked in both
    cases.

    tiktoken caches a file under the sha1 of its URL (tiktoken, load.py).
    """
    folders = [os.environ.get("TIKTOKEN_CACHE_DIR"), os.environ.get("DATA_GYM_CACHE_DIR")]
    folders.append(str(Path(tempfile.gettempdir()) / "data-gym-cache"))
    for file in RANK_FILES[name]:
        cached = hashlib.sha1(f"{_PUBLIC}/{file.path}".encode()).hexdigest()
        for folder in folders:
            path = Path(folder or "/nonexistent") / cached
            if path.is_file():
                data = path.read_bytes()
                if hashlib.sha256(data).hexdigest() == file.sha256:
                    return data
    file = RANK_FILES[name][0]
    try:
        url = f"{_PUBLIC}/{file.path}"
        return transfer.fetch(url, cache, file.sha256, resume_only).path.read_bytes()
    except Exception as error:
        raise RecipeError(
            f"tokenizer {name!r}: its ranks are not in TIKTOKEN_CACHE_DIR and could not be fetched "
            f"({error}). Set TIKTOKEN_CACHE_DIR to tiktoken's cache, or name a tokenizer file"
        ) from error
