"""What a model file from outside does to the native library that reads it, in a process that may
die (try_in_process.py). Each function gets the file's path, and raises ValueError where the library
refuses it.
"""

import os

from gristmill.errors import RecipeError
from gristmill.system.try_in_process import TrialError, TrialLimits, try_in_process

# Memory besides the file, and for each byte of it, as a library may copy it; processor seconds.
BYTES, BYTES_A_BYTE, SECONDS = 2 << 30, 4, 300


def try_file(function: str, path: str, where: str) -> None:
    """Call a function of this module for a file. Raises RecipeError, which begins with `where`."""
    limits = TrialLimits(BYTES + BYTES_A_BYTE * os.path.getsize(path), SECONDS)
    try:
        try_in_process(f"{__name__}:{function}", os.fsencode(path), limits)
    except TrialError as error:
        raise RecipeError(f"{where}: {path}: its library cannot read it: {error}") from error


def load_fasttext(path: bytes) -> str:
    """Load a fastText model, and ask it for the label of a text."""
    import fasttext

    try:
        fasttext.load_model(os.fsdecode(path)).predict("a text of a few words")
    except (RuntimeError, IndexError) as error:
        raise ValueError(str(error)) from error
    return ""


def load_kenlm(path: bytes) -> str:
    """Load a model of KenLM's, and score a text with it."""
    import kenlm

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        kenlm.Model(os.fsdecode(path), config).score("a text of a few words")
    except (OSError, RuntimeError) as error:
        raise ValueError(str(error).strip()) from error
    return ""


def load_tokenizer(path: bytes) -> str:
    """Load the tokenizer.json of a model that judges texts, and encode a few."""
    from importlib import import_module

    with open(os.fsdecode(path), "rb") as file:
        data = file.read()
    # By name: filters import nothing of tokens.
    return str(import_module("gristmill.tokens.library_trial").encode_texts(data))
