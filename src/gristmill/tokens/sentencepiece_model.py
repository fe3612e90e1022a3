"""SentencePiece's `tokenizer.model` as a tokenizer.json, with the same numbers of tokens.

The file is a protocol buffer (sentencepiece_model.proto of google/sentencepiece): pieces with
scores and types, the kind of model, and what the normalizer does. Only these fields are read.

    BPE         merges from the pieces' scores: of two pieces that make a third one, the third's
    Unigram     the scores are the model's
    charsmap    HF tokenizers' Precompiled normalizer
"""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST_PIECES = 1 << 21
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "▁"
# Pieces that no text has are so unlikely in Unigram that none is found in a text, unless it has a
# literal `<unk>` of which the model lacks single characters.
NO_TEXT = -1000.0


class _Model(NamedTuple):
    """What a file says."""

    pieces: list[tuple[str, float, int]]  # spelling, score, type
    trainer: dict[int, Any]  # the last value of each field
    normalizer: dict[int, Any]


def is_sentencepiece(data: bytes) -> bool:
    """Return whether these are the first bytes of a SentencePiece model: a piece, and its
    spelling.
    """
    return len(data) > 4 and data[0] == 0x0A and data[2] == 0x0A and data[1] >= data[3] + 2


def tokenizer_json(data: bytes) -> bytes:
    """Return a SentencePiece model as a tokenizer.json. Raises ValueError, with the cause, for a
    damaged file, and for a model that HF tokenizers cannot follow exactly.
    """
    model = _read(data)
    kind = model.trainer.get(3, UNIGRAM)
    if kind not in (UNIGRAM, BPE):
        raise ValueError(f"its model is of type {kind}: expected Unigram (1) or BPE (2)")
    if model.trainer.get(24):
        raise ValueError("it treats white space as a suffix, which no tokenizer.json can")
    special = {UNKNOWN: True, CONTROL: True, USER_DEFINED: False}
    added = [
        {
            "id": number,
            "content": piece,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": special[type_],
        }
        for number, (piece, _, type_) in enumerate(model.pieces)
        if type_ in special
    ]
    normalizer, prefix = _normalizer(model)
    if (prefix or model.normalizer.get(4, 1)) and not all(token["special"] for token in added):
        raise ValueError(
            "it has user-defined pieces, and puts or removes spaces around a text, which no "
            "tokenizer.json can: convert it with the tool of its model (transformers' "
            "AutoTokenizer), and name the tokenizer.json"
        )
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizer} if normalizer else None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": _decoder(prefix=prefix),
        "model": _unigram(model) if kind == UNIGRAM else _bpe(model),
    }
    return json.dumps(table, ensure_ascii=False).encode()


def _normalizer(model: _Model) -> tuple[list[dict[str, Any]], bool]:
    """Return the steps of the normalizer, and whether one puts a space before a text."""
    settings, steps = model.normalizer, list[dict[str, Any]]()
    if charsmap := settings.get(2):
        encoded = base64.b64encode(charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": encoded})
    if settings.get(4, 1):  # remove_extra_whitespaces
        for regex, content in ((r"\A +| +\z", ""), (" {2,}", " ")):
            steps.append({"type": "Replace", "pattern": {"Regex": regex}, "content": content})
    prefix = bool(settings.get(3, 1))  # add_dummy_prefix
    if prefix:
        steps.append({"type": "Prepend", "prepend": SPACE})
    if settings.get(5, 1):  # escape_whitespaces
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return steps, prefix


def _decoder(*, prefix: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _unknown(model: _Model) -> int:
    unknown = [number for number, piece in enumerate(model.pieces) if piece[2] == UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"it has {len(unknown)} pieces for unknown text: expected one")
    return unknown[0]


def _unigram(model: _Model) -> dict[str, Any]:
    in_text = (NORMAL, USER_DEFINED)
    vocabulary = [
        [piece, score if type_ in in_text else NO_TEXT] for piece, score, type_ in model.pieces
    ]
    fallback = any(type_ == BYTE for _, _, type_ in model.pieces)
    return {
        "type": "Unigram",
        "unk_id": _unknown(model),
        "vocab": vocabulary,
        "byte_fallback": fallback,
    }


def _bpe(model: _Model) -> dict[str, Any]:
    numbers = {piece: number for number, (piece, _, _) in enumerate(model.pieces)}
    if len(numbers) < len(model.pieces):
        raise ValueError("a piece occurs twice")
    scores = {piece: score for piece, score, type_ in model.pieces if type_ == NORMAL}
    merges = []
    for piece, score in scores.items():
        halves = [
            (numbers[piece[:cut]], numbers[piece[cut:]], piece[:cut], piece[cut:])
            for cut in range(1, len(piece))
            if piece[:cut] in scores and piece[cut:] in scores
        ]
        merges += [(score, left, right) for _, _, left, right in sorted(halves)]
    # Of equal scores the order of the file, which a stable sort keeps.
    merges.sort(key=lambda merge: -merge[0])
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.pieces[_unknown(model)][0],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": any(type_ == BYTE for _, _, type_ in model.pieces),
        "ignore_merges": False,
        "vocab": numbers,
        "merges": [[left, right] for _, left, right in merges],
    }


def _read(data: bytes) -> _Model:
    pieces: list[tuple[str, float, int]] = []
    parts: dict[int, bytes] = {}
    try:
        for field, value in _fields(data):
            if field == 1:
                said = dict(_fields(value))
                pieces.append((said[1].decode(), float(said.get(2, 0.0)), int(said.get(3, NORMAL))))
                if len(pieces) > MOST_PIECES:
                    raise ValueError(f"it has more than {MOST_PIECES:,} pieces")
            elif isinstance(value, bytes):
                parts[field] = value
        if 2 not in parts or 3 not in parts:
            raise ValueError("it is cut off: its settings are missing. Download it again")
        return _Model(pieces, dict(_fields(parts.get(2, b""))), dict(_fields(parts.get(3, b""))))
    except (KeyError, IndexError, AttributeError, TypeError, struct.error) as error:
        raise ValueError("it is damaged: not the protocol buffer of a model") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: numbers, floats (of 32 bits), and bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif wire == 5:
            yield key >> 3, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire in (1, 2):
            size = 8
            if wire == 2:
                size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError(at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise IndexError(at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError(at)
