"""Tokenizer files that are not what they should be."""

import base64
import json
from collections.abc import Callable
from typing import Any

from gristmill.tokens.byte_level import BYTE_LEVEL
from gristmill.tokens.tokenizer_file import LARGEST, MOST_IDS

FLAGS = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
END = {"id": 256, "content": "<|endoftext|>", **FLAGS}
CUT = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {character: number for number, character in enumerate(BYTE_LEVEL)}


def tokenizer(vocabulary: Any = None, added: Any = None, **more: Any) -> bytes:
    model = {
        "type": "BPE",
        "vocab": BYTES if vocabulary is None else vocabulary,
        "merges": more.pop("merges", []),
    }
    table = {
        "added_tokens": [END] if added is None else added,
        "pre_tokenizer": CUT,
        "model": model,
    }
    return json.dumps({**table, **more}).encode()


def deep(count: int, key: str) -> bytes:
    return tokenizer().replace(
        b'"added_tokens"',
        b'"%s": %s, "added_tokens"' % (key.encode(), b"[" * count + b"]" * count),
        1,
    )


TOKENIZERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "an id of 2^31 - 1": (
        lambda: tokenizer({**BYTES, "zz": 2**31 - 1}),
        "the token 'zz' has the number 2,147,483,647",
    ),
    "an added id of 2^31 - 1": (
        lambda: tokenizer(added=[{**END, "id": 2**31 - 1}]),
        "has the number 2,147,483,647",
    ),
    "an id of 10^30": (lambda: tokenizer({**BYTES, "zz": 10**30}), "is not a tokenizer.json: "),
    "an id below zero": (
        lambda: tokenizer({**BYTES, "zz": -1}),
        "the token 'zz' has the number -1",
    ),
    "an id that is text": (lambda: tokenizer({**BYTES, "zz": "7"}), "is not a tokenizer.json: "),
    "nested lists": (lambda: deep(200_000, "extra"), "it is nested too deep"),
    "a nested normalizer": (lambda: deep(200_000, "normalizer"), "it is nested too deep"),
    "a nested pre-tokenizer": (
        lambda: tokenizer().replace(json.dumps(CUT).encode(), b"[" * 30_000 + b"]" * 30_000),
        "it is nested too deep",
    ),
    "a nested vocabulary": (
        lambda: tokenizer().replace(b'"vocab": {', b'"vocab": ' + b"[" * 200_000 + b"{"),
        "not a tokenizer.json: ",
    ),
    "two tokens of one id": (
        lambda: tokenizer({**BYTES, "ab": 300, "cd": 300}),
        "two tokens have the number 300: 'ab' and 'cd'",
    ),
    "an added token on another's id": (
        lambda: tokenizer(added=[{**END, "id": 5}]),
        "two tokens have the number 5",
    ),
    "a token of two ids": (
        lambda: tokenizer({**BYTES, END["content"]: 300}),
        "has two numbers, 300 and 256",
    ),
    "a huge vocabulary": (
        lambda: tokenizer()[:-2] + b', "more": [' + b"0," * (4 << 20) + b"0]}}",
        "it has more than 2,097,152 values",
    ),
    "a merge of one token": (lambda: tokenizer(merges=["ab"]), "a merge does not name two tokens"),
    "a merge of three": (lambda: tokenizer(merges=[["a", "b", "c"]]), "not a tokenizer.json: "),
    "a vocabulary of text": (lambda: tokenizer("abc"), "not a tokenizer.json: "),
    "nothing behind the brace": (lambda: b"{", "not a tokenizer.json: "),
    "a large file": (lambda: b"{" + b" " * LARGEST, "it has more than 134,217,728 bytes"),
}


def ranks(*lines: bytes, count: int = 50_256) -> bytes:
    whole = [
        base64.b64encode(b"!" if number == 0 else b"t%d" % number) + b" %d" % number
        for number in range(count)
    ]
    return b"\n".join([*whole, *lines])


RANKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a huge rank": (
        lambda: ranks(b"QUFB 2147483647"),
        "line 50257 is not a token in base64 and a rank below 2,097,152",
    ),
    "a rank of 10,000 digits": (
        lambda: ranks(b"QUFB " + b"9" * 10_000),
        "line 50257 is not a token",
    ),
    "a rank below zero": (lambda: ranks(b"QUFB -1"), "line 50257 is not a token"),
    "a rank twice": (lambda: ranks(b"QUFB 7"), "line 50257: rank 7 is repeated"),
    "a token twice": (lambda: ranks(b"dDE= 50256"), "a token has two ranks"),
    "a gap": (lambda: ranks(b"QUFB 50300"), "its ranks are not 0 to 50256 without a gap"),
    "bad base64": (lambda: ranks(b"QU*B 50256"), "line 50257 is not base64"),
    "three words": (lambda: ranks(b"QUFB 50256 x"), "line 50257 is not a token"),
    "lines without end": (lambda: b"\n" * (MOST_IDS + 1), "it has more than 2,097,152 lines"),
    "merges of one word": (lambda: b"#version: 0.2\nab\n", "line 2 does not name two tokens"),
    "merges that are no UTF-8": (lambda: b"#version: 0.2\n\xff \xfe\n", "can't decode byte"),
}
