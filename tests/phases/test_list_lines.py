"""Where the lines of a list may go: a recipe sends nothing that it reads here to whom it names."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from gristmill import run, size
from gristmill.errors import GristmillError, RecipeError, SourceError
from gristmill.phases.inputs import list_lines
from gristmill.phases.inputs.sources import Credentials, Listed, expand
from gristmill.pipeline import dry_run
from gristmill.recipe import Source
from gristmill.store.cache import Cache
from gristmill.store.http.hosts import PUBLIC
from gristmill.store.http.settings import Settings, merge_settings
from gristmill.store.http.transfer import Transfer
from tests.support.faults import site

CANARY = "hf_CANARYcanaryCANARY"


def listed(folder: Path, *allowed: str, **source: Any) -> list[Listed]:
    settings = merge_settings(None, None, allow_hosts=allowed)._replace(backoff=0.0)
    transfer = Transfer(Cache(folder / "cache"), settings)
    return expand(Source(name="web", **source), folder, transfer, 0)


def names(found: list[Listed]) -> list[str]:
    return [shard.url for shard in found]


@pytest.mark.parametrize("verb", [run, dry_run, size])
def test_no_line_of_a_local_file_is_sent_or_shown(tmp_path: Path, verb: Any) -> None:
    with site() as server:
        for name, text in {
            "token": CANARY,
            "environ": f"A=1\0KEY={CANARY}\0",
            "config": f"key: {CANARY}\npath/to.gz\n",
            "paths": f"{CANARY}/a.jsonl.gz\n",
            "credentials": f"https://me:{CANARY}@host.example\n",
        }.items():
            (tmp_path / name).write_text(text)
            recipe = tmp_path / "r.toml"
            recipe.write_text(
                f'output = "o"\n[[source]]\nname = "w"\npaths = "{name}"\n'
                f'base_url = "{server.address}/x/"\n'
            )
            with pytest.raises(RecipeError, match=f"paths = '{name}'") as error:
                verb(recipe, cache_dir=tmp_path / "cache")
            assert "CANARY" not in str(error.value)
        assert server.asked == []


def test_a_local_list_goes_to_a_host_that_the_command_line_names(tmp_path: Path) -> None:
    with site() as server:
        server.put("/x/a.jsonl", json.dumps({"text": "A text of some words."}).encode())
        (tmp_path / "list").write_text("a.jsonl\n")
        recipe = tmp_path / "r.toml"
        recipe.write_text(
            f'[[source]]\nname = "w"\npaths = "list"\nbase_url = "{server.address}/x/"\n'
        )
        place = server.address.removeprefix("http://")
        with pytest.raises(RecipeError, match=f"line 1 would be sent to {place}.*--allow-host"):
            dry_run(recipe, out=tmp_path / "o", cache_dir=tmp_path / "cache")
        for host in (place, "127.0.0.1"):
            rows = dry_run(
                recipe, out=tmp_path / "o", cache_dir=tmp_path / "cache", allow_hosts=[host]
            )
            assert [row.shard.url for row in rows] == [f"{server.address}/x/a.jsonl"]
        with pytest.raises(RecipeError, match="would be sent to"):
            listed(tmp_path, "127.0.0.2", paths="list", base_url=server.address + "/")


def test_the_permission_names_hosts() -> None:
    for name in ("https://a.example/", "a.example/x", "", "a b"):
        with pytest.raises(RecipeError, match="name a host"):
            merge_settings(None, None, allow_hosts=[name])
    assert merge_settings(None, None, allow_hosts="A.example:81").allow_hosts == {"a.example:81"}


@pytest.mark.parametrize(
    "line",
    [CANARY, "a b.gz", "key=1", "a\x00.gz", "\ufffd.gz", "x" * 5000 + ".gz", "a/b", "aa.bb.cc"],
)
def test_lines_must_be_paths_of_raw_shards_even_for_an_allowed_host(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "list").write_text(f"good/a.warc.gz\n{line}\n")
    with pytest.raises(RecipeError, match="line 2 is neither a URL nor the path") as error:
        listed(tmp_path, "m.example", paths="list", base_url="https://m.example/")
    assert line not in str(error.value)


def test_common_crawls_paths_go_to_common_crawl(tmp_path: Path) -> None:
    path = "crawl-data/CC-MAIN-2024-22/segments/1/wet/a.warc.wet.gz"
    (tmp_path / "list").write_text(path)
    assert names(listed(tmp_path, paths="list")) == [f"https://data.commoncrawl.org/{path}"]
    (tmp_path / "list").write_text("own/notes.txt")
    with pytest.raises(RecipeError, match=r"sent to data\.commoncrawl\.org"):
        listed(tmp_path, paths="list")


def test_whole_urls_of_a_local_list_go_where_the_list_says(tmp_path: Path) -> None:
    lines = ["https://one.example/a?part=3", "s3://bucket/b.gz", "http://127.0.0.1:1/c.gz"]
    (tmp_path / "list").write_text("\n".join(lines))
    found = listed(tmp_path, paths="list", base_url="https://evil.example/")
    assert names(found) == lines
    assert [shard.remote.public for shard in found if shard.remote] == [False] * 3
    (tmp_path / "list").write_text("https://one.example/\n")
    with pytest.raises(RecipeError, match="line 1 is no URL of a file"):
        listed(tmp_path, paths="list", base_url="https://evil.example/")


def test_a_list_of_this_network_is_as_private_as_a_file(tmp_path: Path) -> None:
    with site() as inside, site() as evil:
        url = inside.put("/secrets.txt", b"secret/a.gz\n")
        with pytest.raises(RecipeError, match="would be sent to"):
            listed(tmp_path, paths=url, base_url=evil.address + "/")
        assert evil.asked == []
        assert names(listed(tmp_path, paths=url, base_url=inside.address + "/")) == [
            f"{inside.address}/secret/a.gz"
        ]


def test_a_list_that_a_variable_opens_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_AUTH_MINE", "t0ken")
    source = Source(
        name="web",
        paths="https://mine.example/list",
        base_url="https://evil.example/",
        authorization="GRISTMILL_AUTH_MINE",
    )
    remote = Credentials(source).remote("https://mine.example/list")
    with pytest.raises(RecipeError, match=r"sent to evil\.example"):
        list_lines.named_urls(source, source.paths or "", remote, ["a.gz"], ())
    for name in ("s3://mine/list", "hf://datasets/me/private/list"):
        other = Source(name="web", paths=name, base_url="s3://evil/")
        with pytest.raises(RecipeError, match="sent to evil,"):
            list_lines.named_urls(other, name, Credentials(other).remote(name), ["a.gz"], ())
    same = Source(name="web", paths="s3://mine/list", base_url="s3://mine/")
    remote = Credentials(same).remote("s3://mine/list")
    assert list_lines.named_urls(same, "s3://mine/list", remote, ["a.gz"], ()) == ["s3://mine/a.gz"]


def rebound(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have a name lead to this machine, as its owner's name server may say at any time."""
    ask = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *a, **k: ask("127.0.0.1" if host == name else host, *a, **k),
    )


def test_a_name_that_leads_into_this_network_makes_no_public_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as inside:
        inside.put("/secrets.txt", b"secret/a.gz\n")
        address = inside.address.replace("127.0.0.1", "evil.example")
        rebound(monkeypatch, "evil.example")
        for base in (address, "https://other.example"):
            with pytest.raises(SourceError, match=r"is on this machine or in its network"):
                listed(tmp_path, paths=f"{address}/secrets.txt", base_url=base + "/")
        assert inside.asked == []
        found = listed(
            tmp_path, "evil.example", paths=f"{address}/secrets.txt", base_url=address + "/"
        )
        assert names(found) == [f"{address}/secret/a.gz"]
        # What the cache holds was not read at a public address: it does not pass for that.
        with pytest.raises(SourceError, match=r"is on this machine or in its network"):
            listed(tmp_path, paths=f"{address}/secrets.txt", base_url="https://other.example/")


def test_a_list_from_the_web_leads_nowhere_in_this_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as inside:
        lines = f"{inside.address}/admin.gz\nhttps://far.example/b.gz\nc.gz\n"
        url = inside.put("/list", lines.encode()).replace("127.0.0.1", "web.example")
        rebound(monkeypatch, "web.example")
        monkeypatch.setattr("gristmill.store.http.watch.nearness", lambda _: PUBLIC)
        found = listed(tmp_path, paths=url, base_url=url.removesuffix("list"))
        monkeypatch.undo()
        assert [shard.remote.public for shard in found if shard.remote] == [True, True, False]
        asked = len(inside.asked)
        transfer = Transfer(Cache(tmp_path / "cache"), Settings(backoff=0.0))
        assert found[0].remote is not None
        with pytest.raises(SourceError, match="neither a list may lead"):
            transfer.fetch(found[0].remote)
        assert len(inside.asked) == asked


def test_a_recipes_bucket_gets_no_texts_unless_the_command_line_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(CANARY)
    recipe = tmp_path / "r.toml"
    recipe.write_text('output = "s3://evil/x"\n[[source]]\nname = "w"\nfiles = ["a.txt"]\n')
    for verb in (run, dry_run, size):
        with pytest.raises(GristmillError, match=r"output = .s3://evil/x.*--allow-host evil"):
            verb(recipe, cache_dir=tmp_path / "cache")
