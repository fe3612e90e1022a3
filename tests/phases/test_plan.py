"""The plan: which shards, in which order, under which numbers; and what cannot be planned."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from gristmill.demonstration.server import serving
from gristmill.errors import RecipeError, SourceError
from gristmill.phases.inputs import plan
from gristmill.phases.inputs.changed_inputs import Changes
from gristmill.phases.inputs.fetch import Asked, Fetch, Result
from gristmill.phases.inputs.plan import Lists, Plan, PlannedShard
from gristmill.phases.running.progress import Progress
from gristmill.recipe import Recipe, Source, stored
from gristmill.store.cache import Cache
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer


def transfer_of(folder: Path) -> Transfer:
    settings = Settings(backoff=0.0, allow_hosts=frozenset(["data.example"]))
    return Transfer(Cache(folder / "cache"), settings)


def extend(
    recipe: Recipe,
    folder: Path,
    before: Plan | None = None,
    lists: Lists | None = None,
    **more: Any,
) -> Plan:
    transfer = transfer_of(folder)
    return plan.extend(before or Plan(), recipe, folder, transfer, lists=lists, **more)[0]


def bring(planned: Plan, recipe: Recipe, folder: Path) -> Result:
    """Fetch all shards of a plan."""
    transfer = transfer_of(folder)
    sources = plan.extend(planned, recipe, folder, transfer)[1]
    return Fetch(planned, sources, folder, transfer, Asked()).all(
        folder, Progress(None), lambda _: None
    )


def made(**source: Any) -> Recipe:
    return Recipe(source=[Source(**{"name": "web", **source})])


def urls(planned: Plan) -> list[str]:
    assert [shard.number for shard in planned.shards] == list(range(len(planned.shards)))
    return [shard.url for shard in planned.shards]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for name in (
        "raw/b.gz",
        "raw/a.gz",
        "raw/Z.gz",
        "raw/10.gz",
        "raw/9.gz",
        "raw/é.gz",
        "raw/deep/c.gz",
        "raw/.hidden.gz",
        "other/x.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def test_globs_are_sorted_by_the_bytes_of_the_path(raw: Path) -> None:
    assert urls(extend(made(files=["raw/*.gz"]), raw)) == [
        "raw/10.gz",
        "raw/9.gz",
        "raw/Z.gz",
        "raw/a.gz",
        "raw/b.gz",
        "raw/é.gz",
    ]
    assert urls(extend(made(files=["raw/**/*.gz"]), raw)) == [
        "raw/10.gz",
        "raw/9.gz",
        "raw/Z.gz",
        "raw/a.gz",
        "raw/b.gz",
        "raw/deep/c.gz",
        "raw/é.gz",
    ]
    assert urls(extend(made(files=["raw/[ab].gz"]), raw)) == ["raw/a.gz", "raw/b.gz"]


def test_patterns_keep_their_order_and_a_file_stands_once(raw: Path) -> None:
    assert urls(extend(made(files=["raw/b.gz", "raw/?.gz", "other/*", "./raw/a.gz"]), raw))[:3] == [
        "raw/b.gz",
        "raw/9.gz",
        "raw/Z.gz",
    ]
    assert urls(
        extend(made(files=["raw/b.gz", "raw/b.gz", "raw/../raw/b.gz", str(raw / "raw/b.gz")]), raw)
    ) == ["raw/b.gz"]


def test_a_folder_is_no_shard(raw: Path) -> None:
    (raw / "raw/folder.gz").mkdir()
    assert "raw/folder.gz" not in urls(extend(made(files=["raw/*.gz"]), raw))
    with pytest.raises(RecipeError, match="has no shards"):
        extend(made(files=["raw/folder.gz"]), raw)


def test_a_file_that_is_not_there_is_told(raw: Path) -> None:
    with pytest.raises(RecipeError, match=f"source 'web': {raw}/raw/none.gz: no such file"):
        extend(made(files=["raw/none.gz"]), raw)


def test_a_glob_that_names_nothing_is_told_where_the_source_has_nothing_else(raw: Path) -> None:
    with pytest.raises(RecipeError, match="source 'web' has no shards"):
        extend(made(files=["raw/*.none"]), raw)
    assert urls(extend(made(files=["raw/*.none", "raw/a.gz"]), raw)) == ["raw/a.gz"]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(raw: Path) -> None:
    (raw / "raw/star[1]*.txt").write_text("x")
    assert urls(extend(made(files=["raw/star[1]*.txt"]), raw)) == ["raw/star[1]*.txt"]


def test_a_file_whose_name_is_not_utf8_is_refused_or_read(raw: Path) -> None:
    from gristmill.store.parts import to_json

    (raw / "raw" / os.fsdecode(b"\xff.txt")).write_text("x")
    try:
        planned = extend(made(files=["raw/*.txt"]), raw)
    except RecipeError:
        return
    to_json(planned)
    assert not bring(planned, made(files=["raw/*.txt"]), raw).failed


@pytest.mark.parametrize("url", ["raw/a.gz", "/raw/a.gz", "ftp://host/a.gz", "host.example/a", ""])
def test_what_is_no_url_is_refused_among_urls(raw: Path, url: str) -> None:
    with pytest.raises(RecipeError, match="is no URL of ours .*; local paths go into `files`"):
        extend(made(urls=[url]), raw)


LIST = (
    "crawl-data/a.wet.gz\r\n\n  crawl-data/b.wet.gz  "
    "\n/crawl-data/c.wet.gz\nhttps://other.example/d.wet.gz\ncrawl-data/a.wet.gz\n"
)
LISTED = [
    "https://data.example/crawl-data/a.wet.gz",
    "https://data.example/crawl-data/b.wet.gz",
    "https://data.example/crawl-data/c.wet.gz",
    "https://other.example/d.wet.gz",
]


def test_a_list_file_with_a_base_url(raw: Path) -> None:
    (raw / "wet.paths").write_text(LIST)
    (raw / "wet.paths.gz").write_bytes(gzip.compress(LIST.encode()))
    for name in ("wet.paths", "wet.paths.gz"):
        assert urls(extend(made(paths=name, base_url="https://data.example/"), raw)) == LISTED
    assert (
        urls(extend(made(paths="wet.paths"), raw))[0]
        == "https://data.commoncrawl.org/crawl-data/a.wet.gz"
    )


def test_a_sample_is_a_prefix_of_one_seeded_order(raw: Path) -> None:
    lines = [f"crawl-data/{number}.wet.gz" for number in range(200)]
    (raw / "wet.paths").write_text("\n".join(lines))
    (raw / "other.paths").write_text("\n".join(reversed(lines)))
    eight, sixteen = (urls(extend(made(paths="wet.paths", sample=many), raw)) for many in (8, 16))
    assert sixteen[:8] == eight
    assert len(set(sixteen)) == 16
    assert sorted(eight) != eight  # an order of its own
    assert (
        urls(extend(made(paths="other.paths", sample=8), raw)) == eight
    )  # whatever the order of the list
    assert (
        urls(extend(Recipe(source=made(paths="wet.paths", sample=8).source, seed=2), raw)) != eight
    )
    assert len(urls(extend(made(paths="wet.paths", sample=1000), raw))) == 200


def test_a_finished_corpus_asks_a_list_again_only_where_the_recipe_names_another_or_more(
    raw: Path,
) -> None:
    (raw / "wet.paths").write_text(LIST)
    small, large = (
        made(paths="wet.paths", base_url="https://data.example/", sample=many) for many in (2, 4)
    )
    two = extend(small, raw)
    four = extend(large, raw, two, Lists(stored(small)["source"], stored(large)["source"]))
    assert urls(four)[:2] == urls(two)
    assert sorted(urls(four)) == sorted(LISTED)
    (raw / "wet.paths").unlink()
    same = stored(large)["source"]
    assert extend(large, raw, four, Lists(same, same)) == four
    with pytest.raises(RecipeError, match="the list cannot be read"):
        extend(small, raw, four, Lists(same, stored(small)["source"]))


def test_a_list_over_http(raw: Path) -> None:
    (raw / "wet.paths.gz").write_bytes(gzip.compress(b"raw/a.gz\nraw/b.gz\n"))
    with serving(raw) as address:
        planned = extend(made(paths=f"{address}/wet.paths.gz", base_url=f"{address}/"), raw)
        assert urls(planned) == [f"{address}/raw/a.gz", f"{address}/raw/b.gz"]
        got = bring(planned, made(paths=f"{address}/wet.paths.gz", base_url=f"{address}/"), raw)
        assert not got.failed
        assert [got.paths[number].read_text() for number in range(2)] == ["x", "x"]
        with pytest.raises(SourceError, match="none.gz: the server answered 404"):
            extend(made(paths=f"{address}/none.gz"), raw)


def test_a_list_that_cannot_be_read_is_told(raw: Path) -> None:
    with pytest.raises(RecipeError, match="none.paths: the list cannot be read"):
        extend(made(paths="none.paths"), raw)
    (raw / "cut.paths.gz").write_bytes(gzip.compress(LIST.encode())[:-20])
    with pytest.raises(SourceError, match=r"cut.paths.gz: the list is truncated at byte 0"):
        extend(made(paths="cut.paths.gz"), raw)
    (raw / "empty.paths").write_text("\n\n")
    with pytest.raises(RecipeError, match="source 'web' has no shards"):
        extend(made(paths="empty.paths"), raw)


def test_sources_are_numbered_by_priority_and_then_as_they_stand(raw: Path) -> None:
    names = {"one": 0, "two": 5, "three": 0, "four": 5, "five": -1}
    sources = [
        Source(name=name, priority=priority, files=["raw/a.gz", "raw/b.gz"])
        for name, priority in names.items()
    ]
    planned = extend(Recipe(source=sources), raw)
    urls(planned)
    assert [shard.source for shard in planned.shards] == [
        "two",
        "two",
        "four",
        "four",
        "one",
        "one",
        "three",
        "three",
        "five",
        "five",
    ]


def test_a_plan_only_grows(raw: Path) -> None:
    before = extend(made(files=["raw/b.gz"]), raw)
    pinned = Plan(
        shards=[PlannedShard(number=0, source="web", url="raw/b.gz", sha256="1" * 64, size=1)]
    )
    assert urls(before) == ["raw/b.gz"]
    after = extend(made(files=["raw/a.gz", "raw/b.gz"]), raw, pinned)
    assert urls(after) == ["raw/b.gz", "raw/a.gz"]
    assert after.shards[0] == pinned.shards[0]
    # What the recipe no longer names stays in its place.
    with pytest.raises(RecipeError, match=r"raw/b.gz \(raw shard 0: the recipe no longer names it"):
        extend(made(files=["raw/a.gz"]), raw, after)
    left = extend(made(files=["raw/a.gz"]), raw, after, changes=Changes(remove=True))
    assert [(shard.url, shard.missing) for shard in left.shards] == [
        ("raw/b.gz", "removed"),
        ("raw/a.gz", None),
    ]
    # What comes back gets a new number, also where absent shards are not asked for again.
    for again in (True, False):
        back = extend(made(files=["raw/a.gz", "raw/b.gz"]), raw, left, absent_again=again)
        assert urls(back) == ["raw/b.gz", "raw/a.gz", "raw/b.gz"]


def test_a_source_that_the_recipe_no_longer_names_is_refused_or_removed(raw: Path) -> None:
    before = extend(made(files=["raw/b.gz"]), raw)
    recipe = made(name="books", files=["raw/a.gz"])
    with pytest.raises(RecipeError, match=r"raw/b.gz \(raw shard 0: the recipe no longer names it"):
        extend(recipe, raw, before)
    (raw / "raw/b.gz").unlink()
    after = extend(recipe, raw, before, changes=Changes(remove=True))
    assert [shard.missing for shard in after.shards] == ["removed", None]


def test_an_absent_shard_comes_back_under_a_new_number(raw: Path) -> None:
    absent = Plan(
        shards=[PlannedShard(number=0, source="web", url="raw/a.gz", missing="not-found")]
    )
    planned = extend(made(files=["raw/a.gz"]), raw, absent)
    assert [(shard.number, shard.missing) for shard in planned.shards] == [
        (0, "not-found"),
        (1, None),
    ]


def test_a_file_that_changed_or_vanished_is_told(raw: Path) -> None:
    recipe = made(files=["raw/*.gz"])
    got = bring(extend(recipe, raw), recipe, raw)
    assert not got.failed
    assert all(shard.sha256 and shard.size == 1 for shard in got.plan.shards)
    path = got.paths[0]
    path.write_text("yy")
    (reason,) = bring(got.plan, recipe, raw).failed.values()
    assert (
        f"{path.name}: the plan promises sha256 {got.plan.shards[0].sha256}, but the file has"
        in str(reason)
    )
    path.unlink()
    with pytest.raises(RecipeError, match=f"{path.name} .raw shard 0: the file is not there"):
        bring(got.plan, recipe, raw)
