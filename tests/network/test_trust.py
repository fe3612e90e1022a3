"""Signed releases: the attacks that the TUF specification names (1.5.2, Goals to protect against
specific attacks), thresholds, rotation, recovery.
"""

import datetime as dates
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import Publisher
from gristmill.network.releases.release import ReleaseReader
from gristmill.network.releases.targets import TargetChangedError, open_target
from gristmill.network.trust.keys import load_public, load_signers, new_key
from gristmill.network.trust.signing import rotate, sign
from gristmill.network.trust.trust import Trust
from gristmill.network.trust.trust_metadata import RoleChange
from tests.support.command import command_line
from tests.support.releases import PASSPHRASE, everything_at, small_corpus

ROLES = ("root", "targets", "snapshot", "timestamp")


class World:
    """A target with releases 1 and 2, signed by one key a role; what it was after each is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.target = folder, folder / "target"
        self.corpora = [folder / f"corpus{number}" for number in range(3)]
        self.root = folder / "root.json"

    def key(self, name: str) -> Path:
        return self.folder / "keys" / name

    def keys(self, *names: str) -> list[Path]:
        return [self.key(name) for name in names]

    def publish(self, number: int, *names: str) -> dict[str, Any]:
        return publish(
            self.corpora[number], self.target, keys=self.keys(*names), passphrase=PASSPHRASE
        )

    def reader(self, state: str = "state", target: Path | None = None) -> ReleaseReader:
        return ReleaseReader([target or self.target], root=self.root, state=self.folder / state)

    def trust(self, *names: str, days: dict[str, int] | None = None) -> Trust:
        return Trust(
            open_target(self.target), load_signers(self.keys(*names), PASSPHRASE), days=days
        )

    def change(self, role: str, *names: str, remove: tuple[str, ...] = ()) -> dict[str, RoleChange]:
        public = [load_public(self.folder / f"keys/{name}.pub") for name in names]
        gone = [load_public(self.folder / f"keys/{name}.pub").keyid for name in remove]
        return {role: RoleChange(public, gone)}


ONLINE = ("targets", "snapshot", "timestamp")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(tmp_path_factory.mktemp("trust"))
    for name in (*ROLES, "other", "root2", "stranger"):
        new_key(world.key(name), PASSPHRASE)
    for number, corpus in enumerate(world.corpora):
        small_corpus(corpus, number, tokens=4000, shards=1)
    every: dict[str, RoleChange] = {}
    for role in ROLES:
        every |= world.change(role, role)
    rotate(world.target, world.keys("root"), PASSPHRASE, changes=every)
    shutil.copy(world.target / "trust/root.json", world.root)
    for number in (0, 1):
        world.publish(number, *ONLINE)
        shutil.copytree(world.target, world.folder / f"after{number + 1}")
    return world.folder


@pytest.fixture
def world(template: Path, tmp_path: Path) -> World:
    shutil.copytree(template, tmp_path / "world")
    return World(tmp_path / "world")


def refused(world: World, said: str, state: str = "state") -> None:
    with pytest.raises(VerificationError, match=said):
        world.reader(state).newest()


def back_to(world: World, number: int, *names: str) -> None:
    """Put files of an earlier state back."""
    for name in names:
        shutil.copy(world.folder / f"after{number}" / name, world.target / name)


def test_signed_releases_are_read(world: World) -> None:
    newest = everything_at(world.target, root=world.root)
    assert (newest.release.number, newest.signed) == (2, True)
    assert world.reader().newest().release.number == 2
    assert world.reader().newest().release.number == 2  # from what was kept
    assert world.publish(1, *ONLINE)["new"] is False
    assert world.publish(2, *ONLINE)["release"] == 3
    assert world.reader().newest().release.number == 3
    assert everything_at(world.target).signed is False  # without a root it is read as well


def test_what_is_unsigned_is_refused_where_a_root_is_pinned(world: World) -> None:
    with pytest.raises(RecipeError, match="its releases are signed.* add --key"):
        publish(world.corpora[2], world.target)
    publish(world.corpora[2], world.folder / "unsigned")
    reader = world.reader(target=world.folder / "unsigned")
    with pytest.raises(VerificationError, match="an unsigned release is refused"):
        reader.newest()
    # The pointer and the release of the attacker beside sound signatures: they are not read.
    shutil.copy(world.folder / "unsigned/latest.json", world.target / "latest.json")
    assert world.reader().newest().release.number == 2
    shutil.rmtree(world.target / "trust")
    refused(world, "unsigned release is refused")


def test_a_key_of_nobody(world: World) -> None:
    with pytest.raises(RecipeError, match=r"targets needs 1 of the keys .*, and 0 of them were"):
        world.publish(2, "stranger")
    with pytest.raises(RecipeError, match="snapshot needs 1 of the keys"):
        world.publish(2, "targets", "timestamp")
    root = json.loads((world.target / "trust/1.root.json").read_bytes())
    root["signed"]["expires"] = "2099-01-01T00:00:00Z"
    world.root.write_text(json.dumps(root))
    refused(world, "not signed by enough keys")
    world.root.write_text("no root")
    refused(world, "no sound metadata|refused")


# -- rollback: an older state is shown again


def test_rollback_of_the_timestamp(world: World) -> None:
    world.reader().newest()
    back_to(world, 1, "trust/timestamp.json", "latest.json")
    refused(world, r"trust/timestamp.json: older than what was seen before")
    # Who sees it for the first time cannot know, until it expires.
    assert world.reader("new").newest().release.number == 1


def test_rollback_of_the_snapshot_and_of_the_targets(world: World) -> None:
    """By an attacker who has the timestamp's key, and for the targets the snapshot's."""
    world.reader().newest()
    trust = world.trust("timestamp")
    trust._found["timestamp"].signed.snapshot_meta.version = 1
    trust._found["timestamp"].signed.snapshot_meta.hashes = None
    trust._found["timestamp"].signed.snapshot_meta.length = None
    trust._write(["timestamp"])
    refused(world, r"older than what was seen before")
    shutil.rmtree(world.target)
    shutil.copytree(world.folder / "after2", world.target)
    trust = world.trust("timestamp", "snapshot")
    meta = trust._found["snapshot"].signed.meta["targets.json"]
    meta.version, meta.hashes, meta.length = 1, None, None
    trust._write(["snapshot", "timestamp"])
    refused(world, r"older than what was seen before")


def test_rollback_of_the_root(world: World) -> None:
    rotate(
        world.target,
        world.keys("root", "other", *ONLINE),
        PASSPHRASE,
        changes=world.change("timestamp", "other", remove=("timestamp",)),
    )
    world.reader().newest()
    # Without the second root the reader keeps it; what the removed key signs is refused.
    (world.target / "trust/2.root.json").unlink()
    back_to(world, 2, "trust/timestamp.json")
    refused(world, "not signed by enough keys|older than what was seen before")
    # The first root in the place of the third is no successor.
    shutil.copy(world.target / "trust/1.root.json", world.target / "trust/3.root.json")
    refused(world, "older than what was seen before, or no successor")


def test_a_root_that_its_keys_did_not_sign(world: World) -> None:
    root = json.loads((world.target / "trust/1.root.json").read_bytes())
    root["signed"]["version"] = 2
    (world.target / "trust/2.root.json").write_text(json.dumps(root))
    refused(world, "2.root.json: not signed by enough keys of the pinned root")
    with pytest.raises(VerificationError, match="not version 2 of the root, signed by enough"):
        world.publish(2, *ONLINE)


# -- freeze: an old state is shown for ever


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_expired_metadata(world: World, role: str) -> None:
    trust = world.trust(*ONLINE, days={role: -1})
    trust.renew(everything=True)
    refused(world, rf"{role}.json: expired .* or this machine's clock is wrong")
    done = sign(world.target, world.keys(*ONLINE), PASSPHRASE, everything=True)
    assert done["renewed"] == ["targets", "snapshot", "timestamp"]
    assert world.reader().newest().release.number == 2


def test_an_expired_root(world: World) -> None:
    trust = world.trust(*ROLES, days={"root": -1})
    trust.rotate({})
    refused(world, "2.root.json: expired|expired")
    rotate(world.target, world.keys("root"), PASSPHRASE, changes={})
    assert world.reader().newest().release.number == 2


def test_a_clock_that_is_days_ahead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuf.ngclient._internal import trusted_metadata_set as checks

    class Ahead(dates.datetime):
        @classmethod
        def now(cls, tz: dates.tzinfo | None = None) -> "Ahead":  # type: ignore[override]
            return super().now(tz) + dates.timedelta(days=3)

    with monkeypatch.context() as patch:
        assert hasattr(checks, "datetime")
        patch.setattr(checks, "datetime", dates if False else _module(checks, Ahead))
        refused(world, "this machine's clock is wrong")
    assert world.reader().newest().release.number == 2


def _module(checks: Any, ahead: type) -> Any:
    """What the name `datetime` is in python-tuf's module, with another clock."""
    found = checks.datetime
    if isinstance(found, type):
        return ahead
    copy = type(found)("datetime")
    copy.__dict__.update({**found.__dict__, "datetime": ahead})
    return copy


# -- others


def test_mix_and_match(world: World) -> None:
    """Files of two states, each signed: the snapshot that the timestamp names is another file."""
    back_to(world, 1, "trust/timestamp.json")
    text = (world.target / "trust/2.snapshot.json").read_bytes()
    (world.target / "trust/1.snapshot.json").write_bytes(text)
    refused(world, "not the file that the signed metadata name|no sound metadata")
    shutil.rmtree(world.target)
    shutil.copytree(world.folder / "after2", world.target)
    shutil.copy(world.target / "trust/1.targets.json", world.target / "trust/2.targets.json")
    refused(world, "not the file that the signed metadata name|no sound metadata", "new")


def test_endless_data(world: World) -> None:
    (world.target / "trust/timestamp.json").write_bytes(b" " * 3_000_000)
    refused(world, "trust/timestamp.json is longer than it may be: refused")


def test_a_release_that_is_not_the_signed_one(world: World) -> None:
    path = world.target / layout.release_key(2)
    path.write_bytes(path.read_bytes().replace(b'"minimum": 0', b'"minimum": 1'))
    refused(world, "00000002.json: expected sha256")


def test_thresholds(world: World) -> None:
    """Two of two keys must sign targets: one does not suffice, for readers and publishers."""
    changes = world.change("targets", "other")
    changes["targets"] = changes["targets"]._replace(threshold=2)
    with pytest.raises(RecipeError, match="targets needs 2 of the keys .*, and 1 of them were"):
        rotate(world.target, world.keys("root", *ONLINE), PASSPHRASE, changes=changes)
    assert everything_at(world.target, root=world.root).release.number == 2
    rotate(world.target, world.keys("root", "other", *ONLINE), PASSPHRASE, changes=changes)
    assert world.reader().newest().release.number == 2
    with pytest.raises(RecipeError, match="targets needs 2 of the keys"):
        world.publish(2, *ONLINE)
    assert world.publish(2, "other", *ONLINE)["release"] == 3
    assert world.reader().newest().release.number == 3
    # One signature of two, whoever made it.
    path = world.target / "trust/4.targets.json"
    path = path if path.exists() else max((world.target / "trust").glob("*.targets.json"))
    table = json.loads(path.read_bytes())
    assert len(table["signatures"]) == 2
    with pytest.raises(RecipeError, match="3 signatures of 2 keys: they cannot be had"):
        rotate(
            world.target,
            world.keys("root"),
            PASSPHRASE,
            changes={"targets": RoleChange(threshold=3)},
        )
    trust = world.trust("targets", "snapshot", "timestamp")
    trust._write(["targets", "snapshot", "timestamp"])
    refused(world, "targets.json: not signed by enough keys of the pinned root")


def test_keys_are_rotated(world: World) -> None:
    world.reader().newest()
    keyid = load_public(world.folder / "keys/targets.pub").keyid
    for role, name in (("targets", "other"), ("root", "root2")):
        rotate(
            world.target,
            world.keys(*ROLES, name),
            PASSPHRASE,
            changes=world.change(role, name, remove=(role,)),
        )
        assert world.reader().newest().release.number == 2  # a reader of before
        assert everything_at(world.target, root=world.root).release.number == 2  # a new one
    with pytest.raises(RecipeError, match="targets needs 1 of the keys"):
        world.publish(2, *ONLINE)
    assert world.publish(2, "other", "snapshot", "timestamp")["release"] == 3
    assert world.reader().newest().release.number == 3
    with pytest.raises(RecipeError, match=r"root needs 1 of the keys"):
        rotate(world.target, world.keys("root"), PASSPHRASE, changes={})
    with pytest.raises(RecipeError, match=f"0 of its keys begin with {keyid[:10]!r}: expected 1"):
        rotate(
            world.target,
            world.keys("root2"),
            PASSPHRASE,
            changes={"targets": RoleChange(remove=[keyid[:10]])},
        )


def test_recovery_from_fast_forward(world: World) -> None:
    """A stolen timestamp key signed version 1,000,000; the owner takes the key away, and readers
    who saw it go on with version 3.
    """
    shutil.copytree(world.target, world.folder / "sound")
    trust = world.trust("timestamp", "snapshot")
    for role in ("snapshot", "timestamp"):
        trust._found[role].signed.version = 1_000_000
    trust._write(["snapshot", "timestamp"])
    world.reader().newest()
    back_to(world, 2, "trust/timestamp.json")
    refused(world, "older than what was seen before")
    changes = world.change("timestamp", "other", remove=("timestamp",))
    changes |= world.change("snapshot", "stranger", remove=("snapshot",))
    rotate(world.target, world.keys("root", "other", "stranger"), PASSPHRASE, changes=changes)
    assert world.reader().newest().release.number == 2


def test_of_two_who_sign_at_once_the_second_is_refused(world: World) -> None:
    slow = world.trust("timestamp")
    sign(world.target, world.keys("timestamp"), PASSPHRASE)
    with pytest.raises(TargetChangedError, match="another publisher wrote it meanwhile"):
        slow.renew()
    assert world.reader().newest().release.number == 2


def test_of_two_with_different_keys_at_an_empty_target_one_makes_the_root(world: World) -> None:
    target = world.folder / "empty"
    slow = Publisher(open_target(target), load_signers(world.keys("other"), PASSPHRASE))
    mine = {"keys": world.keys("root"), "passphrase": PASSPHRASE}
    assert publish(world.corpora[0], target, **mine)["release"] == 1
    data = (world.corpora[1] / "manifest.json").read_bytes()
    with pytest.raises(TargetChangedError, match="another publisher wrote it meanwhile"):
        slow.release(data, ["tokens"])
    slow.close()
    root = target / "trust/1.root.json"
    assert everything_at(target, root=root).release.number == 1
    with pytest.raises(RecipeError, match=r"targets needs 1 of the keys .*, and 0 of them were"):
        publish(world.corpora[1], target, keys=world.keys("other"), passphrase=PASSPHRASE)
    assert publish(world.corpora[1], target, **mine)["release"] == 2
    assert everything_at(target, root=root).release.number == 2


def test_a_publisher_killed_between_signature_and_pointer_continues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(self: Publisher, release: layout.Release) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "point", killed)
        with pytest.raises(Killed):
            world.publish(2, *ONLINE)
    assert world.reader().newest().release.number == 3
    assert everything_at(world.target).release.number == 2
    done = world.publish(2, *ONLINE)
    assert (done["release"], done["objects"]) == (3, 0)
    assert everything_at(world.target).release.number == 3


# -- keys and the command line


def test_key_files(tmp_path: Path) -> None:
    made = new_key(tmp_path / "key", "words")
    assert load_public(tmp_path / "key.pub").keyid == made["keyid"]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert b"ENCRYPTED PRIVATE KEY" in (tmp_path / "key").read_bytes()
    assert load_signers([tmp_path / "key"], "words")[0].public_key.keyid == made["keyid"]
    refusals: list[tuple[Callable[[], Any], str]] = [
        (lambda: new_key(tmp_path / "key", "words"), "is there: a key is never overwritten"),
        (lambda: new_key(tmp_path / "none", ""), "a key needs a passphrase"),
        (lambda: load_signers([tmp_path / "key"], "wrong"), "no private key that this passphrase"),
        (lambda: load_signers([tmp_path / "key"], ""), "set GRISTMILL_KEY_PASSPHRASE"),
        (lambda: load_signers([tmp_path / "key.pub"], "words"), "no private key"),
        (lambda: load_signers([tmp_path / "gone"], "words"), "the key cannot be read"),
        (lambda: load_public(tmp_path / "key"), "no public key"),
    ]
    for call, said in refusals:
        with pytest.raises(RecipeError, match=said) as got:
            call()
        assert "wrong" not in str(got.value).removeprefix(str(tmp_path))


def test_the_verbs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_KEY_PASSPHRASE", PASSPHRASE)

    def mill(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)

    done = mill("release", "key", world.folder / "mine", "--json")
    assert done.returncode == 0, done.stderr
    keyid = json.loads(done.stdout)["keyid"]
    target = world.folder / "mine-target"
    done = mill("publish", world.corpora[0], target, "--key", world.folder / "mine")
    assert done.returncode == 0, done.stderr
    assert "signed; readers pin trust/root.json, sha256 " in done.stdout
    words = ("--key", world.folder / "mine", "--days", "timestamp=2", "--all")
    done = mill("release", "sign", target, *words)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(ROLES)
    done = mill(
        "release", "rotate", target, "--key", world.folder / "mine", "--key", world.key("other"),
        "--add", f"root={world.key('other')}.pub", "--threshold", "root=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"root: 2 of {keyid[:12]}" in done.stdout or ", " in done.stdout
    pinned = target / "trust/1.root.json"
    assert ReleaseReader([target], root=pinned).newest().signed
    for words, said in (
        (("--add", "boss=x.pub"), "a role is one of root, targets, snapshot, timestamp"),
        (("--threshold", "root=none"), "write a number from 1 to 36500"),
        (("--remove", "root=abc"), "begin with 'abc'"),
    ):
        done = mill("release", "rotate", target, "--key", world.folder / "mine", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
