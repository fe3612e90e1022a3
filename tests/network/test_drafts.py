"""Signatures of several people, each on a machine of their own: drafts of roots and of targets."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import UploadSettings
from gristmill.network.releases.release import ReleaseReader
from gristmill.network.trust.drafts import sign_draft
from gristmill.network.trust.keys import load_public, new_key
from gristmill.network.trust.signing import rotate, sign
from gristmill.network.trust.trust_metadata import RoleChange
from tests.support.command import command_line
from tests.support.releases import PASSPHRASE, everything_at, names, small_corpus

PEOPLE = ("anna", "bo", "cy")


class Three:
    """Three people, each with a folder and a key; `m` is the key of the publishing machine. Root
    and targets need two of the three, snapshot and timestamp that of the machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.target = folder, folder / "target"
        self.corpora = [folder / f"corpus{number}" for number in range(3)]

    def key(self, name: str) -> Path:
        return self.folder / name / "key"

    def handed(self, draft: Path, name: str) -> Path:
        """The draft, in the folder of the next one."""
        return Path(shutil.copy(draft, self.folder / name / draft.name))

    def signed_by(self, name: str, draft: Path) -> tuple[Path, dict[str, Any]]:
        mine = self.handed(draft, name)
        return mine, sign_draft(mine, [self.key(name)], PASSPHRASE)

    def publish(self, number: int, *people: str, **settings: Any) -> dict[str, Any]:
        keys = [self.key(name) for name in people]
        asked = UploadSettings(**settings)
        return publish(
            self.corpora[number], self.target, keys=keys, passphrase=PASSPHRASE, settings=asked
        )

    def public(self, name: str) -> Any:
        return load_public(self.folder / name / "key.pub")

    def newest(self) -> int:
        return everything_at(self.target, root=self.folder / "root.json").release.number


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    three = Three(tmp_path_factory.mktemp("three"))
    for name in (*PEOPLE, "m"):
        new_key(three.key(name), PASSPHRASE)
    for number, corpus in enumerate(three.corpora):
        small_corpus(corpus, number, tokens=2000, shards=1)
    both = RoleChange([three.public(name) for name in PEOPLE], threshold=2)
    machine = RoleChange([three.public("m")])
    changes = {"root": both, "targets": both, "snapshot": machine, "timestamp": machine}
    draft = three.folder / "anna/root.json"
    found = rotate(three.target, [three.key("anna")], PASSPHRASE, changes=changes, draft=draft)[
        "waiting"
    ]
    assert (found["needed"][0]["signed"], found["needed"][0]["of"]) == (1, 2)
    assert names(three.target) == []
    with pytest.raises(RecipeError, match=r"root needs 2 of the keys .*, and fewer of them"):
        rotate(three.target, [], changes={}, signed=[draft])
    draft, found = three.signed_by("bo", draft)
    assert (found["needed"][0]["signed"], found["roles"]["targets"]["threshold"]) == (2, 2)
    rotate(three.target, [], changes={}, signed=[draft])
    shutil.copy(three.target / "trust/1.root.json", three.folder / "root.json")
    return three.folder


@pytest.fixture
def three(template: Path, tmp_path: Path) -> Three:
    shutil.copytree(template, tmp_path / "three")
    return Three(tmp_path / "three")


def test_a_release_appears_when_two_of_three_have_signed(three: Three) -> None:
    with pytest.raises(RecipeError, match="targets needs 2 of the keys"):
        three.publish(0, "anna", "m")
    draft = three.folder / "anna/targets.json"
    first = three.publish(0, "anna", draft=draft)
    assert (first["release"], first["waiting"]["release"]) == (1, 1)
    assert not (three.target / "latest.json").exists()
    with pytest.raises(RecipeError, match="targets.json: is there: collect its signatures"):
        three.publish(0, "anna", draft=draft)
    with pytest.raises(RecipeError, match="not signed by enough keys of the root"):
        three.publish(0, "m", signed=draft)
    # A stranger's signature counts for nothing.
    stranger = three.folder / "stranger"
    new_key(stranger / "key", PASSPHRASE)
    draft, _ = three.signed_by("stranger", draft)
    with pytest.raises(RecipeError, match="not signed by enough keys of the root"):
        three.publish(0, "m", signed=draft)
    draft, found = three.signed_by("cy", draft)
    assert len(found["keys"]) == 3
    with pytest.raises(RecipeError, match="snapshot needs 1 of the keys"):
        three.publish(0, "anna", signed=draft)
    with pytest.raises(RecipeError, match="the draft names manifest.lock, releases/00000001"):
        three.publish(1, "m", signed=draft)
    assert three.publish(0, "m", signed=draft)["objects"] == 0
    assert three.newest() == 1
    assert three.publish(0, "m", signed=draft)["new"] is False  # the same command again
    # The next release, and the draft of the one before in its place.
    second = three.folder / "bo/second.json"
    three.publish(1, "bo", draft=second)
    old = draft
    draft, _ = three.signed_by("cy", second)
    three.publish(1, "m", signed=draft)
    assert three.newest() == 3  # corpus 1 with the draft of corpus 0 has used up number 2
    with pytest.raises(RecipeError, match="it is out of date"):
        three.publish(0, "m", signed=old)


def test_an_altered_draft_is_refused(three: Three) -> None:
    draft = three.folder / "anna/targets.json"
    three.publish(0, "anna", draft=draft)
    draft, _ = three.signed_by("bo", draft)
    table = json.loads(draft.read_bytes())
    table["signed"]["expires"] = "2099-01-01T00:00:00Z"
    draft.write_text(json.dumps(table))
    with pytest.raises(RecipeError, match="not signed by enough keys"):
        three.publish(0, "m", signed=draft)
    draft.write_text("[" * 100_000)
    with pytest.raises(VerificationError, match="no TUF metadata"):
        three.publish(0, "m", signed=draft)
    with pytest.raises(VerificationError, match="expected metadata of targets, got root"):
        three.publish(0, "m", signed=three.folder / "root.json")
    assert not (three.target / "latest.json").exists()


def test_a_key_is_replaced_and_targets_are_renewed_by_drafts(three: Three) -> None:
    draft = three.folder / "anna/targets.json"
    three.publish(0, "anna", draft=draft)
    draft, _ = three.signed_by("bo", draft)
    three.publish(0, "m", signed=draft)
    # Renewed: version 2 of the targets, of the same release.
    renewal = three.folder / "anna/renewal.json"
    keys = [three.key("anna")]
    sign(three.target, keys, PASSPHRASE, settings=UploadSettings(draft=renewal))
    renewal, _ = three.signed_by("bo", renewal)
    signed = UploadSettings(signed=renewal)
    done = sign(three.target, [three.key("m")], PASSPHRASE, settings=signed)
    assert done["roles"]["targets"]["version"] == 2
    assert three.newest() == 1
    # Anna's key is taken away; bo and cy sign the root and, as her signature is gone, the targets.
    gone = three.public("anna").keyid
    change = {role: RoleChange(remove=[gone]) for role in ("root", "targets")}
    root = three.folder / "bo/root2.json"
    rotate(three.target, [three.key("bo")], PASSPHRASE, changes=change, draft=root)
    root, found = three.signed_by("cy", root)
    assert gone not in found["roles"]["targets"]["keys"]
    with pytest.raises(RecipeError, match="targets needs 2 of the keys"):
        rotate(three.target, [three.key("m")], PASSPHRASE, changes={}, signed=[root])
    assert three.newest() == 1
    keys, targets = [three.key("bo")], three.folder / "bo/targets3.json"
    sign(three.target, keys, PASSPHRASE, settings=UploadSettings(draft=targets))
    targets, _ = three.signed_by("cy", targets)
    done = rotate(three.target, [three.key("m")], PASSPHRASE, changes={}, signed=[root, targets])
    assert done["version"] == 2
    assert three.newest() == 1
    with pytest.raises(RecipeError, match="not signed by enough keys|out of date"):
        three.publish(1, "m", signed=draft)
    again = rotate(three.target, [three.key("m")], PASSPHRASE, changes={}, signed=[root])
    assert again["version"] == 2  # the same command again changes nothing
    assert three.newest() == 1


def test_the_verbs(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_KEY_PASSPHRASE", PASSPHRASE)

    def mill(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)

    draft = three.folder / "d.json"
    corpus, target, key = three.corpora[0], three.target, three.key
    done = mill("publish", corpus, target, "--key", key("anna"), "--draft", draft)
    assert done.returncode == 0, done.stderr
    assert "release 1 waits for signatures" in done.stdout
    assert "1 of 2 signatures; these may sign: " in done.stdout
    done = mill("release", "sign", draft, "--key", key("bo"))
    assert done.returncode == 0, done.stderr
    assert "names release 1 as the newest" in done.stdout
    done = mill("publish", corpus, target, "--key", key("m"), "--signed", draft, "--json")
    assert (done.returncode, json.loads(done.stdout)["new"]) == (0, True), done.stderr


def test_people_are_told_before_signatures_expire(three: Three) -> None:
    draft = three.folder / "anna/targets.json"
    days = {"targets": 5, "snapshot": 1, "timestamp": 1}
    three.publish(0, "anna", draft=draft, days=days)
    draft, _ = three.signed_by("bo", draft)
    said: list[str] = []
    publish(
        three.corpora[0],
        three.target,
        keys=[three.key("m")],
        passphrase=PASSPHRASE,
        settings=UploadSettings(signed=draft, days=days),
        on_line=said.append,
    )
    assert [line.split()[3] for line in said if "signature of" in line] == ["targets"]
    renewed = sign(three.target, [three.key("m")], PASSPHRASE)
    assert "renew it with `gristmill release sign --all`" in renewed["warnings"][0]
    from gristmill.network.releases.status_remote import lines, status_of_release

    for root in (three.folder / "root.json", None):
        reader = ReleaseReader(three.target, root=root)
        found = status_of_release(reader)
        reader.close()
        # Without a pinned root, the address says when root and timestamp expire.
        assert len(found["warnings"]) == (1 if root else 0)
        assert len(found["expires"]) == (4 if root else 2)
        assert lines(found)[-1].endswith("release sign --all`") == bool(root)
