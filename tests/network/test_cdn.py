"""Invalidation through CloudFront's API, as moto serves it over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import MachineError, RecipeError
from gristmill.network.releases.cdn import CloudFront, open_cloudfront
from gristmill.network.releases.publish import publish
from gristmill.network.trust.keys import new_key
from tests.support.releases import (
    PASSPHRASE,
    Distribution,
    bucket,
    distribution,
    everything_at,
    small_corpus,
)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distribution]:
    """A distribution before a bucket."""
    with bucket(tmp_path_factory.mktemp("s3")), distribution() as made:
        yield made


def test_what_changes_is_invalidated(front: Distribution, tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path / "corpus", 1, tokens=4000, shards=1)

    done = publish(corpus, "s3://releases/a", cdn=CloudFront(front.identifier))
    assert [front.invalidated(one) for one in done["invalidations"]] == [["/latest.json"]]
    new_key(tmp_path / "key", PASSPHRASE)
    done = publish(
        corpus,
        "s3://releases/b",
        keys=[tmp_path / "key"],
        passphrase=PASSPHRASE,
        cdn=CloudFront(front.identifier, "/corpora/b/"),
    )
    assert [sorted(front.invalidated(one)) for one in done["invalidations"]] == [
        ["/corpora/b/latest.json", "/corpora/b/trust/root.json", "/corpora/b/trust/timestamp.json"]
    ]
    # More names than one request takes.
    names = [f"objects/{number}" for number in range(1500)]
    made = CloudFront(front.identifier).invalidate(names)
    assert [len(front.invalidated(one)) for one in made] == [1000, 500]


def test_a_failed_invalidation_is_an_error_and_the_release_is_out(
    front: Distribution, tmp_path: Path
) -> None:
    corpus = small_corpus(tmp_path / "corpus", 2, tokens=4000, shards=1)
    with pytest.raises(MachineError, match=r"the invalidation failed \(NoSuchDistribution\)"):
        publish(corpus, "s3://releases/c", cdn=CloudFront("E123"))
    assert everything_at("s3://releases/c").release.number == 1
    done = publish(corpus, "s3://releases/c", cdn=CloudFront(front.identifier))
    assert (done["new"], len(done["invalidations"])) == (False, 1)


def test_options() -> None:
    assert open_cloudfront(None, None) is None
    assert open_cloudfront("E12", "/x") == CloudFront("E12", "/x")
    with pytest.raises(RecipeError, match="name the distribution too"):
        open_cloudfront(None, "/x")
    with pytest.raises(RecipeError, match="name the distribution's id"):
        open_cloudfront("https://d111.cloudfront.net", None)
