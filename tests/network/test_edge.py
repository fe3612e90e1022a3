"""Nodes before a CDN: an S3 API (moto) as the origin, nginx as the edge that caches, real downloads
over HTTP, and what an edge may do to them.
"""

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import numpy as np
import pytest

from gristmill.errors import SourceError, VerificationError
from gristmill.network.node.node import Node
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import UploadSettings
from gristmill.network.trust.keys import new_key
from gristmill.store import manifest as manifests
from gristmill.store.http import remotes
from gristmill.store.http.settings import Settings
from tests.support import servers
from tests.support.published import point, published
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

SHAPE = {"sequence_length": 64, "batch_size": 4}
HASTY = Settings(backoff=0.01, retries=1, timeout=5.0, first_answer=0.5)
MAX_AGE = 1  # second that the edge may show an old pointer


def need() -> None:
    if servers.nginx_binary() is None:
        missing("nginx", "nginx is not installed (Debian: apt-get install nginx-light)")
    if find_spec("moto") is None or find_spec("obstore") is None:
        missing("moto", "moto[server] and obstore are not installed")


class World(NamedTuple):
    """A published corpus behind an edge."""

    corpus: Path
    bucket: str  # s3:// URL of the target
    origin: str  # the same over HTTP
    edge: str
    folder: Path  # of the servers' logs


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    need()
    folder = tmp_path_factory.mktemp("edge")
    tokens = np.arange(1, 40_001).reshape(-1, 100)
    corpus = token_corpus(
        folder / "corpus", {"web": list(tokens)}, vocabulary=50_000, tokens_per_shard=2000
    )
    with pytest.MonkeyPatch.context() as patch, servers.s3(folder / "s3") as origin:
        for name, value in {
            "AWS_ENDPOINT_URL": origin,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            patch.setenv(name, value)
        patch.setattr(remotes, "_stores", {})
        import boto3

        client = boto3.client("s3", endpoint_url=origin, region_name="us-east-1")
        client.create_bucket(Bucket="corpora", ACL="public-read")
        publish(corpus, "s3://corpora/one", settings=UploadSettings(max_age=MAX_AGE))
        with servers.edge(origin, folder / "edge") as edge:
            yield World(
                corpus, "s3://corpora/one", f"{origin}/corpora/one", f"{edge}/corpora/one", folder
            )


def statuses(world: World) -> Counter[tuple[str, str]]:
    """(cache status, name in the target) of all that the edge was asked for so far."""
    time.sleep(0.05)  # nginx writes its log behind the answer
    lines = (world.folder / "edge/status.log").read_text().splitlines()
    return Counter(
        (line.split()[0], line.split()[2].removeprefix("/corpora/one/")) for line in lines
    )


def asked_of_origin(world: World) -> Counter[str]:
    """How often the origin was asked for each name, by its own log."""
    lines = (world.folder / "s3/log").read_text().splitlines()
    return Counter(
        line.split('"GET /corpora/one/')[1].split()[0].partition("?")[0]
        for line in lines
        if '"GET /corpora/one/' in line
    )


def status_of(url: str) -> str:
    with urlopen(url, timeout=20) as answer:
        answer.read()
        return str(answer.headers["X-Cache-Status"])


def test_immutable_names_hit_and_the_pointer_expires(world: World, cache: Path) -> None:
    with Node(world.edge, "node-1", cache_dir=cache) as node:
        part = next(one for one in node.manifest.parts if one.path == node.assigned()[0])
        with node.batches(**SHAPE) as feed:
            next(feed)
    shard = f"{world.edge}/objects/{part.sha256[:2]}/{part.sha256}"
    assert [status_of(shard) for _ in range(2)] == ["HIT", "HIT"]
    assert status_of(f"{world.edge}/releases/00000001.json") == "HIT"
    time.sleep(MAX_AGE + 1.1)
    assert status_of(f"{world.edge}/latest.json") in ("EXPIRED", "REVALIDATED")
    assert status_of(shard) == "HIT"


def crowd(world: World, folder: Path, nodes: int, threads: int) -> None:
    """Nodes with caches of their own, all at once; every one has its shards in the end."""
    begin = threading.Barrier(threads)

    def one(number: int) -> None:
        if number < threads:
            begin.wait(30)
        with (
            Node(world.edge, f"node-{number}", cache_dir=folder / str(number), shards=3) as node,
            node.hold(0).view as view,
        ):
            for path in node.assigned():
                found = (view.root / path).read_bytes()
                assert found == (world.corpus / path).read_bytes()
        shutil.rmtree(folder / str(number))

    before = asked_of_origin(world)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(nodes)))
    status, asked = statuses(world), asked_of_origin(world)
    shards = {name for _, name in status if name.startswith("objects/")}
    assert len(shards) > 20
    for name in shards:
        # Once by the edge in all tests of this module, and in this one at most.
        assert (
            sum(count for (kind, of), count in status.items() if of == name and kind != "HIT") == 1
        )
        assert asked[name] - before[name] <= 1
    assert sum(status.values()) >= nodes * (3 + 1 + 2 * 3)


def test_no_shard_is_fetched_twice_from_the_origin(world: World, tmp_path: Path) -> None:
    crowd(world, tmp_path, nodes=24, threads=8)


@pytest.mark.soak
def test_two_hundred_nodes(world: World, tmp_path: Path) -> None:
    crowd(world, tmp_path, nodes=200, threads=24)


def test_an_edge_that_is_wrong_is_left_for_the_next_one(
    world: World, cache: Path, tmp_path: Path
) -> None:
    broken = published(world.corpus, tmp_path / "broken")
    with Node(world.edge, "node-1", cache_dir=tmp_path / "look") as node:
        parts = [one for one in node.manifest.parts if one.path in node.assigned()]
    for number, part in enumerate(parts):
        path = broken / "objects" / part.sha256[:2] / part.sha256
        data = bytearray(path.read_bytes())
        if number % 2:
            data[number] ^= 1  # altered
        else:
            del data[len(data) // 2 :]  # truncated
        path.write_bytes(data)
    with servers.nginx(broken, tmp_path / "nginx") as address:
        with (
            Node(address, "node-1", cache_dir=cache, settings=HASTY) as node,
            pytest.raises(VerificationError, match="altered or cut"),
        ):
            node.hold(0)
        assert not [
            p for p in (cache / "objects").rglob("*") if p.name in {q.sha256 for q in parts}
        ]
        with (
            Node([address, world.edge], "node-1", cache_dir=cache, settings=HASTY) as node,
            node.hold(0).view as view,
        ):
            for path in node.assigned():
                assert (view.root / path).read_bytes() == (world.corpus / path).read_bytes()
        # A stale pointer: the node has seen release 2 at the other address.
        published(world.corpus, broken, 2)
        Node(address, "node-1", cache_dir=cache, settings=HASTY).close()
        point(broken, 1)
        with pytest.raises(VerificationError, match="shows release 1, and release 2 was seen"):
            Node(address, "node-1", cache_dir=cache, settings=HASTY)


def test_a_download_that_was_cut_goes_on(world: World, cache: Path, tmp_path: Path) -> None:
    """A node that is killed in a download; the next one asks for the rest."""
    tokens = np.arange(1, 400_001).reshape(-1, 100) % 60_000
    corpus = token_corpus(
        tmp_path / "large", {"web": list(tokens)}, vocabulary=60_000, tokens_per_shard=400_000
    )
    target = published(corpus, tmp_path / "target")
    for path in target.rglob("*"):
        if path.is_file():
            os.utime(path, (1_600_000_000, 1_600_000_000))

    class KilledError(BaseException):
        pass

    settings = HASTY._replace(checkpoint_bytes=100_000)
    with servers.nginx(target, tmp_path / "nginx") as address:
        with Node(address, "n", cache_dir=cache, settings=settings) as node:
            part = next(one for one in node.manifest.parts if one.path in node.assigned())

            def tell(here: int, size: int | None, resumed: int) -> None:
                if here > 500_000:
                    raise KilledError

            to = cache / "partial" / part.sha256
            with pytest.raises(KilledError):
                node._reader.download(part.sha256, part.size, to, tell)
            assert not to.exists()
            with node.hold(0).view as view:
                assert (view.root / part.path).read_bytes() == (corpus / part.path).read_bytes()
        for _ in range(100):
            if " 206 " in (tmp_path / "nginx/access.log").read_text():
                break
            time.sleep(0.02)
        else:
            pytest.fail("the whole shard was sent again")


def test_an_origin_that_is_gone(world: World, cache: Path, tmp_path: Path) -> None:
    """An edge whose origin is gone still has what it has; a node goes on with its release."""
    target = published(world.corpus, tmp_path / "target")
    told: list[str] = []
    with servers.edge("http://127.0.0.1:9", tmp_path / "dead") as dead:
        with pytest.raises(SourceError, match="502"):
            Node(dead, "n", cache_dir=cache, settings=HASTY)
        with servers.nginx(target, tmp_path / "nginx") as address:
            node = Node([dead, address], "n", cache_dir=cache, settings=HASTY, on_event=told.append)
            node.hold(0).view.close()
        assert not node.refresh()
        assert told
        assert told[0].startswith("stays with release 1")
        with node, node.hold(0, refresh=False).view:
            pass


def test_signed_releases_and_a_pinned_root(
    world: World, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("tuf") is None:
        missing("tuf", "tuf is not installed")
    monkeypatch.setenv("GRISTMILL_KEY_PASSPHRASE", "secret")
    new_key(tmp_path / "key", "secret")
    target = tmp_path / "signed"
    publish(world.corpus, target, keys=[tmp_path / "key"])
    root = target / "trust/root.json"
    with servers.nginx(target, tmp_path / "nginx") as address:
        with Node(address, "n", cache_dir=cache, root=root, settings=HASTY) as node:
            assert node.fetch()["signed"]
        with pytest.raises(VerificationError, match="a root is pinned: an unsigned release"):
            Node(world.edge, "n", cache_dir=tmp_path / "other", root=root, settings=HASTY)
        # An old state that is shown again is refused.
        (old := tmp_path / "old").mkdir()
        shutil.copytree(target, old, dirs_exist_ok=True)
        write_another(world.corpus, tmp_path / "corpus2")
        publish(tmp_path / "corpus2", target, keys=[tmp_path / "key"])
        with Node(address, "n", cache_dir=cache, root=root, settings=HASTY) as node:
            assert node.release == 2
        for name in ("latest.json", "trust"):
            shutil.rmtree(target / name) if name == "trust" else (target / name).unlink()
            (shutil.copytree if name == "trust" else shutil.copy)(old / name, target / name)
        with pytest.raises(VerificationError, match="older than what was seen"):
            Node(address, "n", cache_dir=cache, root=root, settings=HASTY)
        # Metadata that expired, or a clock that is ahead: refused by a node that sees it first.
        from tuf.ngclient._internal import trusted_metadata_set

        class Ahead(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # noqa: ARG003
                return datetime.now(UTC) + timedelta(days=3)

        monkeypatch.setattr(trusted_metadata_set.datetime, "datetime", Ahead)
        with pytest.raises(VerificationError, match=r"expired.*this machine's clock is wrong"):
            Node(address, "n", cache_dir=tmp_path / "fresh", root=root, settings=HASTY)


def write_another(corpus: Path, to: Path) -> None:
    """A corpus with another manifest."""
    shutil.copytree(corpus, to)
    data = json.loads((to / "manifest.json").read_bytes())
    data["versions"] = {"gristmill": "another"}
    text = manifests.encode(manifests.decode(json.dumps(data).encode()))
    (to / "manifest.json").write_bytes(text)
    (to / "manifest.lock").write_bytes(manifests.make_lock(text))
