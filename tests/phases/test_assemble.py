"""Token shards written with runs and without: the same bytes, and which sources are written how."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import run
from gristmill.engine.local import LocalSession
from gristmill.phases.output import assemble, shuffle
from gristmill.phases.output.shuffle import RawShardTokens, fits
from tests.support.every_phase import in_process
from tests.support.scored import RECIPE, lay_out


def test_runs_and_no_runs_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = lay_out(tmp_path)
    recipe.write_text(RECIPE[: RECIPE.index("[tokens.repeat]")], "utf-8")
    taken: list[str] = []
    for name in ("_ordered", "_sorted"):
        monkeypatch.setattr(assemble, name, _noting(getattr(assemble, name), taken))
    with in_process():
        run(recipe, out=tmp_path / "corpus", workers=1, until="assemble")
        work = tmp_path / "corpus/work"
        one = _files(work / "stage/tokens")
        shutil.rmtree(work / "stage/tokens")
        shutil.rmtree(work / "state/assemble")
        monkeypatch.setattr(shuffle, "MOST_FILES", 0)
        run(recipe, out=tmp_path / "corpus", workers=1, until="assemble")
    assert taken == ["_ordered"] * 2 + ["_sorted"] * 2
    assert sum("train_" in name and name.endswith(".bin") for name in one) > 2
    assert one == _files(work / "stage/tokens")


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _noting(function: Any, taken: list[str]) -> Any:
    def noted(*given: Any) -> Any:
        taken.append(function.__name__)
        return function(*given)

    return noted


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(shuffle, "free_memory", lambda: 4_000)
    yield


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("shards", "size", "documents", "right"),
    [
        (0, 0, 0, False),
        (1, 1_000, 9, True),
        (1, 1_001, 9, False),
        (shuffle.MOST_FILES, 10, 9, True),
        (shuffle.MOST_FILES + 1, 9, 9, False),
        (2, 9, shuffle.MOST_DOCUMENTS // 2, True),
        (2, 9, shuffle.MOST_DOCUMENTS // 2 + 1, False),
    ],
)
def test_what_is_written_without_runs(shards: int, size: int, documents: int, right: bool) -> None:
    listed = [RawShardTokens(number, [], size, documents) for number in range(shards)]
    assert fits(listed, LocalSession(2)) == right
    assert not fits(listed, LocalSession(2, in_one_process=False))
