"""Objects of a bucket by their sha256: written whole, compared when they are read."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import Damaged, VerificationError
from gristmill.store.bucket.bucket import Bucket, ChangedError
from gristmill.store.bucket.objects import ObjectFile, Objects, bring, link
from tests.support.releases import bucket


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with bucket(tmp_path_factory.mktemp("s3"), "files") as client:
        yield client


def test_files_of_one_and_of_several_blocks(store: Any, tmp_path: Path) -> None:
    objects = Objects(Bucket("s3://files/a"), "work/objects")
    wanted = []
    for size in (0, 1, 9 << 20):
        path = tmp_path / f"{size}"
        path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        objects.put(path, sha256, size)
        assert objects.size(sha256) == size
        wanted.append(ObjectFile(objects.key(sha256), f"here/{size}", sha256, size))
        path.write_bytes(b"changed since")
        with pytest.raises(VerificationError, match="got 13 with"):
            objects.put(path, sha256, size)
    came: list[int] = []
    bring(objects.bucket, wanted, tmp_path, came.append)
    assert sorted(came) == [0, 1, 9 << 20]
    for file in wanted:
        data = (tmp_path / file.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.size, file.sha256)
    assert set(objects.known()) == {file.sha256 for file in wanted}
    assert set(objects.bucket.sizes("work/objects/")) == {file.key for file in wanted}


def test_an_object_of_other_bytes_is_removed_or_kept(store: Any, tmp_path: Path) -> None:
    place = Bucket("s3://files/b")
    sha256 = hashlib.sha256(b"right").hexdigest()
    file = ObjectFile("work/objects/x", "x", sha256, 5)
    place.put(file.key, b"wrong")
    with pytest.raises(Damaged, match="got 5 bytes with sha256"):
        bring(place, [file], tmp_path, keep=True)
    assert place.sizes("") == {file.key: 5}
    with pytest.raises(Damaged, match="It is removed"):
        bring(place, [file], tmp_path)
    assert place.sizes("") == {}
    with pytest.raises(Damaged, match="is not there"):
        bring(place, [file], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_written_over_the_version_that_was_read(store: Any) -> None:
    place = Bucket("s3://files/c")
    first = place.put_over("lock", b"1", None, {})
    with pytest.raises(ChangedError):
        place.put_over("lock", b"2", None, {})
    second = place.put_over("lock", b"2", first, {})
    with pytest.raises(ChangedError):
        place.put_over("lock", b"3", first, {})
    found = place.get("lock", 10)
    assert found is not None and (found.data, found.version) == (b"2", second)


def test_a_link_is_another_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    for _ in range(2):
        link(tmp_path / "a", tmp_path / "deep/b")
    assert (tmp_path / "deep/b").read_bytes() == b"x"
