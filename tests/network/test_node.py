"""A node over a published folder: what it reads, when it rotates, how it goes on and what it
refuses.
"""

import hashlib
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gristmill import GristmillError, TokenCorpus, grow_tokenizer, seen
from gristmill.errors import MachineError, RecipeError, SourceError, VerificationError
from gristmill.loader.batch import Batch
from gristmill.network.node.node import Node
from gristmill.network.node.node_cache import NodeCache
from gristmill.network.node.node_loader import NodeLoader
from gristmill.network.node.node_log import LOG, Loss, Rotated, plan_of_log, read_log
from gristmill.network.node.rotation import PlateauRule
from gristmill.network.node.view_manifest import shard_paths
from gristmill.store import manifest as manifests
from gristmill.store.proof import seal
from tests.support.command import command_line
from tests.support.corpora import jsonl
from tests.support.published import point, published, put
from tests.support.token_corpora import token_corpus

SHAPE = {"sequence_length": 16, "batch_size": 4}


def documents(first: int, count: int) -> list[np.ndarray]:
    """Documents of ten tokens; every token is a number of its own."""
    tokens = np.arange(first, first + 10 * count, dtype=np.int64)
    return list(tokens.reshape(count, 10))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 shards of 100 tokens, of two sources."""
    return token_corpus(
        tmp_path_factory.mktemp("node") / "corpus",
        {"web": documents(1, 120), "books": documents(5000, 80)},
        {"web": documents(9000, 10)},
        vocabulary=10_000,
        tokens_per_shard=100,
    )


@pytest.fixture(scope="module")
def target(corpus: Path) -> Path:
    return published(corpus, corpus.parent / "target")


@pytest.fixture
def own_target(target: Path, tmp_path: Path) -> Path:
    """A target that a test may change."""
    return Path(shutil.copytree(target, tmp_path / "target"))


def tokens_of(corpus: Path, shards: list[str]) -> set[int]:
    return {int(t) for path in shards for t in np.fromfile(corpus / path, "<u2")}


def loss_of(step: int) -> float:
    """A loss that is at a plateau now and then."""
    return 0.01 if step % 23 > 4 else 3.0


def trained(feed: NodeLoader, steps: int) -> list[tuple[int, list[list[int]]]]:
    """Train some steps; (rotation, rows) of each."""
    found = []
    for batch in itertools.islice(feed, steps):
        found.append((feed.rotation, batch.tokens.tolist()))
        feed.report(loss_of(feed.loader.step))
    return found


def rows(batches: Iterator[Batch]) -> list[list[list[int]]]:
    return [batch.tokens.tolist() for batch in batches]


def test_a_rotation_reads_all_of_its_shards_and_nothing_else(
    corpus: Path, target: Path, cache: Path
) -> None:
    with Node(str(target), "node-1", cache_dir=cache, shards=5) as node:
        assert (node.release, node.rotations) == (1, 4)
        with node.batches(**SHAPE, plateau=None) as feed:
            for rotation in range(6):
                shards = node.assigned(rotation)
                assert len(set(shards)) == 5
                read: set[int] = set()
                feed_steps = 0
                while feed_steps == 0 or feed.loader.windows < feed._end:
                    batch = next(feed)
                    feed_steps += 1
                    assert feed.rotation == rotation
                    read |= set(batch.inputs.reshape(-1).tolist())
                held = tokens_of(corpus, shards)
                assert read <= held
                # The rest of each source's division by the window is in no window of an epoch.
                assert len(held - read) <= 2 * 15
            everything = {path for rotation in range(4) for path in node.assigned(rotation)}
            assert everything == set(shard_paths(node.manifest))


def test_a_rotation_that_its_plan_has_no_room_for_is_refused_before_its_first_step(
    target: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Node(str(target), "node-1", cache_dir=cache, shards=5) as node,
        node.batches(**SHAPE, plateau=None) as feed,
    ):
        next(feed)
        monkeypatch.setattr("gristmill.loader.plan.LARGEST", len(seal(feed.loader.plan)) + 9)
        with pytest.raises(RecipeError, match="more shards or epochs a rotation"):
            list(itertools.islice(feed, 1000))
        assert feed.rotation == 0
    entries = read_log(node.log_folder)
    assert sum(isinstance(entry, Rotated) for entry in entries) == 1


def test_losses_rotate_early_and_the_log_says_why(target: Path, cache: Path) -> None:
    with Node(str(target), "node-1", cache_dir=cache) as node:
        with node.batches(**SHAPE, epochs=50) as feed:
            for _ in range(30):
                next(feed)
                early = feed.report(0.01)
                assert early == (feed.loader.step % 20 == 0)
            assert feed.rotation == 1
            with pytest.raises(RecipeError, match="loss = 'x'"):
                feed.report("x")  # type: ignore[arg-type]
        entries = list(read_log(node.log_folder))
        turned = [entry for entry in entries if isinstance(entry, Rotated)]
        assert [(one.reason, one.window, one.rotation) for one in turned] == [
            ("start", 0, 0),
            ("plateau", 80, 1),
        ]
        assert turned[1].shards == node.assigned(1)
        assert sum(isinstance(entry, Loss) for entry in entries) == 30
        # The plan is one that `gristmill seen` reads, over the view of a rotation.
        view = cache / "views" / turned[0].segment.corpus
        found = seen(TokenCorpus.open(view), node.log_folder / "plan.json", step=3)
        assert len(found["windows"]) == 4


def test_it_goes_on_exactly_where_a_state_was_taken_and_replays(
    target: Path, cache: Path, tmp_path: Path, soak: int
) -> None:
    url = str(target)
    wanted = (0, 20, 37) if soak == 1 else range(60)
    with Node(url, "node-1", cache_dir=cache) as node, node.batches(**SHAPE) as feed:
        whole = trained(feed, 80)
        assert {rotation for rotation, _ in whole} > {0, 1}
        assert rows(node.replay(steps=30)) == [one for _, one in whole[:30]]
    with Node(url, "node-1", cache_dir=cache) as node:
        assert rows(node.replay()) == [one for _, one in whole]
        # What rotated follows from the losses in the log.
        plan, _ = plan_of_log(node.log_folder)
        assert len(plan.segments) == whole[-1][0] + 1
        states = {}
        with node.batches(**SHAPE) as feed:
            for step in range(60):
                if step in wanted:
                    states[step] = json.dumps(feed.state_dict())
                trained(feed, 1)
        for step, state in states.items():
            fresh = tmp_path / f"cache-{step}"
            with (
                Node(url, "node-1", cache_dir=fresh) as other,
                other.batches(state=json.loads(state)) as feed,
            ):
                assert trained(feed, 60 - step) == whole[step:60]
        # The log of an interrupted run: the part behind the checkpoint does not count.
        with node.batches(state=json.loads(states[20])) as feed:
            trained(feed, 40)
        assert rows(node.replay()) == [one for _, one in whole[:60]]
        with pytest.raises(RecipeError, match="that of node 'node-1', and this is 'node-2'"):
            Node(url, "node-2", cache_dir=cache).batches(state=json.loads(states[0]))
        for bad in ({}, {"format": 1}, {**json.loads(states[0]), "view": "{}"}, []):
            with pytest.raises(VerificationError):
                node.batches(state=bad)  # type: ignore[arg-type]


def test_ranks_have_the_rows_of_a_step_and_rotate_together(target: Path, tmp_path: Path) -> None:
    with Node(str(target), "n", cache_dir=tmp_path / "one") as node:
        with node.batches(**SHAPE) as feed:
            whole = trained(feed, 60)
        feeds = [
            node.batches(**SHAPE, rank=rank, world_size=2, micro_batch_size=1, log=False)
            for rank in range(2)
        ]
        for rotation, step in whole:
            found = []
            for feed in feeds:
                found += [next(feed).tokens.tolist()[0] for _ in range(2)]
                feed.report(loss_of(feed.loader.step))
                assert feed.rotation == rotation
            assert found == step
        for feed in feeds:
            feed.close()


def test_rendezvous_reads_what_it_holds(corpus: Path, target: Path, cache: Path) -> None:
    nodes = [f"node-{number}" for number in range(6)]
    held: dict[str, int] = {}
    for name in nodes:
        with Node(
            str(target), name, cache_dir=cache, assignment="rendezvous", nodes=nodes, holders=2
        ) as node:
            own = {path for rotation in range(node.rotations) for path in node.assigned(rotation)}
            for path in own:
                held[path] = held.get(path, 0) + 1
    assert held == dict.fromkeys(shard_paths(TokenCorpus.open(corpus).manifest), 2)
    with node.batches(**SHAPE) as feed:
        assert set(next(feed).inputs.reshape(-1).tolist()) <= tokens_of(corpus, node.assigned())


def test_the_next_shards_are_fetched_ahead_and_a_small_cache_is_enough(
    target: Path, cache: Path
) -> None:
    with (
        Node(str(target), "node-1", cache_dir=cache, shards=4) as node,
        node.batches(**SHAPE) as feed,
    ):
        wanted = {
            part.sha256
            for part in node.manifest.parts
            if part.path in node.assigned(1) and part.path not in node.assigned(0)
        }
        for _ in range(200):
            if all(node.cache.path_of(sha256).exists() for sha256 in wanted):
                break
            time.sleep(0.02)
        else:
            pytest.fail("nothing was fetched ahead")
        assert wanted
        assert feed.rotation == 0
    small = cache.parent / "small"
    size = 4 * (200 + 16 * 10) + 1000
    with (
        Node(str(target), "node-1", cache_dir=small, shards=4, cache_bytes=size) as node,
        node.batches(**SHAPE) as feed,
    ):
        seen_rotations = {rotation for rotation, _ in trained(feed, 60)}
        assert len(seen_rotations) > 4
        assert node.cache.use().bytes <= size
    with (
        Node(str(target), "node-1", cache_dir=cache.parent / "tiny", cache_bytes=500) as node,
        pytest.raises(MachineError, match="may have 500 bytes"),
    ):
        node.batches(**SHAPE)


def test_what_is_too_short_is_left_out_and_weights_are_obeyed(corpus: Path, cache: Path) -> None:
    short = token_corpus(
        cache.parent / "short",
        {"web": documents(1, 40), "notes": documents(3000, 1)},
        vocabulary=10_000,
        tokens_per_shard=100,
    )
    target = published(short, cache.parent / "short-target")
    with Node(str(target), "n", cache_dir=cache) as node:
        with node.batches(**SHAPE) as feed:
            next(feed)
        (turned,) = (one for one in read_log(node.log_folder) if isinstance(one, Rotated))
        assert turned.left_out == {"notes": 10}
        with pytest.raises(RecipeError, match="none of its shards can be read"):
            node.batches(sequence_length=10_000, batch_size=1)
        with pytest.raises(RecipeError, match="none of its shards can be read"):
            node.batches(**SHAPE, weights={"books": 1.0})
        with node.batches(**SHAPE, weights={"web": 1.0, "books": 1.0}) as feed:
            assert feed.loader.plan.segments[0].weights == {"web": 1.0, "notes": 0}


def test_a_new_release_is_taken_up_at_a_rotation(
    corpus: Path, own_target: Path, cache: Path
) -> None:
    grown = token_corpus(
        cache.parent / "grown",
        {"web": documents(1, 200), "books": documents(5000, 80)},
        vocabulary=10_000,
        tokens_per_shard=100,
    )
    with Node(str(own_target), "node-1", cache_dir=cache) as node:
        with node.batches(**SHAPE) as feed:
            next(feed)
            time.sleep(0.1)  # the second rotation was fetched ahead, of release 1
            published(grown, own_target, 2)
            first = [rotation for rotation, _ in trained(feed, 70)]
            assert node.release == 2
            releases = [
                one.release for one in read_log(node.log_folder) if isinstance(one, Rotated)
            ]
            assert releases[0] == 1
            assert releases[-1] == 2
            assert first[-1] == len(releases) - 1
        replayed = rows(node.replay())
        assert len(replayed) == 71


def test_what_was_withdrawn_leaves_the_cache(
    corpus: Path, own_target: Path, cache: Path, tmp_path: Path
) -> None:
    """A release that says that earlier ones may not be read any more."""
    changed = documents(1, 120)
    changed[7] = np.zeros(10, np.int64)  # in the first shard
    other = token_corpus(
        tmp_path / "other",
        {"web": changed, "books": documents(5000, 80)},
        {"web": documents(9000, 10)},
        vocabulary=10_000,
        tokens_per_shard=100,
    )
    before, now = (
        {part.path: part.sha256 for part in TokenCorpus.open(root).manifest.parts}
        for root in (corpus, other)
    )
    (path,) = [path for path, sha256 in before.items() if now[path] != sha256]
    with Node(str(own_target), "node-1", cache_dir=cache) as node:
        rotation = next(n for n in range(2) if path in node.assigned(n))
        with node.hold(rotation).view as view:
            assert (view.root / path).exists()
            published(other, own_target, 2, minimum=2)
            node.hold(rotation).view.close()
            assert node.cache.path_of(before[path]).exists()  # it is in use
        with node.hold(rotation).view as view:
            assert (view.root / path).read_bytes() == (other / path).read_bytes()
        assert not node.cache.path_of(before[path]).exists()
        kept = sum(now[path] == sha256 for path, sha256 in before.items())
        assert node.cache.use().objects > kept / 3


def test_the_tokenizer_may_grow_and_may_not_be_another(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_bytes(
        jsonl([{"text": f"the cat number {number} sat on the mat"} for number in range(40)])
    )
    tokenizers = []
    for version in (1, 2):
        before = tmp_path / f"v{version - 1}.json"
        grow_tokenizer(
            {f"source{version}": [tmp_path / "text.jsonl"]},
            tmp_path / f"v{version}.json",
            merges=5 * version,
            **({"tokenizer": before} if version > 1 else {}),
        )
        tokenizers.append((tmp_path / f"v{version}.json").read_bytes())

    def corpus(name: str, tokenizer: bytes, vocabulary: int) -> Path:
        return token_corpus(
            tmp_path / name,
            {"web": documents(1, 20)},
            vocabulary=vocabulary,
            tokens_per_shard=100,
            tokenizer=tokenizer,
        )

    target = published(corpus("one", tokenizers[0], 1000), tmp_path / "target")
    other = Path(shutil.copytree(target, tmp_path / "other"))
    messages: list[str] = []
    with (
        Node(str(target), "n", cache_dir=tmp_path / "cache", on_event=messages.append) as node,
        node.batches(**SHAPE) as feed,
    ):
        trained(feed, 1)
        assert feed.vocabulary == 1000
        published(corpus("two", tokenizers[1], 1200), target, 2)
        trained(feed, 40)
        assert feed.vocabulary == 1200
        assert feed.tokenizer.read_bytes() == tokenizers[1]
        assert any("has grown to 1,200 tokens" in line for line in messages)
    with Node(str(other), "n", cache_dir=tmp_path / "cache2") as node:
        published(corpus("bad", b"another", 1200), other, 2)
        with pytest.raises(VerificationError, match="another tokenizer"):
            node.refresh()
        assert node.release == 1


def test_an_origin_that_is_gone_ends_nothing_that_is_here(own_target: Path, cache: Path) -> None:
    messages: list[str] = []
    with (
        Node(str(own_target), "n", cache_dir=cache, shards=2, on_event=messages.append) as node,
        node.batches(**SHAPE) as feed,
    ):
        trained(feed, 1)
        node.hold(1).view.close()
        away = own_target.rename(own_target.parent / "away")
        with pytest.raises(SourceError, match="cannot be read"):
            for _ in range(100):
                next(feed)
        assert feed.rotation == 1
        assert any(line.startswith("stays with release 1") for line in messages)
        away.rename(own_target)
        next(feed)
        assert feed.rotation == 2
    shutil.rmtree(own_target)
    with pytest.raises(SourceError, match="Nothing was published there"):
        Node(str(own_target), "n", cache_dir=cache)


def test_what_was_altered_is_refused_and_the_next_address_is_asked(
    target: Path, own_target: Path, cache: Path
) -> None:
    with Node(str(target), "n", cache_dir=cache.parent / "other") as node:
        parts = {part.path: part for part in node.manifest.parts}
        cut, altered = (parts[path] for path in node.assigned()[:2])
    for part, data in ((cut, b"short"), (altered, b"x" * altered.size)):
        (own_target / "objects" / part.sha256[:2] / part.sha256).write_bytes(data)
    with Node(str(own_target), "n", cache_dir=cache) as node:
        with pytest.raises(VerificationError, match="altered or cut"):
            node.batches(**SHAPE)
        assert not list(cache.rglob("manifest.json"))
    with (
        Node([str(own_target), str(target)], "n", cache_dir=cache) as node,
        node.batches(**SHAPE) as feed,
    ):
        assert len(trained(feed, 3)) == 3


def test_an_older_release_and_other_tricks_are_refused(
    corpus: Path, own_target: Path, cache: Path, tmp_path: Path
) -> None:
    def refused(said: str, *, kind: type[GristmillError] = VerificationError) -> None:
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(kind, match=said):
            Node(str(own_target), "n", cache_dir=cache)
        assert sorted({*(path.name for path in tmp_path.iterdir()), "cache"}) == sorted(
            {*before, "cache"}
        )

    published(corpus, own_target, 2)
    Node(str(own_target), "n", cache_dir=cache).close()
    point(own_target, 1)
    refused("shows release 1, and release 2 was seen before")
    with Node(str(own_target), "n", cache_dir=tmp_path / "fresh") as node:  # it has seen nothing
        assert node.release == 1
    latest = own_target / "latest.json"
    for text, said in (
        (b"<html>", "no pointer"),
        (b'{"format": 7}', "format 7; this gristmill reads format 1"),
        (b'{"format": 1, "release": 3, "sha256": "../../x"}', "names no release"),
    ):
        latest.write_bytes(text)
        refused(said)
    # A manifest of a later format, and one with a part outside of the folder.
    data = json.loads((corpus / "manifest.json").read_bytes())
    for number, (change, said) in enumerate(
        (
            ({"format": 99}, "format 99; this gristmill reads formats 1 to"),
            ({"parts": [{**data["parts"][0], "path": "../../out"}]}, "leaves the corpus"),
            ({"parts": []}, "no token shards"),
        ),
        3,
    ):
        bad = tmp_path / f"bad-{number}"
        shutil.copytree(corpus, bad)
        (bad / "manifest.json").write_bytes(json.dumps({**data, **change}).encode())
        published_bad(bad, own_target, number)
        kind = RecipeError if said == "no token shards" else VerificationError
        refused(said, kind=kind)


def published_bad(corpus: Path, target: Path, number: int) -> None:
    """Publish a manifest that no publisher of ours would write."""
    text = (corpus / "manifest.json").read_bytes()
    release = {
        "format": 1,
        "number": number,
        "manifest": put(target, text),
        "manifest_size": len(text),
        "previous": None,
        "included": ["tokens"],
    }
    (target / "releases" / f"{number:08}.json").write_text(json.dumps(release))
    point(target, number)


def test_bad_arguments_are_refused(target: Path, cache: Path) -> None:
    url = str(target)
    for arguments, said in (
        ({"node_id": ""}, "node_id = ''"),
        ({"cache_bytes": 0}, "cache_bytes = 0"),
        ({"assignment": "random"}, "assignment = 'random'"),
        ({"assignment": "rendezvous"}, "needs `nodes`"),
        ({"assignment": "rendezvous", "nodes": ["b"]}, "node 'n' is not in the list"),
        ({"shards": 0}, "shards = 0"),
        ({"holders": 0}, "holders = 0"),
        ({"cache_dir": "s3://bucket/x"}, "writes to local folders"),
        ({"cache_dir": __file__}, "a file: name a folder"),
        ({"url": []}, "no URL to read releases from"),
    ):
        with pytest.raises(RecipeError, match=said):
            Node(**{"url": url, "node_id": "n", "cache_dir": cache, **arguments})  # type: ignore[arg-type]
    with Node(url, "n", cache_dir=cache) as node:
        for arguments, said in (
            ({}, "sequence_length is missing"),
            ({**SHAPE, "epochs": 0}, "epochs = 0"),
            ({**SHAPE, "plateau": PlateauRule(window=0)}, "plateau: window"),
        ):
            with pytest.raises(RecipeError, match=said):
                node.batches(**arguments)  # type: ignore[arg-type]
        with node.batches(**SHAPE), pytest.raises(MachineError, match="another process trains"):
            node.batches(**SHAPE)


def test_a_log_that_was_cut_goes_on_and_one_that_was_changed_is_refused(
    target: Path, cache: Path
) -> None:
    with Node(str(target), "n", cache_dir=cache) as node:
        with node.batches(**SHAPE) as feed:
            whole = trained(feed, 10)
        log = node.log_folder / LOG
        with log.open("ab") as file:
            file.write(b'{"event":"loss","wind')  # killed in the middle of a write
        assert rows(node.replay()) == [one for _, one in whole]
        with node.batches(**SHAPE):
            pass
        assert all(line.endswith(b"}\n") for line in log.read_bytes().splitlines(keepends=True))
        view = next((node.log_folder / "views").iterdir())
        view.write_bytes(view.read_bytes().replace(b"web", b"wed"))
        with pytest.raises(VerificationError, match="disagree"):
            rows(node.replay(steps=1))
        log.write_bytes(b'{"event":"other"}\n')
        with pytest.raises(VerificationError, match="line 1: not an entry"):
            rows(node.replay())
        with pytest.raises(RecipeError, match="no log of a node"):
            rows(node.replay(cache / "nowhere"))


def test_a_view_is_a_corpus_of_its_own(corpus: Path, target: Path, cache: Path) -> None:
    with Node(str(target), "n", cache_dir=cache) as node:
        held = node.hold(0)
        view = TokenCorpus.open(held.view.root)
        view.prove()
        assert {f"tokens/{name}" for name in view.sources()} == {
            path.rpartition("/")[0] for path in node.assigned(0)
        }
        digest = manifests.make_lock((corpus / "manifest.json").read_bytes()).split()[0].decode()
        assert view.manifest.inputs == {"release": {"name": "manifest.json", "sha256": digest}}
        held.view.close()


def test_the_verb_fetches_and_says_where(target: Path, cache: Path) -> None:
    words = ["node", target, "--node-id", "node-1", "--cache-dir", cache, "--cache-bytes", "1MB"]
    done = subprocess.run(
        command_line(*words, "--json"), capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["release"], found["rotation"], found["rotations"]) == (1, 0, 2)
    assert found["tokens"] == sum(
        part.counts["tokens"]
        for part in TokenCorpus.open(found["corpus"]).manifest.parts
        if part.path in found["shards"]
    )
    (names := cache.parent / "nodes").write_text("node-1\nnode-2\n")
    more = ["--assignment", "rendezvous", "--nodes", names, "--holders", "1", "--rotation", "1"]
    done = subprocess.run(command_line(*words, *more), capture_output=True, text=True, check=True)
    assert "without a pinned root" in done.stdout
    assert "rotation 1 of " in done.stdout
    wrong = command_line(*words, "--assignment", "rendezvous", "--nodes", "none")
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert (done.returncode, "--nodes none: cannot be read" in done.stderr) == (2, True)


TRAINER = """
import json, sys, time
from gristmill import Node
with Node(sys.argv[1], "n", cache_dir=sys.argv[2]) as node:
    try:
        state = json.load(open(sys.argv[3]))
    except FileNotFoundError:
        state = None
    shape = {} if state else {"sequence_length": 16, "batch_size": 4}
    with node.batches(**shape, state=state) as feed:
        while feed.loader.step < 60:
            if feed.loader.step % 5 == 0:
                import os
                with open(sys.argv[3] + ".next", "w") as file:
                    json.dump(feed.state_dict(), file)
                os.replace(sys.argv[3] + ".next", sys.argv[3])
            batch = next(feed)
            feed.report(0.01 if feed.loader.step % 23 > 4 else 3.0)
            print(feed.loader.step, flush=True)
"""


def test_a_killed_trainer_goes_on_and_its_log_replays(
    target: Path, cache: Path, tmp_path: Path, soak: int
) -> None:
    with (
        Node(str(target), "n", cache_dir=tmp_path / "whole") as node,
        node.batches(**SHAPE) as feed,
    ):
        whole = [one for _, one in trained(feed, 60)]
    command = [sys.executable, "-c", TRAINER, str(target), str(cache), str(tmp_path / "state")]
    for kill_at in (29, 60) if soak == 1 else (*range(3, 59, 3), 60):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= kill_at < 60:
                child.kill()
        assert child.wait() == (0 if kill_at == 60 else -signal.SIGKILL)
        child.stdout.close()
    with Node(str(target), "n", cache_dir=cache) as node:
        assert rows(node.replay()) == whole


def test_eight_processes_share_a_cache_and_some_are_killed(
    target: Path, cache: Path, soak: int
) -> None:
    """Each fetches its shards; the limit leaves room for those of all, but not for what is left of
    earlier rotations. Soak: 40 rotations.
    """
    pick = random.Random(3)
    size = 8 * (200 + 16 * 10) + 1000
    for rotation in range(2 if soak == 1 else 2 * soak):
        processes = []
        for number in range(8):
            words = ["node", target, "--node-id", f"node-{number}", "--cache-dir", cache]
            words += ["--cache-bytes", size, "--shards", 1, "--rotation", rotation, "--json"]
            processes.append(
                subprocess.Popen(
                    command_line(*words),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            )
        for process in pick.sample(processes, 2):
            time.sleep(pick.uniform(0, 0.2))
            process.kill()
        for process in processes:
            out, said = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), said
            if process.returncode == 0:
                assert len(json.loads(out)["shards"]) == 1
    use = NodeCache(cache, size).use()
    assert (use.bytes <= size, use.quarantined) == (True, 0)
    for path in (cache / "objects").rglob("*"):
        if path.is_file():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    NodeCache(cache, size).evict(1 << 30)
    assert NodeCache(cache, size).use() == (0, 0, 0, 0)  # the killed hold nothing
