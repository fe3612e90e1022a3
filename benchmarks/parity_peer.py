"""datatrove's side of the parity proof: `PYTHON parity_peer.py TASKS OUT`, in the peers'
environment (peers.py says what it needs).

TASKS is JSON: [{"parameters": {filter: {...}}, "texts": [...]}, ...]. OUT becomes, for each task, a
line of JSON: for every text the verdict of each filter, the words that datatrove saw, and of C4 the
new text and the words of every line whose sentences it counted. Positions are bytes of the text or
line in UTF-8.
"""

import itertools
import json
import sys
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
    c4_filters,
)
from datatrove.utils.text import split_into_sentences, split_into_words
from datatrove.utils.word_tokenizers import load_word_tokenizer

FILTERS = {
    "gopher": GopherQualityFilter,
    "repetition": GopherRepetitionFilter,
    "fineweb": FineWebQualityFilter,
    "c4": C4QualityFilter,
}
lines: list[str] = []


def counted(line: str, language: str) -> list[str]:
    """datatrove's own sentences, and a note of the line."""
    lines.append(line)
    return split_into_sentences(line, language)


def places(text: str) -> list[int]:
    """Where datatrove's words of a text start and stop, one after another."""
    words = split_into_words(text, "en")
    sizes = [
        0,
        *itertools.accumulate(
            len(character.encode("utf-8", "surrogatepass")) for character in text
        ),
    ]
    out, at = [], 0
    for word in words:
        begin = text.index(word, at)
        at = begin + len(word)
        out += [sizes[begin], sizes[at]]
    return out


def tokens(line: str) -> list[int]:
    """Where spaCy's tokens of a line start and stop, those of white space too: its sentencizer
    counts by them.
    """
    tokenizer: Any = load_word_tokenizer("en")
    sizes = [
        0,
        *itertools.accumulate(
            len(character.encode("utf-8", "surrogatepass")) for character in line
        ),
    ]
    out, at = [], 0
    with tokenizer.tokenizer.memory_zone():
        for chunk in tokenizer._do_tokenize(line):
            for token in chunk:
                begin = line.index(token.text, at)
                at = begin + len(token.text)
                out += [sizes[begin], sizes[at]]
    return out


def verdict(step: Any, text: str) -> tuple[str | None, str]:
    document = Document(text=text, id="0", metadata={"url": "https://example.org/"})
    try:
        said = step.filter(document)
    except ZeroDivisionError:
        return "error", text
    return (None if said is True else "dropped" if said is False else said[1]), document.text


def judge(parameters: dict[str, dict[str, Any]], texts: list[str]) -> list[dict[str, Any]]:
    steps = {name: kind(**parameters.get(name, {})) for name, kind in FILTERS.items()}
    out = []
    for text in texts:
        told: dict[str, Any] = {"words": places(text)}
        for name in ("gopher", "repetition", "fineweb"):
            told[name] = verdict(steps[name], text)[0]
        lines.clear()
        told["c4"], told["c4_text"] = verdict(steps["c4"], text)
        told["c4_lines"] = [[line, tokens(line)] for line in lines]
        out.append(told)
    return out


if __name__ == "__main__":
    c4_filters.split_into_sentences = counted
    with (
        open(sys.argv[1], encoding="utf-8") as tasks,
        open(sys.argv[2], "w", encoding="utf-8") as out,
    ):
        for task in tasks:
            asked = json.loads(task)
            out.write(
                json.dumps(judge(asked["parameters"], asked["texts"]), ensure_ascii=True) + "\n"
            )
