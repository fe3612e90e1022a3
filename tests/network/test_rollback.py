"""Nobody is shown an older release than one that was seen: by another address, by the same ones in
another order, or by a pointer that was lost or put back.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Node, publish, pull
from gristmill.errors import VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.publisher import Publisher
from gristmill.network.releases.release import ReleaseReader
from gristmill.network.releases.release_memory import CHAINS
from gristmill.network.releases.targets import open_target
from gristmill.network.trust.keys import new_key
from tests.support.releases import PASSPHRASE, everything_at, pointer_of, small_corpus

POINTERS = ("latest.json", "trust/timestamp.json")


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets that stopped at releases 1, 2 and 3 of one corpus, and one of another corpus."""
    folder = tmp_path_factory.mktemp("mirrors")
    for seed in (1, 2, 3):
        publish(small_corpus(folder / f"corpus{seed}", seed), folder / "target")
        shutil.copytree(folder / "target", folder / str(seed))
    publish(small_corpus(folder / "another", 9), folder / "other")
    return folder


def node(urls: list[Path], cache: Path) -> int:
    with Node([str(url) for url in urls], "node-1", cache_dir=cache) as one:
        return one.release


def test_a_mirror_shows_a_node_no_older_release(mirrors: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert node([mirrors / "2"], cache) == 2
    for urls in (["1"], ["1", "1"]):
        with pytest.raises(VerificationError, match="shows release 1, and release 2 was seen"):
            node([mirrors / url for url in urls], cache)
    assert node([mirrors / "1", mirrors / "2"], cache) == 2  # an address that is right is taken
    assert node([mirrors / "3", mirrors / "2"], cache) == 3
    with pytest.raises(VerificationError, match="shows release 2, and release 3 was seen"):
        node([mirrors / "2", mirrors / "1"], cache)  # another order, another first address
    assert node([mirrors / "other"], cache) == 1  # another corpus has releases of its own


def test_an_address_does_not_go_back_with_another_corpus(mirrors: Path, tmp_path: Path) -> None:
    cache, address = tmp_path / "cache", tmp_path / "address"
    shutil.copytree(mirrors / "2", address)
    assert node([address], cache) == 2
    shutil.rmtree(address)
    shutil.copytree(mirrors / "other", address)
    with pytest.raises(VerificationError, match="shows release 1, and release 2 was seen"):
        node([address], cache)


def test_numbers_that_are_left_out_and_history_that_is_gone(mirrors: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(mirrors / "2", target)
    # A release that a killed publisher made and nobody was pointed to.
    (target / layout.release_key(3)).write_bytes(b"{}")
    with pytest.raises(VerificationError, match="00000003.json: no release"):
        publish(small_corpus(tmp_path / "next", 4), target)
    (target / layout.release_key(3)).unlink()
    publish(small_corpus(tmp_path / "next", 4), target)
    state = tmp_path / "state"
    assert ReleaseReader([target], state=state).newest().release.number == 3
    assert (state / CHAINS).exists()
    for number in (1, 2):
        (target / layout.release_key(number)).unlink()
    assert ReleaseReader([target], state=tmp_path / "new").newest().release.number == 3
    assert ReleaseReader([target], state=state).newest().release.number == 3
    with pytest.raises(VerificationError, match="was seen before"):
        ReleaseReader([mirrors / "2"], state=state).newest()


def test_pull_never_goes_back(mirrors: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pulled"
    assert pull(mirrors / "1", folder)["release"] == 1
    assert pull(mirrors / "3", folder)["release"] == 3
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(VerificationError, match="shows release 2, and release 3 was seen"):
        pull(mirrors / "2", folder)
    assert (folder / "manifest.json").read_bytes() == before
    assert pull(mirrors / "2", tmp_path / "another")["release"] == 2


def _lost(target: Path, kept: dict[str, bytes]) -> None:
    for name in kept:
        (target / name).unlink()


def _restored(target: Path, kept: dict[str, bytes]) -> None:
    for name, data in kept.items():
        (target / name).write_bytes(data)


@pytest.mark.parametrize("harm", [_lost, _restored])
@pytest.mark.parametrize("signed", [False, True])
def test_a_pointer_that_is_lost_or_restored_brings_nothing_back(
    tmp_path: Path, harm: Callable[[Path, dict[str, bytes]], None], signed: bool
) -> None:
    target = tmp_path / "target"
    keys = []
    if signed:
        new_key(tmp_path / "key", PASSPHRASE)
        keys = [tmp_path / "key"]
    more = {"keys": keys, "passphrase": PASSPHRASE}
    publish(small_corpus(tmp_path / "one", 1), target, **more)  # type: ignore[arg-type]
    kept = {name: (target / name).read_bytes() for name in POINTERS if (target / name).exists()}
    assert len(kept) == 1 + signed
    publish(small_corpus(tmp_path / "two", 2), target, **more)  # type: ignore[arg-type]
    opened = open_target(target)
    signers = Publisher(opened, _signers(keys))
    current, _ = signers.current or (None, "")
    assert current is not None
    withdrawn = [layout.WithdrawnDocument(document=7, source="web")]
    data = (tmp_path / "two/manifest.json").read_bytes()
    third = signers.release(data, current.included, withdrawn=withdrawn, raise_minimum=True)
    opened.close()
    assert (third.number, third.minimum) == (3, 3)
    harm(target, kept)
    publish(small_corpus(tmp_path / "four", 4), target, **more)  # type: ignore[arg-type]
    newest = everything_at(target).release
    assert (newest.number, newest.minimum) == (4, 3)
    assert newest.withdrawn == withdrawn
    assert pointer_of(target).release == 4
    if signed:
        root = (target / "trust/1.root.json").read_bytes()
        assert ReleaseReader([target], root=root).newest().release.number == 4


def _signers(keys: list[Path]) -> list[object]:
    from gristmill.network.trust.keys import load_signers

    return list(load_signers(keys, PASSPHRASE))
