"""Readers of trainers' formats, written from the formats' descriptions in plain Python: they share
no code with the writers. Each returns {(split, name): documents}, a document being a list of
tokens; where the format has one stream, its name is "".
"""

import csv
import gzip
import itertools
import json
import struct
from pathlib import Path

import pyarrow.parquet as pq

Documents = list[list[int]]
Found = dict[tuple[str, str], Documents]


def word_tokenizer(vocabulary: int, end_of_text: int = 0) -> bytes:
    """A tokenizer.json of words w0, w1 ...; the word `end_of_text` is the end of text."""
    names = {f"w{number}": number for number in range(vocabulary) if number != end_of_text}
    table = {
        "added_tokens": [
            {
                "id": end_of_text,
                "content": "<|endoftext|>",
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": names, "unk_token": next(iter(names))},
    }
    return json.dumps(table).encode()


def numbers(data: bytes, code: str) -> list[int]:
    """Little-endian numbers of a struct code."""
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def divided(tokens: list[int], end: int, side: str = "after") -> Documents:
    """Documents by their end of text."""
    found: Documents = []
    held: list[int] = []
    for token in tokens:
        if side == "before" and token == end and held:
            found.append(held)
            held = []
        held.append(token)
        if side == "after" and token == end:
            found.append(held)
            held = []
    return found + ([held] if held else [])


def nanogpt(folder: Path, end: int) -> Found:
    return {
        (path.stem, ""): divided(numbers(path.read_bytes(), "H"), end)
        for path in folder.glob("*.bin")
    }


def llmc(folder: Path, end: int) -> Found:
    """Shards in order of their names; a document may go on in the next."""
    tokens: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.bin")):
        data = path.read_bytes()
        header = numbers(data[:1024], "i")
        code = {(20240520, 1): "H", (20240801, 7): "I"}[header[0], header[1]]
        assert set(header[3:]) == {0}
        found = numbers(data[1024:], code)
        assert len(found) == header[2]
        tokens.setdefault(path.stem.split("_")[-2], []).extend(found)
    return {(split, ""): divided(found, end, "before") for split, found in tokens.items()}


def megatron(folder: Path, end: int) -> Found:
    out: Found = {}
    for path in folder.glob("*.idx"):
        data = path.read_bytes()
        assert data[:9] == b"MMIDIDX\0\0"
        version, code, sequences, entries = struct.unpack("<QBQQ", data[9:34])
        assert version == 1
        letter = {8: "H", 4: "i"}[code]
        lengths = numbers(data[34 : 34 + 4 * sequences], "i")
        pointers = numbers(data[34 + 4 * sequences : 34 + 12 * sequences], "q")
        documents = numbers(data[34 + 12 * sequences :], "q")
        assert documents == list(range(sequences + 1))
        assert entries == sequences + 1
        tokens = path.with_suffix(".bin").read_bytes()
        size = struct.calcsize(letter)
        name, split = path.stem.removesuffix("_text_document").rsplit("_", 1)
        out[split, name] = [
            numbers(tokens[at : at + size * length], letter)
            for at, length in zip(pointers, lengths, strict=True)
        ]
        assert sum(lengths) * size == len(tokens)
    return out


def olmo(folder: Path, end: int, code: str = "H") -> Found:
    out: Found = {}
    for path in sorted(folder.glob("*/*.npy")):
        tokens = numbers(path.read_bytes(), code)
        with gzip.open(path.with_suffix(".csv.gz"), "rt") as rows:
            bounds = [(int(row[0]), int(row[1])) for row in csv.reader(rows)]
        assert bounds[-1][1] == len(tokens)
        found = [tokens[start:stop] for start, stop in bounds]
        assert found == divided(tokens, end)
        out.setdefault((path.stem.split("_")[0], path.parent.name), []).extend(found)
    return out


def datatrove(folder: Path, end: int, code: str = "H") -> Found:
    out: Found = {}
    for path in sorted(folder.glob("*/*/*.ds")):
        tokens = numbers(path.read_bytes(), code)
        ends = numbers(path.with_name(path.name + ".index").read_bytes(), "Q")
        lines = path.with_name(path.name + ".metadata").read_text().split("\n")
        assert lines[0].endswith(f"|{struct.calcsize(code)}")
        assert (int(lines[1]), len(lines)) == (len(tokens), 3)
        found = [tokens[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        assert ends[-1] == len(tokens)
        out.setdefault((path.parent.name, path.parent.parent.name), []).extend(found)
    return out


def torchtitan(folder: Path, end: int) -> Found:
    import numpy as np

    out: Found = {}
    for path in folder.glob("*/tokens.bin"):
        tokens = numbers(path.read_bytes(), "I")
        offsets = np.load(path.with_name("document_offsets.npy")).tolist()
        out[path.parent.name, ""] = [tokens[a:b] for a, b in itertools.pairwise(offsets)]
        assert (offsets[0], offsets[-1]) == (0, len(tokens))
    return out


def hf_parquet(folder: Path, end: int) -> Found:
    out: Found = {}
    for path in sorted(folder.glob("data/*.parquet")):
        rows = pq.read_table(path)["input_ids"].to_pylist()
        out.setdefault((path.stem.split("-")[0], ""), []).extend(rows)
    return out


READERS = {
    "nanogpt": nanogpt,
    "llmc": llmc,
    "megatron": megatron,
    "olmo": olmo,
    "datatrove": datatrove,
    "torchtitan": torchtitan,
    "hf-parquet": hf_parquet,
}
