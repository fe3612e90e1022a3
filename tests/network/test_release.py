"""Reading releases: several addresses, what is old, altered or of a later version, and downloads
that continue.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import MachineError, SourceError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.publish import publish
from gristmill.network.releases.release import ReleaseReader
from gristmill.store.http.settings import Settings
from gristmill.store.http.urls import is_url
from tests.support import servers
from tests.support.releases import small_corpus
from tests.support.skips import missing

QUICK = Settings(backoff=0.01, retries=1, timeout=5.0, checkpoint_bytes=500_000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one` with release 1, `two` with releases 1 and 2."""
    folder = tmp_path_factory.mktemp("releases")
    publish(small_corpus(folder / "first", 1), folder / "one")
    shutil.copytree(folder / "one", folder / "two")
    publish(small_corpus(folder / "second", 2), folder / "two")
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "two", tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def edge(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if servers.nginx_binary() is None:
        missing("nginx", "nginx is not installed (Debian: apt-get install nginx-light)")
    with servers.nginx(made, tmp_path_factory.mktemp("nginx")) as address:
        yield address


def test_over_http_and_in_a_folder(made: Path, edge: str, tmp_path: Path) -> None:
    for url in (f"{edge}/two", f"{edge}/two/", made / "two", (made / "two").as_uri()):
        reader = ReleaseReader([url], settings=QUICK)
        newest = reader.newest()
        assert newest.release.number == 2
        assert hashlib.sha256(newest.data).hexdigest() == newest.release.manifest
        part = next(part for part in newest.manifest.parts if part.path.endswith(".bin"))
        reader.download(part.sha256, part.size, tmp_path / "shard")
        assert hashlib.sha256((tmp_path / "shard").read_bytes()).hexdigest() == part.sha256
        assert sorted(path.name for path in tmp_path.iterdir()) == ["shard"]
        reader.close()


def test_an_older_release_is_refused_and_the_next_address_is_asked(
    made: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    assert ReleaseReader([made / "one"], state=state).newest().release.number == 1
    assert ReleaseReader([made / "two"], state=state).newest().release.number == 2
    stale = ReleaseReader([made / "one"], state=state)
    with pytest.raises(VerificationError, match="shows release 1, and release 2 was seen before"):
        stale.newest()
    both = ReleaseReader([made / "one", made / "two"], state=state)
    newest = both.newest()
    assert (newest.release.number, newest.url) == (2, (made / "two").as_uri())
    # Without a folder this reader alone remembers.
    reader = ReleaseReader([made / "two"])
    reader.newest()
    reader.urls = stale.urls
    with pytest.raises(VerificationError, match="was seen before"):
        reader.newest()
    (state / "seen.json").write_text("{")
    with pytest.raises(MachineError, match="seen.json: cannot be read"):
        both.newest()


def test_a_release_that_changed_is_refused(copy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    ReleaseReader([copy], state=state).newest()
    path = copy / layout.release_key(2)
    other = json.loads(path.read_bytes())
    path.write_text(json.dumps(other | {"included": []}))
    with pytest.raises(
        VerificationError, match=r"00000002.json: expected sha256 .* altered or cut"
    ):
        ReleaseReader([copy]).newest()
    # With a pointer that fits: the number was seen with another digest.
    pointer = layout.Pointer(release=2, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    (copy / "latest.json").write_bytes(layout.encode(pointer))
    assert ReleaseReader([copy]).newest().release.included == []
    with pytest.raises(VerificationError, match="A release never changes: the store was altered"):
        ReleaseReader([copy], state=state).newest()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number": 3}, "it says that it is release 3"),
        ({"number": 0}, "release 0 with minimum 0: expected numbers from 1"),
        ({"minimum": 3}, "a minimum that is not above"),
        ({"manifest": "../../../etc/passwd"}, "is no sha256"),
        ({"previous": "A" * 64}, "is no sha256"),
        ({"manifest": "0" * 64}, "answered 404|cannot be read: No such file"),
        ({"format": 2, "new": 1}, "a release of format 2; this gristmill reads format 1"),
        ({"format": "1"}, "no release: it has format '1'"),
        ({"more": 1}, "unknown field `more`"),
        ({"manifest_size": 1 << 40}, "bytes of a manifest or a state"),
        ({"manifest_size": 5}, "more than 5 bytes"),
    ],
)
def test_releases_that_contradict_themselves(copy: Path, change: dict, said: str) -> None:
    path = copy / layout.release_key(2)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    pointer = layout.Pointer(release=2, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    (copy / "latest.json").write_bytes(layout.encode(pointer))
    with pytest.raises((VerificationError, SourceError), match=said):
        ReleaseReader([copy]).newest()


@pytest.mark.parametrize(
    "pointer",
    [b"", b"{}", b"[1]", b"<html></html>", b"\xff\xfe", b"[" * 4000, b'{"format": 1}', b"0" * 9000]
    + [
        json.dumps({"format": 1, "release": number, "sha256": "0" * 64}).encode()
        for number in (0, -1, "1", 1.5, 10**30, True)
    ],
)
def test_pointers_that_are_none(copy: Path, pointer: bytes) -> None:
    (copy / "latest.json").write_bytes(pointer)
    with pytest.raises((VerificationError, SourceError), match="latest.json: "):
        ReleaseReader([copy]).newest()


def test_addresses_that_have_nothing(made: Path, edge: str, tmp_path: Path) -> None:
    for url in (edge, tmp_path, f"{edge}/none"):
        with pytest.raises(SourceError, match="Nothing was published there with `gristmill publ"):
            ReleaseReader([url], settings=QUICK).newest()
    gone = f"http://127.0.0.1:{servers.free_port()}"
    reader = ReleaseReader([gone, f"{edge}/two"], settings=QUICK)
    assert reader.newest().release.number == 2
    with pytest.raises(SourceError) as got:
        ReleaseReader([gone, tmp_path], settings=QUICK).newest()
    assert [gone in line or str(tmp_path) in line for line in str(got.value).split("\n")] == [
        True,
        True,
    ]
    with pytest.raises(VerificationError, match="name at least one URL"):
        ReleaseReader([])
    assert is_url(edge)


def test_a_manifest_with_hostile_paths_is_refused(copy: Path) -> None:
    release = json.loads((copy / layout.release_key(2)).read_bytes())
    data = (copy / layout.object_key(release["manifest"])).read_bytes()
    hostile = data.replace(b"tokens/web/train_00000.bin", b"../../../../tmp/train.bin")
    digest = hashlib.sha256(hostile).hexdigest()
    (copy / layout.object_key(digest)).parent.mkdir(exist_ok=True)
    (copy / layout.object_key(digest)).write_bytes(hostile)
    release |= {"manifest": digest, "manifest_size": len(hostile)}
    (copy / layout.release_key(2)).write_text(json.dumps(release))
    sha256 = hashlib.sha256((copy / layout.release_key(2)).read_bytes()).hexdigest()
    pointer = layout.encode(layout.Pointer(release=2, sha256=sha256))
    (copy / "latest.json").write_bytes(pointer)
    with pytest.raises(VerificationError, match="that leaves the corpus"):
        ReleaseReader([copy]).newest()


# -- objects


def test_an_altered_object_is_refused_and_the_next_address_is_asked(
    made: Path, copy: Path, edge: str, tmp_path: Path
) -> None:
    newest = ReleaseReader([copy]).newest()
    part = next(part for part in newest.manifest.parts if part.path.endswith(".bin"))
    path = copy / layout.object_key(part.sha256)
    whole = path.read_bytes()
    for wrong in (whole[:-1] + b"\xff", whole[:-1], whole + b"\0", b""):
        path.write_bytes(wrong)
        with pytest.raises(VerificationError, match="altered or cut"):
            ReleaseReader([copy]).download(part.sha256, part.size, tmp_path / "shard")
        assert not (tmp_path / "shard").exists()
    with servers.nginx(copy, tmp_path / "nginx") as address:
        for wrong in (whole[:-1] + b"\xff", whole + b"\0"):
            path.write_bytes(wrong)
            with pytest.raises(VerificationError, match="altered or cut"):
                ReleaseReader([address], settings=QUICK).download(
                    part.sha256, part.size, tmp_path / "shard"
                )
            reader = ReleaseReader([address, f"{edge}/two"], settings=QUICK)
            reader.download(part.sha256, part.size, tmp_path / "shard")
            assert (tmp_path / "shard").read_bytes() == whole
            (tmp_path / "shard").unlink()
    assert list(tmp_path.glob("*partial*")) == []


class Killed(BaseException):
    """The process ends here."""


def test_a_download_continues_where_a_killed_one_stopped(tmp_path: Path) -> None:
    if servers.nginx_binary() is None:
        missing("nginx", "nginx is not installed (Debian: apt-get install nginx-light)")
    corpus = small_corpus(tmp_path / "corpus", 4, tokens=2_000_000, shards=1)
    publish(corpus, tmp_path / "target")
    time.sleep(2.1)  # what changed within a second has no ETag that can be trusted

    def killed(here: int, size: int | None, resumed: int) -> None:
        if here > 2_000_000:
            raise Killed

    with servers.nginx(tmp_path / "target", tmp_path / "nginx") as address:
        reader = ReleaseReader([address], settings=QUICK)
        part = max(reader.newest().manifest.parts, key=lambda part: part.size)
        with pytest.raises(Killed):
            reader.download(part.sha256, part.size, tmp_path / "shard", killed)
        resumed: list[int] = []
        again = ReleaseReader([address], settings=QUICK)
        again.download(
            part.sha256, part.size, tmp_path / "shard", lambda here, size, old: resumed.append(old)
        )
        assert resumed[0] >= 1_500_000
    assert hashlib.sha256((tmp_path / "shard").read_bytes()).hexdigest() == part.sha256
