"""A corpus in an object store: the bytes of a local run, whatever happens on the way."""

import json
import pickle
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gristmill import pipeline, pull, verify, why
from gristmill.corpus import store_lock
from gristmill.corpus.corpus import Record
from gristmill.corpus.store_lock import StoreLock
from gristmill.corpus.stored_corpus import StoredCorpus
from gristmill.engine import engine as engines
from gristmill.engine.engine import Event, Job
from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError
from gristmill.phases import tasks_on_nodes
from gristmill.reports.status import status_question
from gristmill.store.bucket.bucket import Bucket
from gristmill.store.http import remotes
from gristmill.store.parts import Part
from gristmill.system.ownership import MARKER, Prefix, claim
from tests.support import servers
from tests.support.corpora import digests
from tests.support.every_phase import InProcess, in_process, lay_out_all
from tests.support.faults import site as http_site
from tests.support.growing import growing
from tests.support.releases import bucket
from tests.support.stored import copied, names


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with bucket(tmp_path_factory.mktemp("s3"), "corpora") as client:
        yield client


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A recipe that asks for every phase over three raw shards, and the digests of a local run."""
    folder = tmp_path_factory.mktemp("made")
    recipe = lay_out_all(folder)
    with in_process():
        pipeline.run(recipe, out=folder / "whole", workers=1)
    return recipe, digests(folder / "whole")


def works(client: Any, prefix: str) -> set[str]:
    """The digests of the files under work/ that records name."""
    found = set()
    for name in names(client, prefix):
        if name.startswith("work/state/"):
            body = client.get_object(Bucket="corpora", Key=f"{prefix}/{name}")["Body"].read()
            found |= {part["sha256"] for part in json.loads(body)["work"]}
    return found


def go(recipe: Path, prefix: str, cache: Path, **more: Any) -> tuple[list[str], list[str]]:
    """Run in this process: (the phases that did something, the lines that were said)."""
    events: list[dict[str, Any]] = []
    with in_process():
        pipeline.run(
            recipe,
            out=f"s3://corpora/{prefix}",
            workers=1,
            cache_dir=cache,
            show=events.append,
            **more,
        )
    ran = dict.fromkeys(one["phase"] for one in events if one["event"] == "phase")
    return [one for one in ran if one != "fetch"], [
        one["text"] for one in events if one["event"] == "line"
    ]


def test_the_bytes_of_a_local_run(
    store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """By worker processes; then nothing is left to do, also for a machine that knows nothing."""
    recipe, whole = made
    out = "s3://corpora/deep/folder with a space/ä%23"
    pipeline.run(recipe, out=Path(out), workers=1, cache_dir=tmp_path / "a")
    prefix = out.removeprefix("s3://corpora/")
    found = names(store, prefix)
    assert copied(store, prefix, tmp_path / "copy") == whole
    # What is left of the run is what another reads: no lock, no copy of a part.
    assert not [name for name in found if name.endswith((".next", "lock.json", "obsolete.json"))]
    assert {name.split("/")[1] for name in found if name.startswith("work/")} == {
        "objects",
        "plan.json",
        "state",
    }
    objects = {name.rpartition("/")[2] for name in found if name.startswith("work/objects/")}
    assert objects == works(store, prefix)
    pulled = pull(out, tmp_path / "pulled")
    assert (pulled["parts"], pulled["release"]) == (len(whole) - 3, None)
    assert digests(tmp_path / "pulled") == whole
    verify(tmp_path / "pulled")
    pull(out, tmp_path / "tokens", only=["tokens"])
    ask, lines = status_question([out])
    assert lines(ask())[0].startswith(f"{out}: written by a run, manifest {pulled['manifest']}")
    assert pull(out, tmp_path / "pulled")["manifest"] == pulled["manifest"]
    said = go(recipe, prefix, tmp_path / "b")
    assert said == ([], [f"{out}: nothing to do, everything in it is up to date"])


def test_another_machine_goes_on_and_makes_anew_what_is_damaged(
    store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    recipe, whole = made
    go(recipe, "damaged", tmp_path / "a", until="deduplicate")
    for verb in (partial(pull, folder=tmp_path / "pulled"), status_question):
        with pytest.raises(RecipeError, match="none has finished it"):
            verb(["s3://corpora/damaged"])
    records = [name for name in names(store, "damaged") if name.startswith("work/state/")]
    objects = [name for name in names(store, "damaged") if name.startswith("work/objects/")]
    assert len(records) > 10
    # Three of each kind of damage: another byte (of texts, which are read again), cut short, gone;
    # and a record.
    pick = random.Random(3)
    texts = [f"work/objects/{whole[f'documents/{number:05}.parquet']}" for number in range(3)]
    others = pick.sample([name for name in objects if name not in texts], 6)
    chosen = zip(texts, others[:3], others[3:], strict=True)
    for place, name in enumerate(name for three in chosen for name in three):
        key = {"Bucket": "corpora", "Key": f"damaged/{name}"}
        data = store.get_object(**key)["Body"].read()
        if place % 3 == 0:
            at = pick.randrange(len(data))
            store.put_object(**key, Body=data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        elif place % 3 == 1:
            store.put_object(**key, Body=data[:-1])
        else:
            store.delete_object(**key)
    store.put_object(Bucket="corpora", Key=f"damaged/{records[0]}", Body=b"{}")
    ran, said = go(recipe, "damaged", tmp_path / "b")
    assert {"process", "tokenize", "assemble"} <= set(ran)
    assert any("is not there" in line for line in said), said
    assert copied(store, "damaged", tmp_path / "copy") == whole


@pytest.mark.soak
def test_a_finished_corpus_is_run_with_another_recipe_and_back(
    store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    recipe, whole = made
    go(recipe, "changed", tmp_path / "a")
    other = recipe.with_name("other.toml")
    other.write_text(recipe.read_text().replace("5_000", "9_000"))
    with in_process():
        pipeline.run(other, out=tmp_path / "other", workers=1)
    assert go(other, "changed", tmp_path / "b")[0] == ["assemble"]
    assert copied(store, "changed", tmp_path / "copy") == digests(tmp_path / "other")
    # The parts that only the first state had are gone.
    left = [name for name in names(store, "changed") if name.startswith("tokens/")]
    wanted = {name for name in digests(tmp_path / "other") if name.startswith("tokens/")}
    assert set(left) == wanted
    assert go(recipe, "changed", tmp_path / "c")[0] == ["assemble"]
    assert copied(store, "changed", tmp_path / "again") == whole


def test_a_driver_that_ends_while_it_finishes(
    store: Any,
    made: tuple[Path, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    soak: int,
) -> None:
    """Its n-th request that changes anything from the manifest on fails, for some n; a machine that
    knows nothing completes the state.
    """
    recipe, whole = made
    go(recipe, "base", tmp_path / "base", until="assemble")
    base = names(store, "base")
    count = at = 0

    def failing(name: str) -> Any:
        method = getattr(Bucket, name)

        def call(self: Bucket, *given: Any) -> Any:
            nonlocal count
            if given[0] == "manifest.json.next" or count:
                count += 1
                if count == at:
                    raise MachineError("the machine ends here")
            return method(self, *given)

        return call

    with monkeypatch.context() as patch:
        for name in ("put", "copy", "delete"):
            patch.setattr(Bucket, name, failing(name))
        points = (1, 2, 3, 20, len(whole), len(whole) + 1, len(whole) + 2, len(whole) + 9)
        for at in points[3:4] if soak == 1 else points:
            count = 0
            for name in base:
                source = {"Bucket": "corpora", "Key": f"base/{name}"}
                store.copy_object(Bucket="corpora", Key=f"end{at}/{name}", CopySource=source)
            with pytest.raises(GristmillError, match="the machine ends here"):
                go(recipe, f"end{at}", tmp_path / f"{at}")
            patch.setattr(store_lock, "_is_gone", lambda _: True)
            at, last = 0, at
            go(recipe, f"end{last}", tmp_path / f"{last} again")
            assert copied(store, f"end{last}", tmp_path / f"copy{last}") == whole
            shutil.rmtree(tmp_path / f"copy{last}")


def test_who_may_work_on_it(store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, _ = made
    bucket = Bucket("s3://corpora/locked")
    claim(Prefix(bucket), "corpus")
    lock = StoreLock(bucket)
    lock.take()
    with pytest.raises(MachineError, match=r"another run is at work .* process \d+ on .*renewed"):
        go(recipe, "locked", tmp_path / "a")
    assert names(store, "locked") == [MARKER, "work/lock.json"]
    lock.release()
    go(recipe, "locked", tmp_path / "a", until="plan")
    assert names(store, "locked") == [MARKER, "work/plan.json"]


def test_a_lock_that_nobody_renews_is_taken_over_and_its_run_stops(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "RENEW", 0.1)
    said: list[str] = []
    slow, other = StoreLock(Bucket("s3://corpora/slow")), StoreLock(Bucket("s3://corpora/slow"))
    slow.take()
    monkeypatch.setattr(store_lock, "STALE", -5.0)  # the store counts whole seconds
    other.take(said.append)
    assert "left its lock: it is taken over" in said[0]
    slow._thread.join(5)
    with pytest.raises(MachineError, match="took over the lock of this run"):
        slow.check()
    slow.release()
    other.check()
    other.release()
    assert names(store, "slow") == []


def test_what_is_refused(
    store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, _ = made
    for out, said in {
        "s3://corpora/a/../b": "without a query, a fragment and dots",
        "s3://key:secret@corpora/a": "credentials come from the environment",
        "s3://corpora/a#b": "without a query, a fragment",
        "s3://no-such-bucket/a": "there is no such bucket",
        "https://host/a": "gristmill writes to local folders",
    }.items():
        with pytest.raises(GristmillError, match=said) as found:
            pipeline.run(recipe, out=out, workers=1, cache_dir=tmp_path)
        assert "secret@" not in str(found.value)
    store.put_object(Bucket="corpora", Key="mine/photo.jpg", Body=b"x")
    with pytest.raises(MachineError, match=r"holds 'photo.jpg', .* nothing is touched there"):
        go(recipe, "mine", tmp_path)
    assert names(store, "mine") == ["photo.jpg"]
    for read in (verify, lambda root: why(root, "0:0")):
        with pytest.raises(RecipeError, match="`gristmill pull s3://corpora/web FOLDER`"):
            read(Path("s3://corpora/web"))
    with pytest.raises(RecipeError, match="--shards is for jobs that share a folder"):
        go(recipe, "array", tmp_path, shards="1/2")


def test_a_store_that_allows_nothing(
    made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "0")  # moto asks for rights
    monkeypatch.setattr(remotes, "_stores", {})
    with servers.s3(tmp_path / "s3") as address:
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "s3cret-of-the-store",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(MachineError, match="do the credentials .* allow reading") as found:
            go(made[0], "refused", tmp_path / "a")
    assert "s3cret" not in str(found.value)


class Nodes(InProcess):
    """An engine whose nodes know nothing of the driver's folders: each has one of its own."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders, self.turn = folders, 0
        self.fetched: list[str] = []

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        for job in jobs:
            self.turn += 1
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SPARK_LOCAL_DIRS", str(self.folders[self.turn % 2]))
                job = pickle.loads(pickle.dumps(job))
                yield from super().run([job])

    def other_machines(self) -> Any:
        def run(job: Job) -> Any:
            self.fetched.append(job.name)
            (event,) = self.run([job])
            if event.error is not None:
                raise event.error
            return event.result

        return SimpleNamespace(run=run, stop=lambda: None)


def test_nodes_share_no_folder(
    store: Any, made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every phase; one raw shard by HTTP, which a node fetches. No path of the driver is in a task
    as a node does it, and nodes and driver keep nothing of it.
    """
    folders = [tmp_path / "node0", tmp_path / "node1"]
    for folder in folders:
        folder.mkdir()
    recipe = made[0].with_name("nodes.toml")
    with_paths, seen = tasks_on_nodes.with_paths, []

    def noted(*given: Any) -> Any:
        seen.append(with_paths(*given))
        return seen[-1]

    monkeypatch.setattr(tasks_on_nodes, "with_paths", noted)
    with http_site() as site:
        url = site.put("/c.jsonl", (made[0].parent / "raw/c.jsonl").read_bytes())
        text = made[0].read_text().replace('files = ["raw/c*"]', f'urls = ["{url}"]')
        recipe.write_text(text)
        engine = Nodes(folders)
        monkeypatch.setattr(engines, "start", lambda *given, **more: engine)
        given: Any = {"workers": 1, "cache_dir": tmp_path / "a"}
        pipeline.run(recipe, out="s3://corpora/nodes", until="deduplicate", **given)
        assert engine.fetched == [url]
        assert list(tmp_path.glob("a/corpora/*/work/stage/**/copies.parquet"))
        assert not list(tmp_path.glob("a/corpora/*/work/stage/**/0000*"))
        given["cache_dir"] = tmp_path / "b"
        pipeline.run(recipe, out="s3://corpora/nodes", **given)
        assert [path for _, path, _ in site.asked].count("/c.jsonl") == 1
        with in_process():
            pipeline.run(recipe, out=tmp_path / "local", workers=1)
    assert copied(store, "nodes", tmp_path / "copy") == digests(tmp_path / "local")
    assert {type(task).__name__ for task in seen} == {
        "ProcessTask",
        "VerdictsTask",
        "CountTask",
        "TokenizeTask",
    }
    assert not [task for task in seen if str(made[0].parent) in repr(task)]
    assert not [task for task in seen if f"{tmp_path}/b" in repr(task)]
    for folder in folders:
        assert not list(folder.glob("gristmill-[!k]*/*"))
        assert (folder / "gristmill-kept").is_dir()


def test_a_record_that_leaves_the_corpus(store: Any, tmp_path: Path) -> None:
    corpus = StoredCorpus("s3://corpora/hostile", tmp_path)
    for path in ("../../evil", "/evil", "a/../b"):
        with pytest.raises(VerificationError, match="leaves the corpus"):
            corpus.damage(Record(key="k", work=[Part(path, 1, "0" * 64)]))


@pytest.mark.soak
def test_targets_and_a_corpus_that_grows(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By nodes that share no folder; each time a driver that knows nothing."""
    (tmp_path / "node").mkdir()
    for place, recipe in enumerate(growing(tmp_path)):
        with in_process():
            pipeline.run(recipe, out=tmp_path / "local", workers=2)
        with monkeypatch.context() as patch:
            engine = Nodes([tmp_path / "node"] * 2)
            patch.setattr(engines, "start", lambda *given, engine=engine, **more: engine)
            out = "s3://corpora/growing"
            pipeline.run(recipe, out=out, workers=2, cache_dir=tmp_path / f"cache{place}")
        assert copied(store, "growing", tmp_path / f"copy{place}") == digests(tmp_path / "local")
