"""Names of people in context, by the entities of a spaCy pipeline (extra `ner`).

A pipeline is a folder (`nlp.to_disk`); the input is that folder as a .zip
(`shutil.make_archive("names", "zip", "folder")`), one file with one digest. Only its `ner` and the
`tok2vec` that it listens to are loaded. Nothing in the archive may run: its members are data (JSON,
msgpack, numpy's arrays, which spaCy 3.8, thinc and srsly read without pickle), and its
configuration is replaced by one of listed parts (names_config.py).
"""

import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input
from gristmill.filters.pii import names_config

# characters that the model sees together: its memory grows with them, and it refuses a million
PIECE = 20_000
MOST_BYTES = 4 << 30  # of an archive, unpacked
Find = Callable[
    [str], list[tuple[int, int]]
]  # a text: starts and stops of names, ascending, in code points


def load(file: Input, labels: list[str]) -> Find:
    """Return a pipeline that finds entities with these labels. Raises RecipeError."""
    try:
        import spacy
    except ImportError as error:
        raise RecipeError(
            "private.names: spaCy is not installed: pip install 'gristmill[ner]'"
        ) from error
    with TemporaryDirectory(prefix="gristmill-names-") as folder:
        try:
            _unpack(file.path, Path(folder))
            roots = sorted(Path(folder).rglob("config.cfg"), key=lambda path: len(path.parts))
            if not roots:
                raise ValueError("it holds no config.cfg")
            roots[0].write_text(names_config.rewrite(roots[0].read_text("utf-8")), "utf-8")
            pipeline: Any = spacy.load(roots[0].parent)
            known = pipeline.get_pipe("ner").labels
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise RecipeError(
                f"private.names.model: {file.name} is no spaCy pipeline that finds names: {error}"
            ) from error
    if not set(labels) & set(known):
        raise RecipeError(
            f"private.names.labels: {file.name} knows none of {labels}: it has {', '.join(known)}"
        )
    wanted = frozenset(labels)

    def find(text: str) -> list[tuple[int, int]]:
        spans = []
        with pipeline.memory_zone():  # or the words of all texts would stay
            for start, stop in _pieces(text):
                entities = pipeline(text[start:stop]).ents
                spans += [
                    (start + e.start_char, start + e.end_char)
                    for e in entities
                    if e.label_ in wanted
                ]
        return spans

    return find


def _pieces(text: str) -> list[tuple[int, int]]:
    """Return a text in pieces, cut at line breaks or spaces where there are any."""
    pieces, start = [], 0
    while len(text) - start > PIECE:
        limit = start + PIECE
        cut = (
            max(
                text.rfind("\n", start + PIECE // 2, limit),
                text.rfind(" ", start + PIECE // 2, limit),
            )
            + 1
        )
        stop = cut if cut > 0 else limit
        pieces.append((start, stop))
        start = stop
    return [*pieces, (start, len(text))] if start < len(text) else pieces


def _unpack(archive: str, folder: Path) -> None:
    """Unpack a .zip whose members are plain files inside it. Raises ValueError, OSError."""
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        if sum(member.file_size for member in members) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        for member in members:
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
                raise ValueError(f"{member.filename!r} lies outside the archive")
            if path.suffix in (".py", ".pyc", ".so", ".pkl", ".pickle", ".pt", ".pth"):
                raise ValueError(f"{member.filename!r} is code, or may be")
        opened.extractall(folder)
