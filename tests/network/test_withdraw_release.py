"""Withdrawal from a published corpus: what readers see, what is deleted, and no way back."""

import shutil
from pathlib import Path

import pytest

import gristmill
from gristmill import TokenCorpus, why
from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.cdn import CloudFront
from gristmill.network.releases.layout import WithdrawnDocument
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import Publisher, UploadSettings
from gristmill.network.releases.pull import pull
from gristmill.network.releases.release import ReleaseReader
from gristmill.network.releases.targets import open_target
from gristmill.network.trust.drafts import sign_draft
from gristmill.network.trust.keys import PASSPHRASE, load_signers, new_key
from gristmill.network.trust.signing import rotate
from gristmill.network.trust.trust_metadata import RoleChange
from gristmill.network.withdrawal import withdraw_release as module
from gristmill.network.withdrawal.withdraw import withdraw
from gristmill.network.withdrawal.withdraw_release import withdraw_release
from tests.support.corpora import article, jsonl
from tests.support.every_phase import in_process
from tests.support.releases import bucket, distribution, everything_at, names

PHRASE = "the miller's private letter"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("made")
    rows = [{"text": article(f"r {number}", 12)} for number in range(8)]
    rows[3]["text"] = f"{PHRASE} {rows[3]['text']}"
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    gristmill.train_tokenizer([tmp_path / "a.jsonl"], tmp_path / "t.json", vocabulary=270)
    (tmp_path / "recipe.toml").write_text(
        '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[tokens]\ntokenizer = "t.json"\n'
        "tokens_per_shard = 400\n"
    )
    gristmill.run(tmp_path / "recipe.toml", out=tmp_path / "corpus", workers=1)
    return tmp_path / "corpus"


@pytest.fixture
def corpus(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "corpus"))


def objects(target: Path) -> set[str]:
    return {path.name for path in (target / "objects").rglob("*") if path.is_file()}


def test_readers_get_a_release_that_they_cannot_go_back_from(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "public"
    shutil.copytree(corpus, tmp_path / "before")
    publish(corpus, target, with_=["documents"])
    reader = ReleaseReader(target)
    first = reader.newest()
    pointer = (target / layout.POINTER).read_bytes()
    before = objects(target)
    result = withdraw_release(corpus, target, ["0:3"])
    assert (result["documents"], result["release"], result["minimum"]) == (1, 2, 2)
    second = reader.newest()
    assert (second.release.minimum, second.release.previous) == (2, first.sha256)
    assert second.release.withdrawn == [WithdrawnDocument(document=3, source="web")]
    assert second.release.has("withdrawn.txt")
    assert second.release.has("documents/00000.parquet")
    # Of the parts only those are new that held it; the objects of the others are kept.
    old = {part.path: part for part in first.manifest.parts}
    new = {part.path: part for part in second.manifest.parts}
    changed = {path for path in new if path in old and new[path].sha256 != old[path].sha256}
    shards = {path for path in changed if path.startswith("tokens/") and path.endswith(".bin")}
    assert 0 < len(shards) < len([path for path in new if path.endswith(".bin")])
    assert all(new[path].size == old[path].size for path in shards)
    gone = {old[path].sha256 for path in changed if first.release.has(path)}
    assert gone <= before
    assert not gone & objects(target)
    assert first.release.manifest not in objects(target)
    assert len(before - objects(target)) == result["deleted"]
    for part in second.manifest.parts:
        if second.release.has(part.path):
            reader.download(part.sha256, part.size, tmp_path / "got" / part.path)
    # A copy of the corpus from before brings nothing back.
    with pytest.raises(RecipeError, match="document 0:3 was withdrawn from the target"):
        publish(tmp_path / "before", target)
    assert reader.newest().release.number == 2
    # Somebody puts the old pointer back.
    (target / layout.POINTER).write_bytes(pointer)
    with pytest.raises(VerificationError, match="shows release 1, and release 2"):
        reader.newest()
    reader.close()


def test_killed_after_any_step_the_same_command_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "public"
    publish(corpus, target)
    steps = ("_released", "_deleted")
    for name in steps:

        def killed(*given: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(module, name, killed)
            withdraw_release(corpus, target, ["0:3"])
    result = withdraw_release(corpus, target, ["0:3"])
    assert (result["documents"], result["withdrawn"], result["release"]) == (0, 1, 2)
    assert result["deleted"] > 0
    assert withdraw_release(corpus, target, ["0:3"])["deleted"] == 0
    # The next one keeps the list and raises the minimum.
    assert withdraw_release(corpus, target, ["0:1"])["minimum"] == 3
    reader = ReleaseReader(target)
    assert [one.document for one in reader.newest().release.withdrawn] == [1, 3]
    reader.close()


def test_it_lists_what_publishing_lists_and_refuses_what_publishing_refuses(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key whose passphrase is that of the environment."""
    monkeypatch.setenv(PASSPHRASE, "secret words")
    new_key(tmp_path / "key", "secret words")
    target, keys = tmp_path / "public", [tmp_path / "key"]
    shutil.copytree(corpus, tmp_path / "copy")
    publish(corpus, target, keys=keys)
    # A document of another corpus, which was published there before.
    publisher = Publisher(open_target(target), load_signers(keys, None))
    other = WithdrawnDocument(document=77, source="books")
    data = (corpus / "manifest.json").read_bytes()
    publisher.release(data, publisher.current[0].included, withdrawn=[other])
    publisher.close()
    withdraw_release(corpus, target, ["0:3"], keys=keys)
    reader = ReleaseReader(target, root=target / "trust/root.json")
    assert [one.document for one in reader.newest().release.withdrawn] == [3, 77]
    # The same corpus, where 0:3 is still a document.
    with pytest.raises(RecipeError, match="document 0:3 was withdrawn from the target"):
        withdraw_release(tmp_path / "copy", target, ["0:1"], keys=keys)
    assert reader.newest().release.number == 3
    withdraw_release(tmp_path / "copy", target, ["0:3"], keys=keys)
    assert [one.document for one in reader.newest().release.withdrawn] == [1, 3, 77]
    reader.close()


def test_with_a_draft_it_waits_for_signatures_and_deletes_nothing_before(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSPHRASE, "secret words")
    for name in ("mine", "other"):
        new_key(tmp_path / name, "secret words")
    keys, target = [tmp_path / "mine", tmp_path / "other"], tmp_path / "public"
    rotate(target, keys, changes={"targets": RoleChange(threshold=2)})
    publish(corpus, target, keys=keys)
    before = set(names(target))
    settings = UploadSettings(draft=tmp_path / "draft.json")
    done = withdraw_release(corpus, target, ["0:3"], keys=keys[:1], settings=settings)
    assert (done["documents"], done["deleted"], done["waiting"]["release"]) == (1, 0, 2)
    assert everything_at(target, root=target / "trust/root.json").release.number == 1
    assert before <= set(names(target))
    sign_draft(tmp_path / "draft.json", keys[1:])
    settings = UploadSettings(signed=tmp_path / "draft.json")
    done = withdraw_release(corpus, target, ["0:3"], keys=keys[:1], settings=settings)
    assert (done["minimum"], done["waiting"], done["deleted"] > 0) == (2, None, True)
    assert everything_at(target, root=target / "trust/root.json").release.number == 2


def test_the_state_of_a_run_goes_and_the_next_run_starts_from_the_store_alone(
    made: Path, corpus: Path, tmp_path: Path
) -> None:
    target, fresh = tmp_path / "public", tmp_path / "fresh"
    published = publish(corpus, target, with_=["state"])
    reader = ReleaseReader(target)
    state = reader.newest().release.state
    assert state in objects(target)
    assert published["objects"] > len(reader.newest().manifest.parts)
    withdraw_release(corpus, target, ["0:3"])
    newest = reader.newest()
    reader.close()
    assert newest.release.state is None
    parts = {part.sha256 for part in newest.manifest.parts}
    assert len(objects(target) - parts) == 3  # manifest, lock and list of digests
    # A fresh machine with the raw file, which still has the document.
    pull(target, fresh / "corpus")
    for name in ("a.jsonl", "t.json"):
        shutil.copy(made.parent / name, fresh)
    recipe = (made.parent / "recipe.toml").read_text()
    step = '[[step]]\nuse = "withdrawn"\nlist = "corpus/withdrawn.txt"\n'
    (fresh / "recipe.toml").write_text(recipe.replace("[tokens]", f"{step}[tokens]"))
    shutil.copytree(fresh, tmp_path / "other")
    with in_process():
        gristmill.run(fresh / "recipe.toml", out=fresh / "corpus", workers=1)
        with open(tmp_path / "other/recipe.toml", "a") as file:
            file.write('order = "append"\n')
        gristmill.run(tmp_path / "other/recipe.toml", out=tmp_path / "other/corpus", workers=1)
    assert why(fresh / "corpus", "0:3")[0]["reason"] == "withdrawn.listed"
    tokens = TokenCorpus.open(fresh / "corpus").stream("web")
    assert all((numbers >= 0).all() and 3 not in numbers for numbers, _ in tokens.every_document())
    again = publish(fresh / "corpus", target, with_=["state"])
    assert (again["release"], again["new"]) == (3, True)
    # Full shards of a corpus that grows are never written anew.
    withdraw(tmp_path / "other/corpus", ["0:1"])
    with pytest.raises(RecipeError, match="token shards that are written never do"), in_process():
        gristmill.run(tmp_path / "other/recipe.toml", out=tmp_path / "other/corpus", workers=1)


def test_nothing_is_withdrawn_where_nothing_is_published(corpus: Path, tmp_path: Path) -> None:
    before = (corpus / "manifest.json").read_bytes()
    with pytest.raises(RecipeError, match="nothing is published there"):
        withdraw_release(corpus, tmp_path / "empty", ["0:3"])
    assert (corpus / "manifest.json").read_bytes() == before


def test_in_a_bucket_old_objects_are_deleted_and_invalidated(corpus: Path, tmp_path: Path) -> None:
    with bucket(tmp_path / "s3") as client, distribution() as front:
        target = "s3://releases/flour"
        publish(corpus, target)

        def keys() -> set[str]:
            found = client.list_objects_v2(Bucket="releases")["Contents"]
            return {one["Key"].removeprefix("flour/") for one in found}

        before = keys()
        result = withdraw_release(
            corpus, target, ["0:3"], cdn=CloudFront(front.identifier, "flour")
        )
        deleted = before - keys()
        assert len(deleted) == result["deleted"] > 0
        paths = front.invalidated(result["invalidations"][0])
        assert {f"/flour/{key}" for key in (*deleted, layout.POINTER)} == set(paths)
