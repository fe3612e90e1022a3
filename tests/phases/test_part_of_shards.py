"""`--shards I/N`: jobs of an array share a corpus' folder, and the bytes are those of one run."""

import subprocess
from pathlib import Path

import pytest

from gristmill import pipeline
from gristmill.corpus.corpus import Corpus
from gristmill.errors import MachineError, RecipeError
from gristmill.phases import part_of_shards
from gristmill.phases.part_of_shards import ShardsPart
from tests.support.command import command_line
from tests.support.corpora import digests
from tests.support.every_phase import lay_out_all


def job(recipe: Path, out: Path, part: str, until: str | None = None) -> list[str]:
    """Run a job of an array in this process; what it says."""
    said: list[str] = []

    def show(event: dict[str, object]) -> None:
        if event.get("event") == "line":
            said.append(str(event["text"]))

    pipeline.run(recipe, out=out, workers=1, shards=part, until=until, show=show)
    return said


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A recipe that asks for every phase over three raw shards, and the digests of one run."""
    folder = tmp_path_factory.mktemp("made")
    recipe = lay_out_all(folder)
    pipeline.run(recipe, out=folder / "whole", workers=1)
    return recipe, digests(folder / "whole")


def test_jobs_of_an_array_write_the_bytes_of_one_run(
    made: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    recipe, whole = made
    out = tmp_path / "corpus"
    with pytest.raises(RecipeError, match="run the recipe once with --until fetch"):
        job(recipe, out, "1/2")
    pipeline.run(recipe, out=out, until="fetch", workers=1)
    # Two at once, from two command lines.
    lines = [
        command_line("run", recipe, "--out", out, "--workers", 1, "--shards", f"{number}/2")
        for number in (1, 2)
    ]
    jobs = [subprocess.Popen(line, stdout=subprocess.DEVNULL) for line in lines]
    assert [one.wait(120) for one in jobs] == [0, 0]
    assert not Corpus(out).finished()
    # Everything that works shard by shard is done, and a job says what comes next.
    assert "about the whole corpus: when all parts are done, run without --shards" in str(
        job(recipe, out, "1/2")
    )
    pipeline.run(recipe, out=out, until="deduplicate", workers=1)
    for part in ("1/3", "2/3", "3/3"):  # another division than before
        job(recipe, out, part)
    assert len(list((out / "work/state/tokenize").iterdir())) == 3
    pipeline.run(recipe, out=out, workers=1)
    assert digests(out) == whole


def test_a_job_does_its_shards_alone(made: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, _ = made
    out = tmp_path / "corpus"
    pipeline.run(recipe, out=out, until="fetch", workers=1)
    said = job(recipe, out, "2/3")
    assert said == ["part 2 of 3 is done up to process; 2 shards are for other jobs"]
    assert [path.name for path in (out / "work/state/process").iterdir()] == ["00001.json"]
    # A part without shards is no error: an array may have more jobs than there are shards.
    assert job(recipe, out, "7/9") == [  # one is done
        "part 7 of 9 is done up to process; 2 shards are for other jobs"
    ]


def test_who_may_work_on_a_corpus(made: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, _ = made
    out = tmp_path / "corpus"
    pipeline.run(recipe, out=out, until="fetch", workers=1)
    with part_of_shards.held(Corpus(out), ShardsPart(1, 2)):
        with pytest.raises(MachineError, match="another job is at work on part 1 of 2"):
            job(recipe, out, "1/2")
        with pytest.raises(MachineError, match="another run is at work on this corpus"):
            pipeline.run(recipe, out=out, workers=1)
        job(recipe, out, "2/2")


@pytest.mark.parametrize("given", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/99999999", "１/２"])
def test_parts_that_cannot_be(given: str) -> None:
    with pytest.raises(RecipeError, match="write I/N, such as 3/16"):
        part_of_shards.parse(given)
