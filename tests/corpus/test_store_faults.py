"""Stores and lines that lie to a writer: an answer that is lost, conditions that are ignored, a
write that is acknowledged and not done.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gristmill import pipeline, publish, pull, verify
from gristmill.corpus import store_lock
from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError
from gristmill.store.bucket.bucket import Bucket, ChangedError
from gristmill.store.http import remotes
from gristmill.system.ownership import MARKER
from tests.support.every_phase import in_process
from tests.support.releases import bucket, everything_at, small_corpus
from tests.support.store_faults import CONDITIONS, Faults, between
from tests.support.stored import copied, names


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with bucket(tmp_path_factory.mktemp("s3"), "corpora") as client:
        yield client


@contextmanager
def faulty() -> Iterator[Faults]:
    """Everything goes through a proxy, until the end."""
    direct = os.environ["AWS_ENDPOINT_URL"]
    with between(direct) as (address, faults):
        stores, remotes._stores = remotes._stores, {}
        os.environ["AWS_ENDPOINT_URL"] = address
        try:
            yield faults
        finally:
            os.environ["AWS_ENDPOINT_URL"], remotes._stores = direct, stores


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    texts = [f"some words of document {number}" for number in range(50)]
    (folder / "a.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    path = folder / "recipe.toml"
    path.write_text('[[source]]\nname = "w"\nfiles = ["a.jsonl"]\n')
    return path


def run(recipe: Path, prefix: str, cache: Path, **more: Any) -> None:
    with in_process():
        pipeline.run(recipe, out=f"s3://corpora/{prefix}", workers=1, cache_dir=cache, **more)


def test_a_lost_answer_to_a_write_with_a_condition_is_no_other_writer(
    store: Any, recipe: Path, tmp_path: Path
) -> None:
    with faulty() as faults:
        faults.lose_answer = lambda key: True
        place = Bucket("s3://corpora/answers")
        version = place.put_over("a", b"first", None, {})
        assert place.put_over("a", b"second", version, {}) is not None
        assert place.put_new("b", b"new", {})
        assert not place.put_new("b", b"other", {})
        with pytest.raises(ChangedError):
            place.put_over("a", b"third", version, {})
        assert {key.rpartition("/")[2] for key in faults.lost} == {"a", "b"}
        faults.lost.clear()
        run(recipe, "answers-run", tmp_path / "cache")
        assert any(key.endswith(store_lock.KEY) for key in faults.lost)
    with faulty() as faults:
        faults.lose_answer = lambda key: "/objects/" not in key
        publish(small_corpus(tmp_path / "corpus"), "s3://corpora/answers-published")
        assert any(key.endswith("releases/00000001.json") for key in faults.lost)
        assert any(key.endswith("latest.json") for key in faults.lost)


@pytest.mark.parametrize("dropped", [CONDITIONS[:1], CONDITIONS[1:], CONDITIONS])
def test_a_store_that_ignores_conditions_is_refused_before_work(
    store: Any, recipe: Path, tmp_path: Path, dropped: tuple[str, ...]
) -> None:
    corpus = small_corpus(tmp_path / "corpus")
    with faulty() as faults:
        faults.drop_conditions = dropped
        with pytest.raises(MachineError, match="the store ignores If-"):
            run(recipe, "ignored", tmp_path / "cache")
        with pytest.raises(MachineError, match="the store ignores If-"):
            publish(corpus, "s3://corpora/ignored-too")
    for prefix in ("ignored", "ignored-too"):
        assert names(store, prefix) == [MARKER]


@pytest.mark.parametrize("name", ["manifest.json", "manifest.lock", "SHA256SUMS"])
def test_a_final_write_that_is_lost_ends_no_run_well(
    store: Any, recipe: Path, tmp_path: Path, name: str
) -> None:
    prefix = f"lost-{name}"
    with faulty() as faults:
        faults.lose_write = lambda key: key.endswith(f"/{prefix}/{name}")
        with pytest.raises(MachineError, match=f"{name}: .* the store does not have them"):
            run(recipe, prefix, tmp_path / "cache")
    run(recipe, prefix, tmp_path / "other")
    copied(store, prefix, tmp_path / "copy")
    verify(tmp_path / "copy")


def test_a_part_that_is_lost_gets_no_manifest(store: Any, recipe: Path, tmp_path: Path) -> None:
    with faulty() as faults:
        faults.lose_write = lambda key: "/parts/text/" in key  # a copy is a PUT as well
        with pytest.raises(GristmillError, match="text/"):
            run(recipe, "parts", tmp_path / "cache")
        assert faults.lost
    assert "manifest.json" not in names(store, "parts")
    run(recipe, "parts", tmp_path / "cache")
    copied(store, "parts", tmp_path / "copy")
    verify(tmp_path / "copy")


@pytest.mark.parametrize("name", ["latest.json", "releases/00000001.json"])
def test_a_release_that_is_lost_is_not_published(store: Any, tmp_path: Path, name: str) -> None:
    corpus, target = small_corpus(tmp_path / "corpus"), f"s3://corpora/release-{name[:3]}"
    with faulty() as faults:
        faults.lose_write = lambda key: key.endswith(name)
        with pytest.raises(MachineError, match="the store does not have them"):
            publish(corpus, target)
    publish(corpus, target)
    assert everything_at(target).release.number == 1


def test_what_pull_advises_helps(store: Any, recipe: Path, tmp_path: Path) -> None:
    """A part that is lost or altered: the advice is followed to the letter."""
    run(recipe, "advice", tmp_path / "cache")
    part = next(name for name in names(store, "advice") if name.startswith("text/"))
    key = f"advice/{part}"
    whole = store.get_object(Bucket="corpora", Key=key)["Body"].read()
    store.put_object(Bucket="corpora", Key=key, Body=b"x" * len(whole))
    with pytest.raises(VerificationError, match="Remove it, then run the recipe again") as error:
        pull("s3://corpora/advice", tmp_path / "pulled")
    assert part in str(error.value)
    store.delete_object(Bucket="corpora", Key=key)
    with pytest.raises(VerificationError, match=r"is not there\. Run the recipe again"):
        pull("s3://corpora/advice", tmp_path / "pulled")
    run(recipe, "advice", tmp_path / "other")
    assert store.get_object(Bucket="corpora", Key=key)["Body"].read() == whole
    pull("s3://corpora/advice", tmp_path / "pulled")
    verify(tmp_path / "pulled")
    store.delete_object(Bucket="corpora", Key="advice/manifest.json")
    with pytest.raises(VerificationError, match="or remove the lock to finish the corpus again"):
        pull("s3://corpora/advice", tmp_path / "pulled")
    store.delete_object(Bucket="corpora", Key="advice/manifest.lock")
    with pytest.raises(RecipeError, match="run the same command again until it ends"):
        pull("s3://corpora/advice", tmp_path / "pulled")
    run(recipe, "advice", tmp_path / "third")
    pull("s3://corpora/advice", tmp_path / "pulled")
