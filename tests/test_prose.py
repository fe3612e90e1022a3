"""How documentation is written: lines of at most 100 columns, links that lead somewhere, and none
of the words that this project's readers asked to leave out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

COLUMNS = 100
SOURCE = ROOT / "src/gristmill"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "recipes/*.toml", "*.cff")
    for path in ROOT.glob(pattern)
)
# Not plain: each has a word that a reader would search for.
UNPLAIN = re.compile(
    r"\b(?:is told|are told|tells? (?:apart|of)|so many|so much|what is no|is none of|of one's own"
    r"|whoever|heeds|anew|whereof|therein|stands|stood|gone|told)\b",
    re.I,
)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line) outside code blocks and tables; of a recipe its comments."""
    code = False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if path.suffix == ".toml":
            if line.startswith("#"):
                yield number, line
            continue
        code ^= line.lstrip().startswith("```")
        if not code and not line.lstrip().startswith("|"):
            yield number, re.sub("`[^`]*`", "", line)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short(path: Path) -> None:
    long = [
        f"{number}: {line}"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > COLUMNS and not line.lstrip().startswith("|") and "https://" not in line
    ]
    assert long == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_words_are_plain(path: Path) -> None:
    found = [f"{number}: {line}" for number, line in prose(path) if UNPLAIN.search(line)]
    assert found == []


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path.suffix == ".md"], ids=lambda path: str(path.name)
)
def test_files_that_are_named_exist(path: Path) -> None:
    """`docs/x.md`, `benchmarks/y.py`, `tests/z.py`, `kernels/room/a.py`, and links."""
    text = path.read_text("utf-8")
    rooms = "|".join(child.name for child in SOURCE.iterdir() if child.is_dir())
    top = rf"docs|benchmarks|tests|recipes|src|{rooms}"
    named = set(re.findall(rf"(?<![\w/.-])((?:{top})/[\w./-]+\.(?:py|md|sql|toml))\b", text))
    named |= {
        str((path.parent / link).resolve().relative_to(ROOT))
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text)
    }
    # NAME and ROOM are the reader's; `digit` is of the example of CONTRIBUTING.md.
    named = {name for name in named if not re.search("NAME|ROOM|digit", name)}
    places = (ROOT, SOURCE)
    assert [n for n in sorted(named) if not any((at / n).exists() for at in places)] == []
