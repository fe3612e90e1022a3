"""Byte-level BPE as tokenizer.json has it: tokens spelled with a printable character for each byte,
and which files of this kind our kernel encodes exactly.
"""

from typing import NamedTuple

from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.tokens import tokenizer_file
from gristmill.tokens.published_patterns import find_pattern

MOST_TOKENS = (1 << 20) - 1  # the limit of kernels.bpe.merges


def _byte_level() -> list[str]:
    """GPT-2's printable character for each byte (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


BYTE_LEVEL = _byte_level()
_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_LEVEL)}


def spelled_bytes(token: str) -> bytes:
    """Return the bytes that a token spells; those of its UTF-8 if it is not spelled in this
    alphabet.
    """
    try:
        return bytes(map(_BYTE_OF.__getitem__, token))
    except KeyError:
        return token.encode()


def gpt2_tokens(data: bytes) -> list[bytes]:
    """Return the tokens of vocab.bpe: the bytes in the order of their printable characters, then
    the merges. Raises ValueError.
    """
    tokens = [bytes([_BYTE_OF[character]]) for character in sorted(BYTE_LEVEL)]
    for left, right in tokenizer_file.read_merges(data):
        tokens.append(spelled_bytes(left) + spelled_bytes(right))
    return tokens


class KernelRules(NamedTuple):
    """How our kernel encodes as a tokenizer.json says."""

    pattern: Pattern
    merges: list[tuple[int, int, int]]  # left, right, merged token
    nfc: bool  # texts are composed first


def kernel_rules(read: tokenizer_file.TokenizerFile) -> KernelRules:
    """Return how our kernel encodes as a tokenizer.json says. Raises ValueError, with the reason,
    where it cannot do it exactly.
    """
    model, added, vocabulary = read.model, read.added, read.model.vocab
    if model.type != "BPE" or not isinstance(vocabulary, dict):
        raise ValueError(f"its model is {model.type or 'of no stated type'}, not BPE")
    if model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        raise ValueError("its model has dropout, or marks the insides or ends of words")
    pattern = find_pattern(read.splitting)
    if pattern is None:
        raise ValueError("its pre-tokenizer is none that the kernel knows")
    if read.normalization not in ("", "NFC"):
        raise ValueError("its normalizer does more than NFC")
    # With all of the alphabet no character is unknown: `unk_token` and `byte_fallback` do nothing.
    if any(character not in vocabulary for character in BYTE_LEVEL):
        raise ValueError("it has no token for some byte")
    # A token that spells no bytes in the byte-level alphabet is never produced.
    if any(token not in added and not _BYTE_OF.keys() >= set(token) for token in vocabulary):
        raise ValueError("a token of its model is not spelled in the byte-level alphabet")
    merges = []
    for merge in model.merges:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        # The library could give an added token that a merge makes or takes, for plain text.
        if added.keys() & {left, right, left + right} or left + right not in vocabulary:
            raise ValueError("a merge makes an added token, or one that is not in its vocabulary")
        merges.append((vocabulary[left], vocabulary[right], vocabulary[left + right]))
    # For a pair listed twice the library uses the later rank; the kernel's tables have a limit.
    if len({merge[:2] for merge in merges}) < len(merges):
        raise ValueError("it lists a merge twice")
    if max(*vocabulary.values(), len(merges)) >= MOST_TOKENS:
        raise ValueError(f"it has more than {MOST_TOKENS:,} tokens")
    return KernelRules(pattern, merges, read.normalization == "NFC")
