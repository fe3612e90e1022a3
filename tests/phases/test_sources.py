"""What sources name far away: crawls, the hub, digests; and the secrets that a plan must not
hold.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gristmill.errors import RecipeError, SourceError
from gristmill.phases.inputs import plan
from gristmill.phases.inputs.changed_inputs import Changes
from gristmill.phases.inputs.fetch import Asked, Fetch, Result
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.inputs.sources import expand
from gristmill.phases.running.progress import Progress
from gristmill.recipe import Recipe, Source, parse, stored
from gristmill.store.cache import Cache
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from gristmill.store.parts import to_json
from tests.support import faults
from tests.support.faults import Reply, Site, site


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as here:
        yield here


def made(**source: Any) -> Recipe:
    return Recipe(source=[Source(**{"name": "web", **source})])


def fetched(
    recipe: Recipe,
    folder: Path,
    before: Plan | None = None,
    resume_only: bool = False,
    changes: Changes | None = None,
    **asked: bool,
) -> Result:
    settings = Settings(backoff=0.0, contact=recipe.contact)
    transfer = Transfer(Cache(folder / "cache"), settings, resume_only=resume_only)
    planned, sources = plan.extend(before or Plan(), recipe, folder, transfer, changes=changes)
    return Fetch(planned, sources, folder, transfer, Asked(**asked)).all(
        folder, Progress(None), lambda _: None
    )


def texts(got: Result) -> list[str]:
    assert not got.failed
    return [got.paths[number].read_text() for number in sorted(got.paths)]


# -- Common Crawl


@pytest.mark.parametrize("kind", ["wet", "warc"])
def test_a_crawl_is_its_list_of_paths(tmp_path: Path, server: Site, kind: str) -> None:
    names = [
        f"crawl-data/CC-MAIN-2024-22/segments/{number}/{kind}/{number}.{kind}.gz"
        for number in range(20)
    ]
    server.put(
        f"/crawl-data/CC-MAIN-2024-22/{kind}.paths.gz", gzip.compress("\n".join(names).encode())
    )
    for name in names:
        server.put(f"/{name}", name.encode())
    got = fetched(
        made(commoncrawl="CC-MAIN-2024-22", kind=kind, sample=5, base_url=server.address + "/"),
        tmp_path,
    )
    assert len(got.plan.shards) == 5
    assert [shard.url.removeprefix(server.address + "/") for shard in got.plan.shards] == texts(got)
    more = fetched(
        made(commoncrawl="CC-MAIN-2024-22", kind=kind, sample=9, base_url=server.address + "/"),
        tmp_path,
        got.plan,
    )
    assert more.plan.shards[:5] == got.plan.shards
    assert len(more.plan.shards) == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('commoncrawl = "CC-MAIN-2024-22"', 'say which of its files with kind = "wet" or "warc"'),
        ('urls = ["https://a/b"]\nsample = 3', "sample is for paths and commoncrawl"),
        ('files = ["a"]\nsamples = 3', "unknown key; did you mean 'sample'"),
    ],
)
def test_a_source_that_makes_no_sense_is_told(text: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        parse(f'[[source]]\nname = "web"\n{text}\n', "recipe.toml")


def test_a_crawl_whose_name_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is no crawl's name"):
        fetched(made(commoncrawl="../../etc", kind="wet"), tmp_path)


# -- the hub


def hub(server: Site, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], cdn: Site) -> None:
    """The hub's answers: a tree in two pages, and redirects to another host that tell the
    digest.
    """
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    entries = [{"type": "file", "path": name} for name in files] + [
        {"type": "directory", "path": "data"}
    ]
    tree = "/api/datasets/owner/name/tree/main/data"
    following = f'<{server.address}/page2>; rel="next"'
    server.put(tree, json.dumps(entries[:2]).encode(), headers={"Link": following})
    server.put("/page2", json.dumps(entries[2:]).encode())
    right = server.answer

    def answer(method: str, path: str, headers: dict[str, str]) -> Reply:
        name = path.partition("/resolve/main/")[2]
        if name not in files:
            return right(method, path, headers)
        linked = {
            "X-Linked-ETag": f'"{hashlib.sha256(files[name]).hexdigest()}"',
            "X-Linked-Size": str(len(files[name])),
        }
        return Reply(
            302, {"Location": f"{cdn.address}/blob/{name}?X-Amz-Signature=s3cret", **linked}, b""
        )

    monkeypatch.setattr(server, "answer", answer)
    for name, body in files.items():
        cdn.put(f"/blob/{name}", body)


FILES = {
    "data/b.jsonl": b"bee",
    "data/a.jsonl": b"ay",
    "data/deep/c.jsonl": b"sea",
    "data/readme.md": b"no",
}


def test_files_of_the_hub_by_name_and_by_glob(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as cdn:
        hub(server, monkeypatch, FILES, cdn)
        monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
        got = fetched(made(urls=["hf://datasets/owner/name/data/a.jsonl"]), tmp_path)
        assert texts(got) == ["ay"]
        assert texts(fetched(made(urls=["hf://datasets/owner/name/data/*.jsonl"]), tmp_path)) == [
            "ay",
            "bee",
        ]
        assert texts(
            fetched(made(urls=["hf://datasets/owner/name@main/data/**/*.jsonl"]), tmp_path)
        ) == ["ay", "bee", "sea"]
        assert {headers.get("authorization") for _, _, headers in server.asked} == {
            "Bearer hf_s3cret"
        }
        assert not [headers for _, _, headers in cdn.asked if "authorization" in headers]
        # The digest that the hub tells is what the bytes must have, wherever they lie.
        cdn.files["/blob/data/b.jsonl"].body = b"bad"
        cdn.files["/blob/data/b.jsonl"].etag = '"2"'
        (reason,) = fetched(
            made(urls=["hf://datasets/owner/name/data/b.jsonl"]), tmp_path / "other"
        ).failed.values()
        assert f"the server promises sha256 {hashlib.sha256(b'bee').hexdigest()}" in str(reason)
    for path in (tmp_path / "cache").rglob("*.json"):
        assert "s3cret" not in path.read_text()


def test_a_dataset_of_the_hub_is_read_as_its_card_says(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [
        {"config_name": "small", "data_files": [{"split": "train", "path": "data/*.jsonl"}]},
        {"config_name": "deep", "data_dir": "data/deep", "data_files": "c.jsonl"},
    ]
    with site() as cdn:
        hub(server, monkeypatch, FILES, cdn)
        card = {"id": "owner/name", "cardData": {"configs": configs}}
        server.put("/api/datasets/owner/name", json.dumps(card).encode())
        assert texts(fetched(made(hub="owner/name", subset="small"), tmp_path)) == ["ay", "bee"]
        assert texts(fetched(made(hub="owner/name", subset="deep"), tmp_path)) == ["sea"]
        with pytest.raises(RecipeError, match="no 'other'; its subsets are deep, small"):
            fetched(made(hub="owner/name", subset="other"), tmp_path)
        with pytest.raises(RecipeError, match="it needs a subset"):
            fetched(made(hub="owner/name"), tmp_path)


def test_a_resumed_download_from_the_hub_is_checked_too(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(range(256)) * 4000
    with site() as cdn:
        hub(server, monkeypatch, {"data/a.jsonl": body}, cdn)
        cdn.faults.append(faults.cut(0.5))
        got = fetched(made(urls=["hf://datasets/owner/name/data/a.jsonl"]), tmp_path)
        assert got.plan.shards[0].sha256 == hashlib.sha256(body).hexdigest()
        assert cdn.ranges()[-1] is not None


@pytest.mark.parametrize(
    "url", ["hf://datasets/owner", "hf://owner/name/file", "hf://datasets/owner/name"]
)
def test_what_is_no_file_of_the_hub_is_told(tmp_path: Path, url: str) -> None:
    (reason,) = fetched(made(urls=[url]), tmp_path).failed.values()
    assert "write hf://datasets/OWNER/NAME/FILE" in str(reason)


# -- digests that a source gives


def sums(*pairs: tuple[bytes, str]) -> str:
    return "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for body, name in pairs)


def test_digests_of_a_list_must_hold(tmp_path: Path, server: Site) -> None:
    urls = [
        server.put("/x/a.gz", b"one"),
        server.put("/y/a.gz", b"two"),
        server.put("/c%20d.gz", b"three"),
    ]
    (tmp_path / "SHA256SUMS").write_text(
        "# of today\n" + sums((b"one", "x/a.gz"), (b"two", "./y/a.gz"), (b"three", "*c d.gz"))
    )
    recipe = made(urls=urls, sha256sums="SHA256SUMS")
    assert texts(fetched(recipe, tmp_path)) == ["one", "two", "three"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "SHA256SUMS").write_text(
        sums((b"one", "x/a.gz"), (b"other", "y/a.gz"), (b"three", "c d.gz"))
    )
    (reason,) = fetched(recipe, other).failed.values()
    assert (
        f"{urls[1]}: its source's sha256sums promises sha256 {hashlib.sha256(b'other').hexdigest()}"
        in str(reason)
    )


def test_digests_from_a_manifest_a_plan_and_a_url(tmp_path: Path, server: Site) -> None:
    url = server.put("/a.gz", b"one")
    digest = hashlib.sha256(b"one").hexdigest()
    for name, table in {
        "plan.json": {
            "format": 1,
            "shards": [{"number": 0, "source": "web", "url": url, "sha256": digest}],
        },
        "manifest.json": {
            "format": 1,
            "raw_shards": [{"number": 0, "source": "web", "url": url, "sha256": digest}],
        },
    }.items():
        (tmp_path / name).write_text(json.dumps(table))
        assert texts(fetched(made(urls=[url], sha256sums=name), tmp_path)) == ["one"]
    listed = server.put("/SHA256SUMS", sums((b"two", "a.gz")).encode())
    (reason,) = fetched(made(urls=[url], sha256sums=listed), tmp_path / "b").failed.values()
    assert "promises sha256" in str(reason)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (sums((b"one", "b.gz")), "names no digest for http"),
        (sums((b"one", "a.gz"), (b"two", "x/a.gz")), "names several digests for http"),
        ("not a digest  a.gz\n", "line 1 is not"),
        ("{}", "neither a manifest nor a plan"),
        ('{"shards": [{"sha256": "1"}]}', "neither a manifest nor a plan"),
    ],
)
def test_a_list_of_digests_that_does_not_do_is_told(
    tmp_path: Path, server: Site, text: str, said: str
) -> None:
    (tmp_path / "sums").write_text(text)
    with pytest.raises(RecipeError, match=f"source 'web': sums: {said}"):
        fetched(made(urls=[server.put("/x/a.gz", b"one")], sha256sums="sums"), tmp_path)


def test_a_local_file_is_held_to_its_digest_too(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"one")
    (tmp_path / "sums").write_text(sums((b"two", "a.gz")))
    (reason,) = fetched(made(files=["a.gz"], sha256sums="sums"), tmp_path).failed.values()
    assert "its source's sha256sums promises sha256" in str(reason)


# -- secrets


def test_a_plan_and_a_stored_recipe_hold_no_secret(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("/a.gz", b"one")
    server.put("/b.gz", b"two")
    signed = (
        server.address.replace("http://", "http://me:pw@")
        + "/a.gz?X-Amz-Signature=s3cret&X-Amz-Expires=60"
    )
    keyed = server.address + "/b.gz?part=3&api_key=s3cret"
    monkeypatch.setenv("GRISTMILL_AUTH_MINE", "t0ken")
    recipe = made(urls=[signed, keyed], authorization="GRISTMILL_AUTH_MINE")
    got = fetched(recipe, tmp_path)
    assert texts(got) == ["one", "two"]
    assert [shard.url for shard in got.plan.shards] == [
        f"{server.address}/a.gz",
        f"{server.address}/b.gz?part=3",
    ]
    assert sorted(path for _, path, _ in server.asked) == [
        "/a.gz?X-Amz-Signature=s3cret&X-Amz-Expires=60",
        "/b.gz?part=3&api_key=s3cret",
    ]
    for data in (
        to_json(got.plan),
        to_json(stored(recipe)),
        *(path.read_bytes() for path in tmp_path.rglob("*.json")),
    ):
        assert not [
            word
            for word in (b"s3cret", b"t0ken", b"me:", b"pw@", b"GRISTMILL_AUTH_MINE")
            if word in data
        ]
    # Another day, another signature: the same shards.
    again = made(
        urls=[signed.replace("s3cret", "new"), keyed.replace("s3cret", "new")],
        authorization="GRISTMILL_AUTH_MINE",
    )
    assert fetched(again, tmp_path, got.plan).plan == got.plan
    assert stored(again) == stored(recipe)


def test_credentials_come_out_of_the_environment(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.put("/a.gz", b"one")
    for value, header in (("t0ken", "Bearer t0ken"), ("Basic bWU6cHc=", "Basic bWU6cHc=")):
        monkeypatch.setenv("GRISTMILL_AUTH_MINE", value)
        assert texts(
            fetched(made(urls=[url], authorization="GRISTMILL_AUTH_MINE"), tmp_path / value[:2])
        ) == ["one"]
        assert server.asked[-1][2]["authorization"] == header
    with pytest.raises(
        RecipeError,
        match="authorization = 'GRISTMILL_AUTH_NONE': the environment holds no such variable",
    ):
        fetched(made(urls=[url], authorization="GRISTMILL_AUTH_NONE"), tmp_path)


def test_urls_that_differ_only_in_secrets_are_refused(tmp_path: Path) -> None:
    urls = ["https://host.example/get?token=1", "https://host.example/get?token=2"]
    with pytest.raises(
        RecipeError,
        match="two URLs of https://host.example/get differ only in what is never stored",
    ):
        fetched(made(urls=urls), tmp_path)


def test_a_contact_is_told_to_servers_and_not_stored(tmp_path: Path, server: Site) -> None:
    recipe = Recipe(contact="me@example.org", source=made(urls=[server.put("/a", b"x")]).source)
    assert texts(fetched(recipe, tmp_path)) == ["x"]
    assert "(+me@example.org)" in server.asked[-1][2]["user-agent"]
    assert "contact" not in stored(recipe)


# -- what is asked of a fetch


def test_resume_only_fetches_nothing_where_a_shard_is_new(tmp_path: Path, server: Site) -> None:
    urls = [server.put(f"/{name}", name.encode() * 300_000) for name in "abc"]
    fetched(made(urls=urls[:1]), tmp_path)
    server.faults.extend([faults.cut(0.9), *[faults.status(503)] * 20])
    assert fetched(made(urls=urls[1:2]), tmp_path).failed  # begun
    server.faults.clear()
    count = len(server.asked)
    with pytest.raises(
        SourceError,
        match=(
            f"--resume-only: 1 raw shards are neither in the cache .* nor begun: {urls[2]}. Nothing"
        ),
    ):
        fetched(made(urls=urls), tmp_path, resume_only=True)
    assert len(server.asked) == count
    got = fetched(made(urls=urls[:2]), tmp_path, resume_only=True)
    assert texts(got) == ["a" * 300_000, "b" * 300_000]
    assert [span is not None for span in server.ranges()[count:]] == [
        True
    ]  # what is whole is asked of nobody


def test_inputs_are_checked_where_it_is_asked_for(tmp_path: Path, server: Site) -> None:
    url = server.put("/a", b"one")
    (tmp_path / "local").write_bytes(b"two")
    recipe = made(urls=[url], files=["local"])
    got = fetched(recipe, tmp_path)
    count = len(server.asked)
    assert not fetched(recipe, tmp_path, got.plan).failed
    assert len(server.asked) == count  # pinned and here
    assert not fetched(recipe, tmp_path, got.plan, check_inputs=True).failed
    server.files["/a"] = faults.File(b"ONE", etag='"2"')
    (tmp_path / "local").write_bytes(b"TWO")
    failed = fetched(recipe, tmp_path, got.plan, check_inputs=True).failed
    assert sorted(failed) == sorted([url, "local"])
    assert "changed since it was fetched: its ETag or date is another" in str(failed[url])
    del server.files["/a"]
    assert "the server answered 404" in str(
        fetched(recipe, tmp_path, got.plan, check_inputs=True).failed[url]
    )


def test_a_remote_that_changed_since_the_plan_pinned_it_is_an_error(
    tmp_path: Path, server: Site
) -> None:
    url = server.put("/a", b"one")
    got = fetched(made(urls=[url]), tmp_path)
    for path in (tmp_path / "cache/objects").iterdir():
        path.unlink()
    server.files["/a"] = faults.File(b"ONE", etag='"2"')
    assert "the plan promises sha256" in str(
        fetched(made(urls=[url]), tmp_path, got.plan).failed[url]
    )
    server.files["/a"] = faults.File(b"longer", etag='"3"')
    assert "changed since the plan pinned it: 3 bytes then, 6 now" in str(
        fetched(made(urls=[url]), tmp_path, got.plan).failed[url]
    )


def test_credentials_go_where_the_recipe_says_and_nowhere_that_a_list_says(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_AUTH_MINE", "t0ken")
    with site() as other:
        server.put("/own.gz", b"own")
        other.put("/foreign.gz", b"foreign")
        listed = server.put("/list", f"own.gz\n{other.address}/foreign.gz\n".encode())
        recipe = made(
            paths=listed, base_url=server.address + "/", authorization="GRISTMILL_AUTH_MINE"
        )
        got = fetched(recipe, tmp_path)
        assert texts(got) == ["own", "foreign"]
        assert {headers.get("authorization") for _, _, headers in server.asked} == {
            "Bearer t0ken"
        }  # the list too
        assert [headers.get("authorization") for _, _, headers in other.asked] == [None]
        # Nor where a plan says.
        (tmp_path / "new").mkdir()
        plain = made(urls=[server.address + "/own.gz"], authorization="GRISTMILL_AUTH_MINE")
        fetched(
            plain,
            tmp_path / "new",
            Plan(shards=[msgspec.structs.replace(shard, sha256=None) for shard in got.plan.shards]),
            changes=Changes(is_stored_plan=True),
        )
        assert [headers.get("authorization") for _, _, headers in other.asked] == [None, None]


def test_resume_only_asks_no_list_and_no_digests(tmp_path: Path, server: Site) -> None:
    server.put("/a.gz", b"one")
    listed = server.put("/list", b"a.gz\n")
    digests = server.put("/SHA256SUMS", sums((b"one", "a.gz")).encode())
    recipe = made(paths=listed, base_url=server.address + "/", sha256sums=digests)
    with pytest.raises(SourceError, match="/list: --resume-only: it is neither in the cache"):
        fetched(recipe, tmp_path, resume_only=True)
    assert not server.asked
    assert texts(fetched(recipe, tmp_path)) == ["one"]
    count = len(server.asked)
    assert texts(fetched(recipe, tmp_path, resume_only=True)) == ["one"]
    assert len(server.asked) == count


def test_the_hub_is_asked_again_where_it_asks_to_wait(
    tmp_path: Path, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as cdn:
        hub(server, monkeypatch, FILES, cdn)
        server.faults.append(faults.status(429, Retry_After="0"))
        assert texts(fetched(made(urls=["hf://datasets/owner/name/data/*.jsonl"]), tmp_path)) == [
            "ay",
            "bee",
        ]


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    """Sorted, those below it as well; without hidden ones, corpora and caches of ours, and
    recipes.
    """
    for name in (
        "b.jsonl",
        "a/c.jsonl",
        "a/.d.jsonl",
        ".git/e.jsonl",
        "_SUCCESS",
        "corpus/manifest.lock",
        "corpus/text/web/f.jsonl",
        "begun/work/lock",
        "begun/g.jsonl",
        "cache/objects/h",
        "cache/urls/i",
        "cache/partial/j",
        "a-1.jsonl",
        "notes.toml",
    ):
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text("x")
    (tmp_path / "raw/recipe.toml").write_text('[[source]]\nname = "web"\nfiles = ["."]\n')
    found = ["a-1.jsonl", "a/c.jsonl", "b.jsonl", "notes.toml"]
    for folder, pattern, before in (
        (tmp_path / "raw", ".", ""),
        (tmp_path, "raw", "raw/"),
        (tmp_path, str(tmp_path / "raw"), "raw/"),
    ):
        source = Source(name="web", files=[pattern])
        with closing(Transfer(Cache(tmp_path / "cache"), Settings())) as transfer:
            assert [shard.url for shard in expand(source, folder, transfer, 1)] == [
                before + name for name in found
            ]
