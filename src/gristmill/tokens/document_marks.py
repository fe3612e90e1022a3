"""Which token ends a document: by what the tokenizer's files say, and never by a name alone.

Only special tokens are considered: a vocabulary may have `</s>` as an ordinary HTML tag (Gemma).
What is evidence, strongest first:

    tokenizer_config.json, special_tokens_map.json    `eos_token`
    generation_config.json                            `eos_token_id`, one or several
    the file's post-processor                         the special tokens that it puts behind a text
    the name of a special token                       one of ENDS

The files are those beside the tokenizer's. Each narrows what is left; two that contradict each
other leave both, and then the user is asked.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.errors import NO_JSON
from gristmill.tokens.rank_files import END_OF_TEXT
from gristmill.tokens.tokenizer_file import TokenizerFile

ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>")
CONFIGURATIONS = ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
LARGEST = 16 << 20  # bytes of a configuration; Gemma's has 1.2 MB
TEMPLATE = "the post-processor of its tokenizer.json"
NAME = "its name among the special tokens"
NAMED = "named by the user"
PUBLISHED = "the published tokenizer"


class Choice(NamedTuple):
    """A token, and what says that it is the one."""

    literal: str
    evidence: tuple[str, ...]

    @property
    def why(self) -> str | msgspec.UnsetType:
        """Return the evidence, for the manifest; unset where the user named the token."""
        return msgspec.UNSET if NAMED in self.evidence else "; ".join(self.evidence)


class _Configuration(msgspec.Struct, frozen=True):
    """What a configuration says of the end of text."""

    eos_token: Any = None  # a string, or an added token with its content
    eos_token_id: Any = None  # a number, or a list of them


def read_configurations(folder: Path) -> dict[str, bytes]:
    """Return the configurations beside a tokenizer's file, by name. Raises ValueError for one that
    cannot be read, or is too large.
    """
    read = {}
    for name in CONFIGURATIONS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            if path.stat().st_size > LARGEST:
                raise ValueError(f"{path}: more than {LARGEST:,} bytes, which no configuration has")
            read[name] = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
    return read


def choose_end(file: TokenizerFile, configurations: Mapping[str, bytes]) -> Choice:
    """Return the end of text of a tokenizer.json. Raises ValueError where none is known, or several
    remain.
    """
    special = {token.content for token in file.added_tokens or [] if token.special}
    left: set[str] = set()
    said: list[tuple[str, set[str]]] = []
    for evidence, named in _evidence(file, configurations):
        if not (candidates := named & special):
            continue
        said.append((evidence, candidates))
        left = left & candidates or left | candidates
    if len(left) == 1:
        (literal,) = left
        return Choice(literal, tuple(name for name, named in said if literal in named))
    if left:
        listed = "; ".join(f"{name}: {', '.join(sorted(named))}" for name, named in said)
        raise ValueError(
            f"{' or '.join(sorted(left))} may be its end of text ({listed}): set "
            "tokens.end_of_text to the one that ends a document, such as end_of_text = "
            f'"{min(left)}"'
        )
    raise ValueError(
        "has no known end of text among its special tokens "
        f"({', '.join(sorted(special)[:10]) or 'it has none'}): set tokens.end_of_text"
    )


def _evidence(
    file: TokenizerFile, configurations: Mapping[str, bytes]
) -> Iterator[tuple[str, set[str]]]:
    literals = {token.id: token.content for token in file.added_tokens or []}
    for name, data in configurations.items():
        try:
            said = msgspec.json.decode(data, type=_Configuration)
        except NO_JSON as error:
            raise ValueError(
                f"{name} beside it cannot be read: {error}. Mend or remove it, or set "
                "tokens.end_of_text"
            ) from error
        numbers = said.eos_token_id if isinstance(said.eos_token_id, list) else [said.eos_token_id]
        content = said.eos_token
        if isinstance(content, dict):
            content = content.get("content")
        named = {literals[number] for number in numbers if _is_number(number, literals)}
        yield name, named | ({content} if isinstance(content, str) else set())
    yield TEMPLATE, set(_behind_text(file.post_processing))
    yield NAME, set(ENDS)


def _is_number(value: Any, literals: Mapping[int, str]) -> bool:
    return isinstance(value, int) and value in literals


def _behind_text(processor: Any) -> Iterator[str]:
    """Yield the tokens that a post-processor puts behind a single text."""
    if not isinstance(processor, dict):
        return
    kind, single = processor.get("type"), processor.get("single")
    if kind == "Sequence" and isinstance(inner := processor.get("processors"), list):
        for step in inner:
            yield from _behind_text(step)
    elif kind == "TemplateProcessing" and isinstance(single, list):
        behind = False
        for piece in single:
            if not isinstance(piece, dict):
                continue
            behind |= "Sequence" in piece
            token = piece.get("SpecialToken")
            if behind and isinstance(token, dict) and isinstance(token.get("id"), str):
                yield token["id"]
    elif kind in ("RobertaProcessing", "BertProcessing"):
        separator = processor.get("sep")
        if isinstance(separator, list) and separator and isinstance(separator[0], str):
            yield separator[0]
