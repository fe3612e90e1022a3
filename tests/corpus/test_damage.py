"""A byte that changes under work/ after a stop is found by what reads it back; what wrote it writes
it again, and the corpus is the same.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import duplicates, run
from gristmill.corpus.corpus import Corpus
from gristmill.errors import MachineError, VerificationError
from tests.support.command import command_line
from tests.support.corpora import RECIPE, digests, lay_out

LINES = RECIPE.replace("near = {}", "near = {}\nlines = { most = 20 }\nlargest_cluster = 0.9")
PHASES = ("plan", "fetch", "process", "deduplicate", "tokenize", "assemble")


class Laid:
    """A recipe, its finished corpus, and the state after each stop."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.recipe = lay_out(folder, count=40, recipe=recipe)
        self.folder = folder
        self.go(folder / "whole")
        self.whole = digests(folder / "whole")
        for phase in PHASES:
            self.go(folder / "going", until=phase)
            shutil.copytree(folder / "going", folder / phase)

    def go(self, out: Path, **more: Any) -> list[str]:
        """Run; the lines that were told."""
        told: list[str] = []
        run(
            self.recipe,
            out=out,
            workers=1,
            cache_dir=self.folder / "cache",
            show=lambda event: told.append(event.get("text", "")),
            **more,
        )
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
        """Change a copy of what a stop left and run again: the corpus is the undisturbed one. The
        lines that were told.
        """
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


def before_phases(monkeypatch: pytest.MonkeyPatch, what: Callable[[str], None]) -> None:
    """Do something before each phase, which `what` gets the name of."""
    from gristmill.phases import rounds

    original = rounds.PhaseRounds._phase

    def phase(self: Any, phase: Any, state: Any) -> Any:
        what(phase.name)
        return original(self, phase, state)

    monkeypatch.setattr(rounds.PhaseRounds, "_phase", phase)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Laid:
    return Laid(tmp_path_factory.mktemp("damage"), LINES)


@pytest.mark.parametrize(
    ("phase", "names"),
    [
        ("fetch", ["plan.json"]),
        (
            "process",
            ["process/00000.parquet", "stage/documents/00001.parquet", "state/process/00002.json"],
        ),
        (
            "deduplicate",
            [
                "deduplicate/drops.parquet",
                "count_lines/00001.parquet",
                "stage/verdicts/00000.parquet",
                "stage/duplicates/copies.parquet",
            ],
        ),
        (
            "tokenize",
            ["tokens/00000.train", "tokens/00001.parquet", "stage/signatures/00002.parquet"],
        ),
        (
            "assemble",
            ["stage/tokens/web/train_00000.bin", "stage/samples/00000.parquet", "plan.json"],
        ),
    ],
)
def test_changed_bytes_are_found_and_made_anew(
    laid: Laid, tmp_path: Path, phase: str, names: list[str]
) -> None:
    """Some files of each kind; `make soak` does every file alone."""

    def spoil(corpus: Path) -> None:
        for name in names:
            flip(corpus / "work" / name)

    told = laid.same_after(phase, spoil, tmp_path)
    for name in names:
        assert any(f"work/{name}: not as it was written" in line for line in told), (name, told)


def finished_halfway(laid: Laid, corpus: Path, renames: int) -> None:
    """Finish what `--until assemble` left, and stop the writing of the state after a
    number of files were put into their places.
    """

    class Killed(BaseException):
        pass

    left = {"renames": 10**9}
    with pytest.MonkeyPatch.context() as patch:

        def complete(self: Corpus, lock: bytes, original: Any = Corpus._complete) -> None:
            left["renames"] = renames
            original(self, lock)

        def rename(self: Path, target: Path, original: Any = Path.rename) -> Path:
            left["renames"] -= 1
            if left["renames"] < 0:
                raise Killed
            return original(self, target)

        patch.setattr(Corpus, "_complete", complete)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(Killed):
            laid.go(corpus)


@pytest.mark.parametrize("renames", [0, 5])
def test_a_byte_that_changes_while_a_kill_holds_the_new_state(
    laid: Laid, tmp_path: Path, renames: int, soak: int
) -> None:
    shutil.copytree(laid.folder / "assemble", tmp_path / "killed")
    finished_halfway(laid, tmp_path / "killed", renames)
    staged = [
        path.relative_to(tmp_path / "killed")
        for path in sorted((tmp_path / "killed/work/stage").rglob("*"))
        if path.is_file()
    ]
    assert len(staged) > 10
    for name in staged if soak > 1 else staged[-1:]:
        corpus = tmp_path / "corpus"
        shutil.copytree(tmp_path / "killed", corpus)
        flip(corpus / name)
        told = laid.go(corpus)
        assert any(str(name) in line for line in told), told
        assert digests(corpus) == laid.whole
        gristmill.verify(corpus)
        shutil.rmtree(corpus)


def test_a_state_over_an_older_corpus_is_given_up_and_done_again(
    laid: Laid, tmp_path: Path
) -> None:
    """The old state is half replaced: it is no corpus any more, and what it alone had is
    removed.
    """
    corpus, settings = tmp_path / "corpus", {"tokens.tokens_per_shard": "2000"}
    shutil.copytree(laid.folder / "whole", corpus)
    laid.go(corpus, settings=settings)
    laid.go(corpus, until="assemble")
    finished_halfway(laid, corpus, 3)
    flip(next(path for path in sorted((corpus / "work/stage").rglob("*.bin"))))
    laid.go(corpus, settings={"tokens.tokens_per_shard": "30000"})  # has fewer parts than both
    gristmill.verify(corpus)
    laid.go(corpus)
    assert digests(corpus) == laid.whole
    gristmill.verify(corpus)  # no file of the old state is left


def test_cut_longer_and_missing_files_are_made_anew(laid: Laid, tmp_path: Path) -> None:
    def spoil(corpus: Path) -> None:
        stage = corpus / "work/stage"
        (stage / "documents/00000.parquet").write_bytes(
            (stage / "documents/00000.parquet").read_bytes()[:-1]
        )
        (stage / "signatures/00001.parquet").write_bytes(
            (stage / "signatures/00001.parquet").read_bytes() + b"\0"
        )
        (stage / "verdicts/00002.parquet").unlink()
        (corpus / "work/deduplicate/drops.parquet").write_bytes(b"")
        (corpus / "work/state/write_verdicts/00003.json").write_bytes(b'{"key": ')

    told = laid.same_after("deduplicate", spoil, tmp_path)
    assert sum("not as it was written" in line for line in told) >= 5, told


def test_what_is_damaged_while_the_run_is_at_work_is_made_anew(
    laid: Laid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each phase looks at what it reads, not only the start of a run."""
    corpus, spoilt = tmp_path / "corpus", []
    shutil.copytree(laid.folder / "plan", corpus)
    before = {
        "deduplicate": "stage/documents/00000.parquet",
        "count_lines": "stage/verdicts/00001.parquet",
        "tokenize": "stage/duplicates/lines.parquet",
        "assemble": "tokens/00000.train",
    }

    def spoil(phase: str) -> None:
        name = before.get(phase)
        if name is not None and name not in spoilt:
            spoilt.append(name)
            flip(corpus / "work" / name)

    before_phases(monkeypatch, spoil)
    told = laid.go(corpus)
    for name in spoilt:
        assert any(name in line for line in told), (name, told)
    assert digests(corpus) == laid.whole
    gristmill.verify(corpus)


def test_a_disk_that_always_gives_other_bytes_ends_the_run(
    laid: Laid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(laid.folder / "process", corpus)

    def spoil(phase: str) -> None:
        if phase == "deduplicate":
            flip(corpus / "work/stage/documents/00000.parquet")

    before_phases(monkeypatch, spoil)
    with pytest.raises(MachineError, match="does not give back what was written"):
        laid.go(corpus)


@pytest.mark.soak
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_flip_in_every_file_after_every_stop(
    laid: Laid, tmp_path: Path, phase: str, share: float
) -> None:
    for name in laid.files(phase):
        laid.same_after(phase, lambda corpus, name=name: flip(corpus / name, share), tmp_path)


@pytest.mark.parametrize("name", ["verdicts/00001.parquet", "duplicates/copies.parquet"])
def test_what_looks_at_a_stopped_run_says_what_is_damaged(
    laid: Laid, tmp_path: Path, name: str
) -> None:
    shutil.copytree(laid.folder / "deduplicate", tmp_path / "corpus")
    assert not duplicates(tmp_path / "corpus")["finished"]
    flip(tmp_path / "corpus/work/stage" / name)
    with pytest.raises(VerificationError, match=f"{name}: not as it was written"):
        duplicates(tmp_path / "corpus")


def test_what_was_left_out_of_a_corpus_is_no_damage(laid: Laid, tmp_path: Path) -> None:
    """keep_documents = false: another tokenizing reads the raw shards again, and nothing is said of
    damage.
    """
    corpus, settings = tmp_path / "corpus", {"keep_documents": "false"}
    laid.go(corpus, settings=settings)
    told = laid.go(corpus, settings={**settings, "tokens.validation": "0.5"})
    assert not any("not as it was written" in line for line in told), told
    gristmill.verify(corpus)


JUNK = [
    b"",
    b"[]",
    b"null",
    b"7",
    b'{"key": 1, "parts": {}}',
    b'{"format": 99, "shards": []}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"shards": [{"number": 7}]}',
]


@pytest.mark.parametrize("phase", ["process", "deduplicate", "tokenize"])
def test_records_and_plans_that_are_none_are_made_anew(
    laid: Laid, tmp_path: Path, phase: str
) -> None:
    """Every JSON file under work/ is replaced by something else."""

    def spoil(corpus: Path) -> None:
        for place, path in enumerate(sorted((corpus / "work").rglob("*.json"))):
            path.write_bytes(JUNK[place % len(JUNK)])
        gristmill.status(corpus)

    laid.same_after(phase, spoil, tmp_path)


def test_files_and_folders_in_each_others_place_are_removed(laid: Laid, tmp_path: Path) -> None:
    def spoil(corpus: Path) -> None:
        for name in (
            "state/process/00000.json",
            "process/00001.parquet",
            "stage/verdicts/00000.parquet",
            "deduplicate/drops.parquet",
            "plan.json",
        ):
            (corpus / "work" / name).unlink()
            (corpus / "work" / name / "inside").mkdir(parents=True)
        for name in ("count_lines", "stage/signatures", "state/write_verdicts", "tokens"):
            shutil.rmtree(corpus / "work" / name, ignore_errors=True)
            (corpus / "work" / name).write_bytes(b"a file")

    told = laid.same_after("deduplicate", spoil, tmp_path)
    assert sum("should: it is removed" in line for line in told) == 9, told


@pytest.mark.parametrize(
    "name",
    [
        "work",
        "work/stage/documents",
        "work/state",
        "work/lock",
        "tokens",
        "work/process/00000.parquet",
    ],
)
def test_links_in_a_corpus_are_refused_and_nothing_behind_them_is_touched(
    laid: Laid, tmp_path: Path, name: str
) -> None:
    corpus, behind = tmp_path / "corpus", tmp_path / "behind"
    shutil.copytree(laid.folder / "deduplicate", corpus)
    path = corpus / name
    if path.exists():
        path.rename(behind)
    else:
        behind.mkdir()
        (behind / "train_00000.bin").write_bytes(b"somebody's")
    path.symlink_to(behind)
    before = {file: file.read_bytes() for file in behind.rglob("*") if file.is_file()}
    with pytest.raises(MachineError, match="a link to"):
        laid.go(corpus)
    assert {file: file.read_bytes() for file in behind.rglob("*") if file.is_file()} == before


def test_a_folder_that_nothing_can_be_written_to_is_refused_in_a_sentence(
    laid: Laid, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for out in (
        "/proc/gristmill",
        "/dev/full/corpus",
        tmp_path / "file",
        tmp_path / "file/corpus",
        tmp_path / ("long" * 100),
    ):
        with pytest.raises(MachineError, match="Choose another"):
            laid.go(Path(out))
    command = command_line("run", str(laid.recipe), "--out", "/proc/gristmill")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
