"""Whose a place is: the marker, and every verb in a place that holds a stranger's files.

PLACES names each place that a verb writes, READ what a verb only reads. Both are compared with the
command line: a verb or a path that is in neither fails the test.
"""

import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer

from gristmill import LoaderPlan, pipeline
from gristmill.cli.app import app
from gristmill.errors import MachineError, RecipeError
from gristmill.store.bucket.bucket import Bucket
from gristmill.store.cache import Cache
from gristmill.system.ownership import (
    MARKER,
    NAMES,
    Folder,
    Prefix,
    claim,
    claim_folder,
    writable_by_others,
)
from tests.support import releases
from tests.support.command import command_line
from tests.support.corpora import RECIPE, digests, lay_out
from tests.support.token_corpora import token_corpus

DIGEST = "a" * 64
NAMES_OF_OURS = (
    "work/exp1/r.csv work/importing work/lock work/state/process/00000.json documents/00000.parquet"
    f" recipe.toml manifest.json SHA256SUMS run.json funnel.json objects/x.jpg objects/{DIGEST}"
    f" objects/aa/{DIGEST} urls/{DIGEST}.json runs/{DIGEST}.json partial/{DIGEST}.partial lock"
    " tokens/web/train_00000.bin text/web/00000.parquet tokenizer/tokenizer.json raw/a.txt"
    " corpus/a.txt cache/a.txt gristmill.json gristmill.unfinished.json ratios.csv run-0000.json"
    " state.pt weights.csv latest.json releases/00000001.json trust/1.root.json"
    f" views/{DIGEST}.lock needs/x.json quarantine/x notes.0123abcd.writing thesis.writing"
    f" {'b' * 32}/index.json building-plans/a.txt corpora/x"
).split()


def marked(folder: Path) -> str:
    """The kind that a folder's marker says."""
    return str(json.loads((folder / MARKER).read_bytes())["kind"])


class World(NamedTuple):
    """What the verbs are given."""

    corpus: Path  # finished, from raw/ and recipe.toml beside it
    tokens: Path  # a corpus of two sources, without a run
    key: Path  # that signs releases
    mine: Path  # a stranger's files
    spare: Path  # an empty folder


class Case(NamedTuple):
    """A verb in a place that is a stranger's."""

    words: Callable[[World], list[Any]]
    variable: str | None = None  # the environment variable that names the place
    refused: bool = True  # False: the verb needs nothing of the place here


FILE = "tokens/web/train_00000.bin"  # a stranger's file


def file(w: World) -> Path:
    """A file that is there."""
    return w.mine / FILE


def text(w: World) -> Path:
    """Some text to train on."""
    return w.corpus.parent / "raw/b.jsonl"


def recipe(w: World) -> Path:
    """The corpus' recipe."""
    return w.corpus.parent / "recipe.toml"


def with_mix(w: World) -> Path:
    """A recipe with a mix of the corpus `tokens`."""
    path = w.spare / "mix.toml"
    sources = "".join(f'[[source]]\nname = "{name}"\nfiles = ["x"]\n' for name in ("web", "code"))
    mix = "[mix]\nweights = {web = 0.5, code = 0.5}\ntokens = 80\nsequence_length = 4\n"
    path.write_text(f'output = "{w.tokens}"\n{sources}{mix}batch_size = 2\n')
    return path


def tables(w: World) -> list[Path]:
    """The shares and the metrics of enough runs."""
    pick = np.random.default_rng(1)
    shares, metrics = ["run,web,code"], ["run,loss"]
    for number in range(12):
        share = pick.uniform(0.2, 0.8)
        shares.append(f"run-{number},{share:.6f},{1 - share:.6f}")
        metrics.append(f"run-{number},{2 + share:.4f}")
    for name, lines in (("ratios.csv", shares), ("metrics.csv", metrics)):
        (w.spare / name).write_text("\n".join(lines) + "\n")
    return [w.spare / "ratios.csv", w.spare / "metrics.csv"]


def one_token_file(w: World) -> Path:
    """A folder with tokens to import."""
    (w.spare / "in").mkdir()
    np.array([1, 2, 0, 3, 0], "<u2").tofile(w.spare / "in/train.bin")
    return w.spare / "in"


def copy(w: World) -> Path:
    """A corpus that may be changed."""
    shutil.copytree(w.corpus, w.spare / "copy")
    return w.spare / "copy"


def published(w: World) -> Path:
    """A target with a release."""
    done = mill(w, "publish", w.corpus, w.spare / "target")
    assert done.returncode == 0, done.stderr
    return w.spare / "target"


def in_dot(w: World) -> list[Any]:
    """A run whose output is the folder of the recipe and of its input."""
    (w.mine / "recipe.toml").write_text(
        'output = "."\n[[source]]\nname = "w"\nfiles = ["raw/a.txt"]\n'
    )
    return ["run", w.mine / "recipe.toml", "--workers", 1]


PLACES: dict[tuple[str, str], Case] = {
    ("run", "out"): Case(lambda w: ["run", recipe(w), "--out", w.mine, "--workers", 1]),
    ("run", "what"): Case(in_dot),
    ("run", "shards"): Case(lambda w: ["run", recipe(w), "--out", w.mine, "--shards", "1/2"]),
    ("run", "cache_dir"): Case(
        lambda w: [
            *("run", recipe(w), "--out", w.spare / "c", "--workers", 1),
            *("--cache-dir", w.mine, "--cache-bytes", "1KB"),
        ]
    ),
    ("run", "GRISTMILL_KERNELS"): Case(
        lambda w: ["run", recipe(w), "--out", w.spare / "c", "--workers", 1],
        variable="GRISTMILL_KERNELS",
    ),
    ("init", "path"): Case(lambda w: ["init", file(w)]),
    ("report", "out"): Case(lambda w: ["report", w.corpus, "--out", file(w)]),
    ("card", "out"): Case(lambda w: ["card", w.corpus, "--out", file(w)]),
    ("explore", "out"): Case(lambda w: ["explore", w.corpus, "--out", file(w)]),
    ("size", "cache_dir"): Case(
        lambda w: ["size", recipe(w), "--cache-dir", w.mine], refused=False
    ),
    ("node", "cache_dir"): Case(
        lambda w: ["node", published(w), "--node-id", "n", "--cache-dir", w.mine]
    ),
    ("pack", "GRISTMILL_PACKING"): Case(
        lambda w: ["pack", w.tokens, "--sequence-length", 4], variable="GRISTMILL_PACKING"
    ),
    ("export", "out"): Case(lambda w: ["export", w.corpus, "--to", "nanogpt", "--out", w.mine]),
    ("import", "out"): Case(
        lambda w: [
            *("import", one_token_file(w), "--from", "nanogpt", "--out", w.mine),
            *("--tokenizer", w.corpus.parent / "tokenizer.json"),
        ]
    ),
    ("import", "cache_dir"): Case(
        lambda w: [
            *("import", one_token_file(w), "--from", "nanogpt", "--out", w.spare / "c"),
            *("--tokenizer", w.corpus.parent / "tokenizer.json", "--cache-dir", w.mine),
        ],
        refused=False,
    ),
    ("publish", "target"): Case(lambda w: ["publish", w.corpus, w.mine]),
    ("publish", "draft"): Case(
        lambda w: [*("publish", w.corpus, w.spare / "t"), "--key", w.key, "--draft", file(w)]
    ),
    ("pull", "folder"): Case(lambda w: ["pull", published(w), w.mine]),
    ("demo", "folder"): Case(lambda w: ["demo", w.mine, "--workers", 1]),
    ("tokenizer train", "out"): Case(
        lambda w: ["tokenizer", "train", text(w), "--vocabulary", 300, "--out", file(w)]
    ),
    ("tokenizer grow", "out"): Case(
        lambda w: ["tokenizer", "grow", f"web={text(w)}", "--merges", 9, "--out", file(w)]
    ),
    ("model train-classifier", "out"): Case(
        lambda w: [
            *("model", "train-classifier", "--good", text(w), "--bad", text(w)),
            *("--out", file(w)),
        ]
    ),
    ("model train-perplexity", "out"): Case(
        lambda w: ["model", "train-perplexity", text(w), "--out", file(w)]
    ),
    ("mix show", "plan"): Case(lambda w: ["mix", "show", with_mix(w), "--plan", file(w)]),
    ("mix propose", "out"): Case(
        lambda w: ["mix", "propose", with_mix(w), "--runs", 2, "--out", w.mine]
    ),
    ("mix fit", "plot"): Case(
        lambda w: ["mix", "fit", *tables(w), "--plot", w.mine / "picture.svg"]
    ),
    ("doremi", "out"): Case(
        lambda w: ["doremi", w.tokens, "--out", w.mine, "--size", "nano", "--steps", 2]
    ),
    ("doremi", "plot"): Case(
        lambda w: [
            *("doremi", w.tokens, "--out", w.spare / "d", "--size", "nano", "--steps", 2),
            *("--plot", w.mine / "picture.svg"),
        ]
    ),
    ("release key", "path"): Case(lambda w: ["release", "key", file(w)]),
    ("release sign", "target"): Case(lambda w: ["release", "sign", w.mine, "--key", w.key]),
    ("release sign", "draft"): Case(
        lambda w: ["release", "sign", published(w), "--key", w.key, "--draft", file(w)]
    ),
    ("release rotate", "target"): Case(lambda w: ["release", "rotate", w.mine, "--key", w.key]),
    ("release rotate", "draft"): Case(
        lambda w: ["release", "rotate", w.spare / "t", "--key", w.key, "--draft", file(w)]
    ),
    ("release withdraw", "target"): Case(
        lambda w: ["release", "withdraw", "0:1", "--corpus", copy(w), "--target", w.mine]
    ),
    ("release withdraw", "draft"): Case(
        lambda w: [
            *("release", "withdraw", "0:1", "--corpus", copy(w), "--target", published(w)),
            *("--key", w.key, "--draft", file(w)),
        ]
    ),
    ("release withdraw", "cache_dir"): Case(
        lambda w: ["release", "withdraw", "0:1", "--corpus", copy(w), "--cache-dir", w.mine],
        refused=False,
    ),
}
# Paths that a verb reads.
READ = {
    ("run", "plan"),
    *(("verify", name) for name in ("corpus", "cache_dir")),
    *(("diff", name) for name in ("a", "b")),
    *((verb, "corpus") for verb in "why lines substrings contamination duplicates check".split()),
    *((verb, "corpus") for verb in "report card pack explore seen bench-loader stats".split()),
    *((verb, "corpus") for verb in ("chinchilla", "losses", "export", "publish")),
    *(("rejudge", name) for name in ("recipe", "out")),
    *(("size", name) for name in ("recipe", "out")),
    *(("node", name) for name in ("root", "nodes")),
    ("report", "other"),
    ("status", "root"),
    ("seen", "plan"),
    ("doremi", "recipe"),
    ("losses", "model"),
    ("import", "folder"),
    *(("publish", name) for name in ("key", "signed")),
    ("pull", "root"),
    ("tokenizer train", "inputs"),
    ("tokenizer grow", "tokenizer"),
    ("tokenizer show", "inputs"),
    *(("model train-classifier", name) for name in ("good", "bad")),
    ("model train-perplexity", "files"),
    ("model show", "model"),
    *(("mix show", name) for name in ("recipe", "corpus")),
    *(("mix propose", name) for name in ("recipe", "corpus")),
    *(("mix fit", name) for name in ("ratios", "metrics")),
    *(("release withdraw", name) for name in ("corpus", "key", "signed")),
    *((f"release {verb}", name) for verb in ("sign", "rotate") for name in ("key", "signed")),
}
# Verbs that take no path.
WITHOUT = {"explain", "curve", "version"}


def verbs(command: Any = None, name: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """The verbs of the command line, and their functions."""
    command = command or typer.main.get_command(app)
    if hasattr(command, "commands"):
        for word, one in command.commands.items():
            yield from verbs(one, f"{name} {word}".strip())
    else:
        yield name, inspect.unwrap(command.callback)


def test_every_path_of_every_verb_is_in_a_table() -> None:
    paths = {
        (verb, name)
        for verb, function in verbs()
        for name, given in inspect.signature(function).parameters.items()
        if "Path" in str(given.annotation)
    }
    assert paths - PLACES.keys() - READ == set(), "say whether the verb writes there"
    assert paths >= READ
    assert not READ & PLACES.keys()
    known = {verb for verb, _ in (*PLACES, *READ)} | WITHOUT
    assert {verb for verb, _ in verbs()} == known


def contents(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder, by its path; null: a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def strangers(folder: Path) -> Path:
    """A folder with a stranger's files, some of which have names that gristmill uses."""
    for name in (*NAMES_OF_OURS, "picture.svg"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}: somebody's, gristmill report\n")
    return folder


def mill(w: World, *words: Any, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command_line(*words),
        cwd=w.spare,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GRISTMILL_KEY_PASSPHRASE": "a passphrase", **variables},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("ownership")
    path = lay_out(folder, count=20, recipe=f'output = "corpus"\n{RECIPE}')
    pipeline.run(path, workers=1, cache_dir=folder / "cache")
    documents = [[1, 2, 3, 0]] * 60
    tokens = token_corpus(folder / "tokens", {"web": documents, "code": documents})
    w = World(folder / "corpus", tokens, folder / "key", folder, folder)
    done = mill(w, "release", "key", w.key)
    assert done.returncode == 0, done.stderr
    return w


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    (tmp_path / "spare").mkdir()
    return made._replace(mine=strangers(tmp_path / "mine"), spare=tmp_path / "spare")


@pytest.mark.parametrize("place", sorted(PLACES), ids=" ".join)
def test_no_verb_touches_what_is_a_strangers(world: World, place: tuple[str, str]) -> None:
    case = PLACES[place]
    if place[0] == "doremi":
        pytest.importorskip("torch")
    words = case.words(world)
    before = contents(world.mine)
    done = mill(world, *words, **({case.variable: str(world.mine)} if case.variable else {}))
    assert contents(world.mine) == before
    assert "Traceback" not in done.stderr
    assert (done.returncode != 0) is case.refused, (done.stdout, done.stderr)
    if case.refused:
        assert str(world.mine) in done.stderr, done.stderr
        assert done.returncode in (2, 5), done.stderr


def test_what_gristmill_wrote_is_replaced_and_force_replaces_the_rest(world: World) -> None:
    """Each verb that writes one file: over its own earlier file, and with --force over others."""
    w, out = world, world.spare / "out"
    out.mkdir()
    sentences = out / "text.txt"
    sentences.write_text("the mill turns and the river runs on\n\n" * 400)
    for words in (
        ["report", w.corpus, "--out", out / "r.html"],
        ["card", w.corpus, "--out", out / "c.md"],
        ["explore", w.corpus, "--no-map", "--out", out / "e.parquet"],
        ["model", "train-perplexity", sentences, "--out", out / "p.model"],
        ["model", "train-classifier", "--good", text(w), "--bad", sentences, "--out", out / "m"],
        ["mix", "show", with_mix(w), "--plan", out / "plan.json"],
    ):
        for more in ([], []):
            done = mill(w, *words, *more)
            assert done.returncode == 0, (words, done.stderr)
        ours = Path(words[-1]).read_bytes()
        Path(words[-1]).write_text("somebody's")
        done = mill(w, *words)
        assert done.returncode == 2, words
        assert "--force" in done.stderr, words
        assert Path(words[-1]).read_text() == "somebody's"
        assert mill(w, *words, "--force").returncode == 0, words
        assert Path(words[-1]).read_bytes() == ours, words


def test_a_picture_of_gristmill_is_known(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from gristmill.mixing.plot import figure, refuse_picture, write

    for end in (".svg", ".png", ".pdf"):
        path = tmp_path / f"p{end}"
        for _ in range(2):
            refuse_picture(path, force=False)
            write(figure(1)[0], path)
        path.write_bytes(b"a picture about gristmill")
        with pytest.raises(RecipeError, match="--force"):
            refuse_picture(path, force=False)
        refuse_picture(path, force=True)


def test_a_plan_replaces_a_plan_and_no_other_file(made: World, tmp_path: Path) -> None:
    plan = LoaderPlan.start(made.tokens, sequence_length=4, batch_size=2)
    for _ in range(2):
        plan.save(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text('{"format": 1}')
    with pytest.raises(RecipeError, match="it is there already"):
        plan.save(tmp_path / "plan.json")
    plan.save(tmp_path / "plan.json", force=True)


# -- the marker


def test_an_empty_place_becomes_ours_and_no_other_kind(tmp_path: Path) -> None:
    for _ in range(2):
        claim_folder(tmp_path / "a/b", "cache")
    before = (tmp_path / "a/b" / MARKER).read_bytes()
    (tmp_path / "a/b/mine.txt").write_text("put there later")
    claim_folder(tmp_path / "a/b", "cache")
    assert (tmp_path / "a/b" / MARKER).read_bytes() == before
    with pytest.raises(MachineError, match="is a cache .* not a corpus"):
        claim_folder(tmp_path / "a/b", "corpus")
    assert marked(tmp_path / "a/b") == "cache"
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").touch()
    with pytest.raises(MachineError, match=r"holds 'mine.txt', and no .*nothing is touched"):
        claim_folder(tmp_path / "full", "corpus")
    assert sorted(os.listdir(tmp_path / "full")) == ["mine.txt"]


def test_a_marker_that_is_none(tmp_path: Path) -> None:
    for place, data in enumerate(
        (b"", b"{}", b"not json", b'{"format": 2, "kind": "corpus", "id": "1"}', b"\xff")
    ):
        (tmp_path / f"{place}").mkdir()
        (tmp_path / f"{place}" / MARKER).write_bytes(data)
        with pytest.raises(MachineError, match=MARKER):
            claim_folder(tmp_path / f"{place}", "corpus")
        assert (tmp_path / f"{place}" / MARKER).read_bytes() == data
    claim_folder(tmp_path / "real", "corpus")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / MARKER).symlink_to(tmp_path / "real" / MARKER)
    with pytest.raises(MachineError, match="not one that gristmill wrote"):
        claim_folder(tmp_path / "linked", "corpus")


def test_what_a_killed_claim_left_is_nothing(tmp_path: Path) -> None:
    (tmp_path / f"{MARKER}.0123abcd.writing").write_text("half")
    (tmp_path / "lost+found").mkdir()
    claim_folder(tmp_path, "corpus")
    assert marked(tmp_path) == "corpus"


def test_many_processes_begin_in_one_empty_folder(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from gristmill.system.ownership import claim_folder\n"
        "root, start = Path(sys.argv[1]), float(sys.argv[2])\n"
        "for number in range(40):\n"
        "    while time.time() < start + number * 0.02: pass\n"
        "    claim_folder(root / str(number), 'corpus')\n"
        "    (root / str(number) / 'work').mkdir(exist_ok=True)\n"
    )
    start = time.time() + 3
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(start)], stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.communicate()[1] == b""
        assert child.returncode == 0
    for folder in tmp_path.iterdir():
        assert sorted(os.listdir(folder)) == [MARKER, "work"]


def test_a_marker_that_a_network_lists_before_it_opens(tmp_path: Path) -> None:
    claim_folder(tmp_path, "corpus")
    (tmp_path / "work").mkdir()

    class Late(Folder):
        looks = 0

        def marker(self) -> bytes | None:
            self.looks += 1
            return super().marker() if self.looks > 4 else None

    claim(Late(tmp_path), "corpus")


# -- corpora and caches


def test_a_corpus_without_a_marker_is_known_by_manifest_and_lock(
    made: World, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.corpus.parent, folder)
    corpus = folder / "corpus"
    (corpus / MARKER).unlink()
    shutil.rmtree(corpus / "work")
    (corpus / "notes.txt").write_text("mine")
    (corpus / "documents/thesis.writing").write_text("mine")
    before = digests(corpus)
    pipeline.run(folder / "recipe.toml", workers=1, cache_dir=tmp_path / "cache")
    assert marked(corpus) == "corpus"
    assert digests(corpus) == before
    assert MARKER not in (corpus / "SHA256SUMS").read_text()
    assert (corpus / "notes.txt").read_text() == "mine"
    assert (corpus / "documents/thesis.writing").read_text() == "mine"
    (corpus / MARKER).unlink()
    (corpus / "manifest.lock").write_text(f"{DIGEST}  manifest.json\n")
    there = contents(corpus)
    with pytest.raises(MachineError, match="nothing is touched"):
        pipeline.run(folder / "recipe.toml", workers=1, cache_dir=tmp_path / "cache")
    assert contents(corpus) == there


def test_a_cache_of_an_earlier_version_is_known_by_its_objects(tmp_path: Path) -> None:
    def older(name: str, data: bytes, more: str = "") -> Cache:
        cache = Cache(tmp_path / name)
        path = cache.object(hashlib.sha256(b"bytes").hexdigest())
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        if more:
            (cache.root / more).write_text("mine")
        return cache

    older("earlier", b"bytes").own()
    for cache in (
        older("other", b"others"),
        older("photos", b"bytes", "objects/x.jpg"),
        older("beside", b"bytes", "thesis.txt"),
    ):
        before = contents(cache.root)
        with pytest.raises(MachineError, match="nothing is touched"):
            cache.evict(0)
        assert contents(cache.root) == before
    ours = Cache(tmp_path / "earlier")
    (ours.root / "objects/x.jpg").write_text("put there later")
    assert ours.evict(0).files == 1
    assert (ours.root / "objects/x.jpg").read_text() == "put there later"


def test_a_folder_that_others_may_write_is_told(tmp_path: Path, made: World) -> None:
    assert writable_by_others(tmp_path / "nowhere") is None
    for mode, said in ((0o755, False), (0o757, True), (0o700, False)):
        tmp_path.chmod(mode)
        assert (writable_by_others(tmp_path) is not None) is said
    cache = tmp_path / "cache"
    lines: list[str] = []
    for _ in range(2):
        claim_folder(cache, "cache", mode=0o755)
        cache.chmod(0o777)
        lines.clear()
        pipeline.run(
            made.corpus.parent / "recipe.toml",
            workers=1,
            cache_dir=cache,
            show=lambda event: lines.append(str(event)),
        )
    assert sum(f"chmod go-w {cache}" in line for line in lines) == 1


# -- an object store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with releases.bucket(tmp_path_factory.mktemp("s3"), "places") as client:
        yield client


def there(client: Any, prefix: str) -> dict[str, bytes]:
    """All objects below a prefix, by key."""
    found = client.list_objects_v2(Bucket="places", Prefix=f"{prefix}/").get("Contents", [])
    return {
        entry["Key"]: client.get_object(Bucket="places", Key=entry["Key"])["Body"].read()
        for entry in found
    }


def test_no_verb_touches_a_prefix_that_is_a_strangers(store: Any, world: World) -> None:
    from gristmill.network.releases.publish import publish
    from gristmill.network.trust.signing import rotate

    for name in NAMES_OF_OURS:
        store.put_object(Bucket="places", Key=f"mine/{name}", Body=b"mine")
    before = there(store, "mine")
    url = "s3://places/mine"
    for go in (
        lambda: pipeline.run(recipe(world), out=url, workers=1, cache_dir=world.spare / "cache"),
        lambda: publish(world.corpus, url),
        lambda: rotate(url, [world.key], "a passphrase", changes={}),
    ):
        with pytest.raises(MachineError, match="nothing is touched there"):
            go()
        assert there(store, "mine") == before


def test_a_prefix_becomes_ours_once(store: Any, made: World) -> None:
    place = Prefix(Bucket("s3://places/new"))
    claim(place, "release")
    before = there(store, "new")
    assert list(before) == [f"new/{MARKER}"]
    claim(Prefix(Bucket("s3://places/new")), "release")
    assert there(store, "new") == before
    with pytest.raises(MachineError, match="is a published corpus .* not a corpus"):
        claim(place, "corpus")

    class Slow(Prefix):
        """Another driver writes the marker between the look and the write."""

        def write(self, data: bytes) -> None:
            claim(Prefix(Bucket("s3://places/both")), "corpus")
            super().write(data)

    claim(Slow(Bucket("s3://places/both")), "corpus")
    assert len(there(store, "both")) == 1
    from gristmill.corpus.layout import is_corpus

    for name in ("manifest.json", "manifest.lock"):
        store.upload_file(str(made.corpus / name), "places", f"earlier/{name}")
    read = {key.rpartition("/")[2]: data for key, data in there(store, "earlier").items()}
    claim(Prefix(Bucket("s3://places/earlier")), "corpus", lambda _: is_corpus(read.get))
    assert f"earlier/{MARKER}" in there(store, "earlier")


def test_every_kind_has_words() -> None:
    assert all(name and advice for name, advice in NAMES.values())
