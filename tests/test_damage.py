"""A byte that changes under work/ after a stop is found by what reads it back; what wrote it writes it again, and the corpus is the same."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill.errors import MachineError
from gristmill.pipeline import run
from gristmill.phases.corpus import Corpus
from tests.corpora import RECIPE, digests, lay_out

LINES = RECIPE.replace("near = {}", "near = {}\nlines = { most = 20 }\nlargest_cluster = 0.9")
PHASES = ("plan", "fetch", "refine", "relate", "tokenize", "assemble")


class Laid:
    """A recipe, its finished corpus, and the state after each stop."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.recipe = lay_out(folder, count=40, recipe=recipe)
        self.folder = folder
        self.go(folder / "whole")
        self.whole = digests(folder / "whole")
        for phase in PHASES:
            self.go(folder / phase, until=phase)

    def go(self, out: Path, **more: Any) -> list[str]:
        """Run; the lines that were told."""
        told: list[str] = []
        run(
            self.recipe, out=out, workers=1, cache_dir=self.folder / "cache",
            show=lambda event: told.append(event.get("text", "")), **more,
        )  # fmt: skip
        return told

    def files(self, phase: str) -> Iterator[Path]:
        """The files under work/ after a stop, but the lock, which is empty."""
        root = self.folder / phase
        return (
            path.relative_to(root)
            for path in sorted((root / "work").rglob("*"))
            if path.is_file() and path.name != "lock"
        )

    def same_after(self, phase: str, change: Any, tmp_path: Path) -> list[str]:
        """Change a copy of what a stop left and run again: the corpus is the undisturbed one. The lines that were told."""
        corpus = tmp_path / "corpus"
        shutil.rmtree(corpus, ignore_errors=True)
        shutil.copytree(self.folder / phase, corpus)
        change(corpus)
        told = self.go(corpus)
        assert digests(corpus) == self.whole
        gristmill.verify(corpus)
        return told


def flip(path: Path, share: float = 0.5) -> None:
    """Change a bit of the byte that stands at a share of a file."""
    data = bytearray(path.read_bytes())
    if data:
        data[int(share * (len(data) - 1))] ^= 1
        path.write_bytes(data)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Laid:
    return Laid(tmp_path_factory.mktemp("damage"), LINES)


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        ("refine", "work/refine/00000.parquet"), ("refine", "work/stage/documents/00001.parquet"), ("refine", "work/plan.json"),
        ("refine", "work/state/refine/00002.json"), ("relate", "work/relate/drops.parquet"), ("relate", "work/lines/00001.parquet"),
        ("relate", "work/stage/verdicts/00000.parquet"), ("relate", "work/stage/duplicates/copies.parquet"),
        ("tokenize", "work/tokens/00000.train"), ("tokenize", "work/tokens/00000.parquet"), ("assemble", "work/stage/tokens/web/train_00000.bin"),
        ("assemble", "work/stage/samples/00000.parquet"),
    ],
)  # fmt: skip
def test_a_changed_byte_is_found_and_made_anew(laid: Laid, tmp_path: Path, phase: str, name: str) -> None:
    told = laid.same_after(phase, lambda corpus: flip(corpus / name), tmp_path)
    assert any(name in line and "not as it was written" in line for line in told), told
