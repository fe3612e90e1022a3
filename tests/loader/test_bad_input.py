"""What a loader, the ledger and packing refuse, and with which words: damaged shards, corpora that
contradict themselves, wrong types, and plans and states that somebody else has made.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import TokenCorpus
from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError
from gristmill.loader.ledger import seen
from gristmill.loader.loader import Loader
from gristmill.loader.packing_report import packing_report
from gristmill.loader.plan import LARGEST, LoaderPlan
from gristmill.store.proof import PROOF, seal
from tests.support.command import command_line
from tests.support.manifests import forge
from tests.support.naive_order import numbered
from tests.support.token_corpora import token_corpus

SETTINGS: dict[str, Any] = {"sequence_length": 10, "batch_size": 4}


def corpus(folder: Path, **form: Any) -> Path:
    sources = {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90)}
    return token_corpus(folder, sources, tokens_per_shard=100, **form)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("bad") / "corpus")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_PACKING", str(tmp_path_factory.mktemp("packing")))


DAMAGE = {
    "short": (lambda path: path.write_bytes(path.read_bytes()[:-2]), "198 bytes, expected 200"),
    "missing": (lambda path: path.unlink(), "missing"),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_a_damaged_shard_is_refused_in_one_sentence_everywhere(tmp_path: Path, kind: str) -> None:
    root = corpus(tmp_path / "corpus")
    plan = LoaderPlan.start(root, **SETTINGS)
    plan.save(tmp_path / "plan.json")
    path = root / "tokens/web/train_00002.bin"
    damage, found = DAMAGE[kind]
    damage(path)
    said = f"{path}: not as it was written: {found}. Fetch it again, or run the recipe again"
    reads: list[Callable[[], object]] = [
        lambda: [
            batch.inputs for batch, _ in zip(Loader(root, plan=plan), range(50), strict=False)
        ],
        lambda: packing_report(TokenCorpus.open(root), 8),
    ]
    for read in reads:
        with pytest.raises(VerificationError) as refused:
            read()
        assert str(refused.value) == said
    with pytest.raises(VerificationError, match=r"Fetch it again, or run the recipe again$"):
        Loader(root, **SETTINGS, verify=True)
    path.with_suffix(".docs").unlink()
    said = f"{path.with_suffix('.docs')}: not as it was written: missing. Fetch it again, or"
    path.write_bytes(bytes(200))
    for words in (
        ("pack", root, "--sequence-length", 8),
        ("bench-loader", root, "--tokens-per-second", 10, "--sequence-length", 8),
        ("seen", root, "--plan", tmp_path / "plan.json", "--from", 0, "--to", 50),
    ):
        done = subprocess.run(command_line(*words), capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (4, True), (words, done.stderr)


def test_a_shard_of_another_tokenizer(tmp_path: Path) -> None:
    """Of the same size, and with tokens that this one does not have; or without, by its digest."""
    root = corpus(tmp_path / "corpus")
    path = root / "tokens/web/train_00001.bin"
    tokens = np.fromfile(path, "<u2")
    tokens[7] = 1000
    path.write_bytes(tokens.tobytes())
    said = "train_00001.bin: token 7 is 1,000, and the tokenizer has 1,000 tokens: the shard is of"
    with Loader(root, **SETTINGS) as loader, pytest.raises(VerificationError, match=said):
        for _ in range(200):
            next(loader)
    tokens[7] = 999
    path.write_bytes(tokens.tobytes())
    with pytest.raises(VerificationError, match=r"train_00001.bin: not as it was written: sha256"):
        Loader(root, **SETTINGS, verify=True)


def test_a_vocabulary_that_uint16_has_no_room_for(tmp_path: Path) -> None:
    root = corpus(tmp_path / "corpus")
    forge(root, lambda table: table["tokens"].update(vocabulary=65_536))
    TokenCorpus.open(root)
    forge(root, lambda table: table["tokens"].update(vocabulary=65_537))
    with pytest.raises(
        VerificationError, match="room for 65,536, and that the vocabulary has 65,5"
    ):
        Loader(root, **SETTINGS)


def test_an_empty_shard_is_passed_over(tmp_path: Path) -> None:
    """One that the manifest says is empty; one that should have tokens is refused by its size."""
    root = corpus(tmp_path / "corpus")
    with Loader(root, **SETTINGS) as loader:
        whole = [next(loader).tokens.tolist() for _ in range(60)]
    folder = root / "tokens/web"
    names = [path.stem for path in sorted(folder.glob("*.bin"))]

    def insert(table: dict[str, Any]) -> None:
        # Shards 3 and up get the next number; 3 is empty.
        for name in reversed(names[3:]):
            later = f"train_{int(name[-5:]) + 1:05}"
            for end in ("bin", "docs"):
                (folder / f"{name}.{end}").rename(folder / f"{later}.{end}")
                part = next(p for p in table["parts"] if p["path"].endswith(f"web/{name}.{end}"))
                part["path"] = f"tokens/web/{later}.{end}"
        for end in ("bin", "docs"):
            (folder / f"train_00003.{end}").write_bytes(b"")
            counts = {"tokens": 0, "documents": 0} if end == "bin" else {"documents": 0}
            part = {"path": f"tokens/web/train_00003.{end}", "size": 0, "sha256": "0" * 64}
            table["parts"].append({**part, "counts": counts})
        table["parts"].sort(key=lambda part: part["path"])

    streams = TokenCorpus.open(root).stream("web")
    before = [field.tolist() for field in streams.documents(0, streams.tokens)]
    forge(root, insert)
    stream = TokenCorpus.open(root).stream("web")
    assert len(stream.shards) == len(names) + 1
    assert [field.tolist() for field in stream.documents(0, stream.tokens)] == before
    for packing in ("concat", "best_fit", "aligned"):
        with Loader(root, **SETTINGS, packing=packing) as loader:
            found = [row for _ in range(60) for row in next(loader).tokens.tolist()]
        if packing == "concat":  # another manifest, another order: the same windows in an epoch
            assert {w for row in found for w in row} == {
                w for batch in whole for row in batch for w in row
            }
    (folder / "train_00000.bin").write_bytes(b"")
    with Loader(root, **SETTINGS) as loader, pytest.raises(VerificationError, match="0 bytes, exp"):
        for _ in range(200):
            next(loader)


def test_a_source_without_tokens_is_not_read(tmp_path: Path) -> None:
    root = token_corpus(tmp_path / "corpus", {"web": numbered(1, 60, 30), "none": [[], []]})
    with Loader(root, **SETTINGS) as loader:
        assert "none" not in loader.sources or not next(loader).sources.max()
    with pytest.raises(RecipeError, match="'none'"):
        Loader(root, **SETTINGS, weights={"none": 1, "web": 1})


def test_documents_longer_than_a_window(tmp_path: Path) -> None:
    """Packings cut them and say how many; best_fit refuses them where it is asked to."""
    root = token_corpus(tmp_path / "corpus", {"web": [[*range(1, n), 0] for n in (5, 30, 8, 41)]})
    packing = {"kind": "best_fit", "longer": "refuse"}
    corpus = TokenCorpus.open(root)
    assert packing_report(corpus, 16, "best_fit")["all"]["cut"] == 2
    assert packing_report(corpus, 41, packing)["all"]["cut"] == 0
    said = "source 'web' has 2 documents longer than a window of 16 tokens, the longest of 41"
    for call in (
        lambda: packing_report(corpus, 16, packing),
        lambda: Loader(root, sequence_length=16, batch_size=1, packing=packing),
    ):
        with pytest.raises(RecipeError, match=said):
            call()
    with pytest.raises(RecipeError, match="longer = 'drop': it is one of cut, refuse"):
        packing_report(corpus, 16, {"kind": "best_fit", "longer": "drop"})


def test_windows_longer_than_every_source(root: Path) -> None:
    said = "no source has a window of 5,000 positions; web has"
    for packing in ("concat", "aligned"):
        with pytest.raises(RecipeError, match=said):
            packing_report(TokenCorpus.open(root), 5000, packing)


def test_a_closed_loader(root: Path) -> None:
    loader = Loader(root, **SETTINGS)
    first = next(loader)
    loader.close()
    with pytest.raises(RecipeError, match="the loader is closed, at window 4: open another one"):
        next(loader)
    state = loader.state_dict()
    with Loader(root, state=state) as other:
        second = next(other).tokens.tolist()
    loader.seek(0)
    assert next(loader).tokens.tolist() == first.tokens.tolist()
    assert next(loader).tokens.tolist() == second
    loader.close()
    loader.close()


def test_a_plan_is_saved_where_it_can_be(root: Path, tmp_path: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)
    plan.save(tmp_path / "new/folder/plan.json")
    assert LoaderPlan.load(tmp_path / "new/folder/plan.json") == plan
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MachineError, match="a file stands where a folder should be"):
        plan.save(tmp_path / "file/plan.json")
    with pytest.raises(RecipeError, match="a folder: name the file for the plan"):
        plan.save(tmp_path)
    with pytest.raises(RecipeError, match="cannot be read: Is a directory"):
        LoaderPlan.load(tmp_path)
    with pytest.raises(RecipeError, match="cannot be read: embedded null"):
        LoaderPlan.load("a\0b")


WRONG: list[dict[str, Any]] = [
    *(
        {name: value}
        for name in ("sequence_length", "batch_size")
        for value in ("8", 2.0, None, -1)
    ),
    *({name: value} for name in ("micro_batch_size", "steps") for value in ("8", 2.0, 0, [1])),
    *({name: value} for name in ("rank", "world_size", "prefetch") for value in ("1", None, -1)),
    *({"weights": value} for value in (3, ["web"], {"web": "1"}, {"web": float("nan")}, {3: 1})),
    *({"weights": {"web": value}} for value in (-1, 10**400, float("inf"), None, True)),
    *({"packing": value} for value in (3, {"kind": ["x"]}, {}, {"kind": "concat", 3: 4}, "")),
    *({"packing": {"kind": "best_fit", "split_at": value}} for value in (3, ["x"], {})),
    *({"seed": value} for value in ("1", 1.5, True)),
    *({"plan": value} for value in (3, b"{}", "/dev/zero", ["x"])),
    *({"state": value} for value in (3, "x", [], {}, {"format": 1}, {"format": True, "plan": 3})),
    {"sequence_length": 1 << 40},
    {"batch_size": 1 << 40},
    {"prefetch": 1 << 40},
    {"split": ["train"]},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_wrong_types_and_ranges_are_refused_with_their_name(
    root: Path, settings: dict[str, Any]
) -> None:
    with pytest.raises(GristmillError) as refused:
        Loader(root, **{**SETTINGS, **settings})
    name = next(iter(settings))
    if name != "plan":
        assert name.split("_")[0] in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_numbers_of_numpy_are_numbers(root: Path) -> None:
    settings = {name: np.int64(value) for name, value in SETTINGS.items()}
    with Loader(root, **settings, micro_batch_size=np.int32(2)) as loader:
        assert next(loader).inputs.shape == (2, 10)
        assert loader.plan == LoaderPlan.start(root, **SETTINGS)
        json.dumps(loader.state_dict())
        loader.seek_step(np.int64(3))
        for seek in (loader.seek, loader.seek_step):
            for value in ("3", 1.5, None, True):
                with pytest.raises(RecipeError, match="it is a whole number"):
                    seek(value)  # type: ignore[arg-type]


def test_questions_of_wrong_types(root: Path) -> None:
    plan = LoaderPlan.start(root, **SETTINGS)
    for asked in (
        {"step": "x"},
        {"step": 1.5},
        {"steps": ("a", 3)},
        {"steps": (0, 2.5)},
        {"document": "9" * 5000},
        {"document": 1 << 70},
        {"document": -1},
        {"document": "1:" + "9" * 30},
        {"step": 1, "steps": (0, 3)},
    ):
        with pytest.raises(RecipeError):
            seen(root, plan, **asked)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="it is a whole number"):
        plan.changed(root, from_window="8")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="corpus = 3: it is the folder of a corpus"):
        seen(3, plan, step=1)  # type: ignore[arg-type]


def sealed(plan: LoaderPlan, change: dict[str, Any]) -> bytes:
    """A plan of an attacker: sealed, with other values in its segment and first source."""
    table = json.loads(seal(plan))
    del table[PROOF]
    segment = table["segments"][0]
    for key, value in change.items():
        of, _, name = key.rpartition(".")
        {"": segment, "source": segment["sources"][0], "plan": table}[of][name] = value
    return seal(table)


HUGE = (-1, 1 << 63, 10**300)
HOSTILE: list[dict[str, Any]] = [
    *({"batch_size": value} for value in (0, *HUGE)),
    *({"sequence_length": value} for value in (0, *HUGE)),
    *({"from_window": value} for value in HUGE),
    *(
        {f"source.{name}": value}
        for name in ("tokens", "windows", "unused", "slots", "epoch", "rank", "unread")
        for value in HUGE
    ),
    *({"source.name": value} for value in ("../../etc", "web", "", "a\0b", "x" * 100_000)),
    *({"packing": value} for value in ({}, {"kind": "../x"}, {"kind": ["x"]}, {"kind": None})),
    {"packing": {"kind": "best_fit", "split_at": {"a": [1] * 1000}}},
    *({"weights": value} for value in ({"web": -1}, {"web": float("nan")}, {"web": 1e400}, [])),
    *({"corpus": value} for value in ("../../etc/passwd", "", "0" * 64)),
    *({"seed": value} for value in ("1", None, 1.5)),
    {"end_of_text": 1 << 40},
    {"vocabulary": 0},
    {"dtype": "object"},
    {"split": "../x"},
    {"sources": []},
    {"plan.segments": []},
    {"plan.segments": [[[]]]},
    {"plan.format": 0},
    {"plan.more": 1},
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: str(change)[:60])
def test_hostile_plans_are_refused(root: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    """Well sealed: a digest says who wrote it, and not that it is true."""
    plan = LoaderPlan.start(root, **SETTINGS)
    data = sealed(plan, change)
    (tmp_path / "plan.json").write_bytes(data)
    state = {"format": 1, "windows": 0, "plan": data.decode()}
    for call in (
        lambda: next(Loader(root, plan=tmp_path / "plan.json")),
        lambda: next(Loader(root, state=state)),
        lambda: Loader(root, **SETTINGS, state=state),
        lambda: seen(root, tmp_path / "plan.json", steps=(0, 2)),
    ):
        with pytest.raises(GristmillError) as refused:
            call()
        assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"format": 1, "segments": ' + b"9" * 6000 + b"}",
        b"\xff\xfe{}",
        b'"\\ud800"',
        b"null",
        b"0" * (LARGEST + 1),
    ],
    ids=lambda data: str(data[:20]),
)
def test_json_that_is_no_plan(root: Path, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "plan.json").write_bytes(data)
    with pytest.raises(VerificationError, match=r"no plan, or changed after it was written"):
        LoaderPlan.load(tmp_path / "plan.json")
    with pytest.raises(VerificationError):
        Loader(root, state={"format": 1, "windows": 0, "plan": data.decode(errors="replace")})


def test_a_later_format_is_named(root: Path) -> None:
    """Whether its digest is one of ours or not: a later gristmill may take it in another way."""
    data = sealed(LoaderPlan.start(root, **SETTINGS), {"plan.format": 2, "more": [1]})
    table = {**json.loads(data), PROOF: "blake3:12"}
    for plan in (data, json.dumps(table).encode()):
        said = "a plan of format 2, and this gristmill reads format 1: update gristmill"
        with pytest.raises(VerificationError, match=said):
            LoaderPlan.decode(plan)
        with pytest.raises(VerificationError, match=said):
            Loader(root, state={"format": 1, "windows": 0, "plan": plan.decode()})
    with pytest.raises(VerificationError, match="it has format 9, .* reads format 1: update grist"):
        Loader(root, state={"format": 9, "position": 3})


def test_an_edited_plan_is_told_once(root: Path) -> None:
    data = seal(LoaderPlan.start(root, **SETTINGS)).replace(b'"seed": 0', b'"seed": 1')
    with pytest.raises(VerificationError) as refused:
        LoaderPlan.decode(data, "plan.json")
    assert len(re.findall("written", str(refused.value))) == 2
    assert str(refused.value).startswith(
        "plan.json: no plan, or changed after it was written (not as it was written). "
    )
