"""Which secrets of the environment go where: a recipe of somebody else's sends none that was not
meant for it, and none goes in the clear.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gristmill import run
from gristmill.errors import RecipeError, SourceError
from gristmill.phases.inputs.sources import Credentials
from gristmill.pipeline import dry_run
from gristmill.recipe import Source
from gristmill.store.cache import Cache
from gristmill.store.http import secrets
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import ROOT, faults
from tests.support.command import command_line
from tests.support.faults import site

NAMES = {
    "AWS_SECRET_ACCESS_KEY": "aws-s3cret",
    "OPENAI_API_KEY": "sk-s3cret",
    "HF_TOKEN": "hf-s3cret",
    "GRISTMILL_AUTH_MIRROR": "m-s3cret",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NAMES.items():
        monkeypatch.setenv(name, value)


def credentials(name: str, url: str, *allowed: str, **more: object) -> Credentials:
    return Credentials(Source(name="web", urls=[url], authorization=name, **more), allowed)  # type: ignore[arg-type]


def sent(name: str, url: str, *allowed: str) -> str | None:
    return credentials(name, url, *allowed).remote(url).request().authorization


REFUSED = [
    ("AWS_SECRET_ACCESS_KEY", "https://evil.example/a", (), "are never sent"),
    (
        "AWS_SECRET_ACCESS_KEY",
        "https://evil.example/a",
        ("AWS_SECRET_ACCESS_KEY",),
        "are never sent",
    ),
    ("OPENAI_API_KEY", "https://evil.example/a", (), "say --allow-env OPENAI_API_KEY"),
    ("OPENAI_API_KEY", "https://evil.example/a", ("HF_TOKEN",), "say --allow-env OPENAI_API_KEY"),
    ("PATH", "https://evil.example/a", (), "say --allow-env PATH"),
    (
        "HF_TOKEN",
        "https://evil.example/a",
        (),
        "goes to huggingface.co only, and not to https://evil.example/a",
    ),
    ("HF_TOKEN", "https://huggingface.co.evil.example/a", (), "goes to huggingface.co only"),
    ("HF_TOKEN", "https://evilhuggingface.co/a", (), "goes to huggingface.co only"),
    ("HF_TOKEN", "https://huggingface.co@evil.example/a", (), "goes to huggingface.co only"),
    ("hf_s3cret-itself", "https://huggingface.co/a", (), "never the secret itself"),
    ("GRISTMILL_AUTH_MIRROR", "http://mirror.example/a", (), "goes only over https"),
    ("GRISTMILL_AUTH_MIRROR", "http://127.0.0.1.evil.example/a", (), "goes only over https"),
    ("GRISTMILL_AUTH_MIRROR", "http://localhost.evil.example/a", (), "goes only over https"),
    ("GRISTMILL_AUTH_MIRROR", "http://10.0.0.1/a", (), "goes only over https"),
    ("GRISTMILL_AUTH_MIRROR", "http://0.0.0.0/a", (), "goes only over https"),
    ("OPENAI_API_KEY", "http://mirror.example/a", ("OPENAI_API_KEY",), "goes only over https"),
]


@pytest.mark.parametrize(("name", "url", "allowed", "why"), REFUSED)
def test_what_a_recipe_may_not_send(
    environment: None, name: str, url: str, allowed: tuple[str, ...], why: str
) -> None:
    with pytest.raises(RecipeError, match=why) as error:
        sent(name, url, *allowed)
    assert "s3cret" not in str(error.value).replace("hf_s3cret-itself", "")
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "url", "allowed"),
    [
        ("GRISTMILL_AUTH_MIRROR", "https://mirror.example/a", ()),
        ("GRISTMILL_AUTH_MIRROR", "http://127.0.0.1:8000/a", ()),
        ("GRISTMILL_AUTH_MIRROR", "http://127.9.9.9/a", ()),
        ("GRISTMILL_AUTH_MIRROR", "http://[::1]:8000/a", ()),
        ("GRISTMILL_AUTH_MIRROR", "http://LOCALHOST/a", ()),
        ("HF_TOKEN", "https://huggingface.co/datasets/o/n/resolve/main/a", ()),
        ("HF_TOKEN", "https://cdn-lfs.huggingface.co:443/a", ()),
        ("HF_TOKEN", "hf://datasets/o/n/a", ()),
        ("HF_TOKEN", "https://mirror.example/a", ("HF_TOKEN",)),
        ("OPENAI_API_KEY", "https://mirror.example/a", ("OPENAI_API_KEY", "OTHER")),
    ],
)
def test_what_a_recipe_may_send(
    environment: None, name: str, url: str, allowed: tuple[str, ...]
) -> None:
    assert sent(name, url, *allowed) == f"Bearer {NAMES[name]}"


def test_all_places_that_a_source_names_count(environment: None) -> None:
    """Lists and what stands before their lines get the header too."""
    for more in (
        {"paths": "https://evil.example/list"},
        {"sha256sums": "https://evil.example/sums"},
    ):
        with pytest.raises(RecipeError, match=r"not to https://evil\.example/"):
            credentials("HF_TOKEN", "https://huggingface.co/a", **more)
    with pytest.raises(RecipeError, match=r"http://mirror\.example/: .* goes only over https"):
        credentials(
            "GRISTMILL_AUTH_MIRROR",
            "https://huggingface.co/a",
            paths="list",
            base_url="http://mirror.example/",
        )


def test_a_token_goes_to_no_plain_endpoint(
    environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_TOKEN is read without being named: where HF_ENDPOINT is plain http, it is not sent."""
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example")
    with pytest.raises(
        RecipeError, match=r"http://mirror\.example/.*: a secret .HF_TOKEN. goes only over https"
    ):
        Remote("hf://datasets/o/n/a").request()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:8000")
    assert Remote("hf://datasets/o/n/a").request().authorization == "Bearer hf-s3cret"
    assert sent("HF_TOKEN", "http://127.0.0.1:8000/a") == "Bearer hf-s3cret"
    with pytest.raises(RecipeError):
        sent("HF_TOKEN", "http://127.0.0.1:8001/a")


def test_user_and_password_go_only_over_https(cache: Path) -> None:
    with pytest.raises(
        RecipeError,
        match=r"^http://host\.example/a: a secret .user and password. goes only over https",
    ):
        Transfer(Cache(cache), Settings()).fetch(Remote("http://me:pw@host.example/a"))
    assert Remote("https://me:pw@host.example/a").request().authorization == "Basic bWU6cHc="
    with site() as server:
        url = server.put("/a", b"text").replace("http://", "http://me:pw@")
        assert Transfer(Cache(cache), Settings()).fetch(Remote(url)).size == 4
        assert server.asked[-1][2]["authorization"] == "Basic bWU6cHc="


def test_a_value_that_would_make_two_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_AUTH_MIRROR", "a\r\nX-Evil: 1")
    with pytest.raises(RecipeError, match="its value holds control characters"):
        sent("GRISTMILL_AUTH_MIRROR", "https://mirror.example/a")


@pytest.mark.parametrize("other", ["host", "port", "scheme"])
def test_a_redirect_takes_no_secret_along(cache: Path, other: str) -> None:
    with site() as server, site() as elsewhere:
        port = elsewhere.address.rpartition(":")[2]
        target = f"http://localhost:{port}/b" if other == "host" else f"{elsewhere.address}/b"
        elsewhere.put("/b", b"text")
        if (
            other == "scheme"
        ):  # down from https: not followed at all (test_servers.py has the certificate)
            target = target.replace("http://", "ftp://")
        server.faults.append(faults.status(302, Location=target))
        transfer = Transfer(Cache(cache), Settings(backoff=0.0))
        remote = Remote(f"{server.address}/a", "Bearer s3cret")
        if other == "scheme":
            with pytest.raises(SourceError, match="not on the web"):
                transfer.fetch(remote)
            return
        assert transfer.fetch(remote).size == 4
        assert server.asked[-1][2]["authorization"] == "Bearer s3cret"
        assert "s3cret" not in json.dumps([headers for _, _, headers in elsewhere.asked])


def test_loopback_is_asked_past_any_proxy(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with site() as proxy, site() as server:
        monkeypatch.setenv("http_proxy", proxy.address)
        monkeypatch.delenv("no_proxy", raising=False)
        url = server.put("/a", b"text")
        assert Transfer(Cache(cache), Settings()).fetch(Remote(url, "Bearer s3cret")).size == 4
        assert proxy.connections == 0


RECIPE = (
    '[[source]]\nname = "web"\nurls = ["{url}"]\nauthorization = "{name}"\n[deduplicate]\nexact '
    "= true\n"
)


def test_every_verb_that_fetches_obeys(tmp_path: Path, environment: None) -> None:
    from gristmill.reports.planning.size import size

    recipe = tmp_path / "recipe.toml"
    with site() as server:
        recipe.write_text(
            RECIPE.format(url=server.put("/a.jsonl", b'{"text": "one"}\n'), name="OPENAI_API_KEY")
        )
        for verb in (run, dry_run, size):
            with pytest.raises(RecipeError, match="say --allow-env OPENAI_API_KEY"):
                verb(recipe, out=tmp_path / "out", cache_dir=tmp_path / "cache")  # type: ignore[operator]
        assert not server.asked
        dry_run(
            recipe, out=tmp_path / "out", cache_dir=tmp_path / "cache", allow_env=["OPENAI_API_KEY"]
        )
        assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer sk-s3cret"}


def test_the_command_line_says_it_plainly_and_ends_with_2(tmp_path: Path) -> None:
    with site() as server:
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(
            RECIPE.format(url=server.put("/a.jsonl", b'{"text": "one"}\n'), name="MY_TOKEN")
        )
        command = command_line("run", str(recipe), "--out", str(tmp_path / "out"), "--dry-run")
        command += ["--cache-dir", str(tmp_path / "cache")]
        surroundings = {**os.environ, "MY_TOKEN": "s3cret"}
        told = subprocess.run(
            command, env=surroundings, capture_output=True, text=True, check=False
        )
        assert told.returncode == 2
        assert told.stderr.startswith(
            "gristmill: source 'web': authorization = 'MY_TOKEN': a recipe may name "
            "GRISTMILL_AUTH_* and HF_TOKEN"
        )
        assert not server.asked
        told = subprocess.run(
            [*command, "--allow-env", "MY_TOKEN"],
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (told.returncode, told.stderr) == (0, "")
        assert server.asked[0][2]["authorization"] == "Bearer s3cret"


def test_the_module_says_what_the_page_says() -> None:
    page = (ROOT / "docs/fetching.md").read_text()
    for name in (secrets.OURS + "*", secrets.HUB_TOKEN, secrets.NEVER + "*"):
        assert f"`{name}`" in page
    usual = Settings()
    for words in (
        f"{usual.first_answer:.0f} seconds",
        f"{usual.tries}, and one more for each MiB",
        f"| {usual.restarts} times |",
    ):
        assert words in page
    assert (usual.largest, usual.slowest, usual.timeout, usual.retries) == (
        64 << 30,
        1024.0,
        60.0,
        5,
    )
