"""Publishing on the hub, against a server that speaks its API."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.errors import (
    GristmillError,
    MachineError,
    RecipeError,
    SourceError,
    VerificationError,
)
from gristmill.network.hub import hub as module
from gristmill.network.hub.dataset_facts import hub_licence, licence_page
from gristmill.network.hub.hub import publish_to_hub
from gristmill.network.releases.publish import publish
from tests.support.command import command_line
from tests.support.corpora import article, jsonl
from tests.support.hub_server import TOKEN, Blob, Hub, hub_server
from tests.support.skips import missing

# Of huggingface_hub's own upload.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<:DeprecationWarning")
TARGET = "hf://datasets/mill/flour"
MAIL = "anna.miller@flour-mill.com"
RECIPE = """
[[source]]
name = "books"
files = ["books.jsonl"]
licence = "CC-BY-SA-4.0"
[[source]]
name = "web"
files = ["web-*.jsonl"]
licence = "Terms of the mill"
[[step]]
use = "language"
keep = ["en"]
min_score = 0.0
[deduplicate]
"""


def package(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        missing(name, f"{name} is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package("huggingface_hub")
    folder = tmp_path_factory.mktemp("hub")
    for name, count in (("books", 40), ("web-a", 20), ("web-b", 5)):
        rows = [{"text": article(f"{name} {n}", 30), "tags": ["a", "b"]} for n in range(count)]
        rows[0]["text"] = f"```\n---\n| a <b> pipe |\n{rows[0]['text']}"
        for row in rows:
            row["text"] = row["text"].replace("\n", f"\nWrite to {MAIL}.\n", 1)
        (folder / f"{name}.jsonl").write_bytes(jsonl([*rows, rows[1]]))
    gristmill.train_tokenizer([folder / "books.jsonl"], folder / "tokenizer.json", vocabulary=300)
    (folder / "recipe.toml").write_text(RECIPE)
    gristmill.run(folder / "recipe.toml", out=folder / "texts", workers=1)
    tokens = RECIPE + '[tokens]\ntokenizer = "tokenizer.json"\nvalidation = 0.2\n'
    (folder / "tokens.toml").write_text(tokens)
    gristmill.run(folder / "tokens.toml", out=folder / "tokens", workers=1)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    from huggingface_hub import _commit_api

    # The hub's other way to store large files has a service of its own.
    monkeypatch.setattr(_commit_api, "is_xet_available", lambda: False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


def written(hub: Hub, to: Path) -> Path:
    """The newest commit as a folder."""
    for name, data in hub.files("mill/flour").items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(data)
    return to


def front_matter(hub: Hub) -> dict[str, Any]:
    from huggingface_hub import DatasetCard

    card = DatasetCard(hub.files("mill/flour")["README.md"].decode())
    return dict(card.data.to_dict())


def test_texts_with_a_card_and_croissant(folder: Path, hub: Hub, tmp_path: Path) -> None:
    result = publish_to_hub(folder / "texts", TARGET)
    files = hub.files("mill/flour")
    assert result["commit"] == hub.head("mill/flour")
    assert result["url"] == f"{hub.address}/datasets/mill/flour"
    assert len(hub.commits["mill/flour"]) == 2  # the empty repository, and one commit with all
    data = sorted(name for name in files if name.endswith(".parquet"))
    assert data == ["data/books/00000.parquet", "data/web/00001.parquet", "data/web/00002.parquet"]
    sums = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].decode().splitlines())
    assert sums.keys() == files.keys() - {"SHA256SUMS", ".gitattributes"}
    for name, digest in sums.items():
        assert hashlib.sha256(files[name]).hexdigest() == digest
    assert files["corpus/manifest.json"] == (folder / "texts/manifest.json").read_bytes()
    card = front_matter(hub)
    assert card["license"] == ["cc-by-sa-4.0", "other"]
    assert card["license_name"] == "terms-of-the-mill"
    assert card["language"] == ["en"]
    assert card["size_categories"] == ["n<1K"]
    assert [one["config_name"] for one in card["configs"]] == ["default", "books", "web"]
    assert card["configs"][2]["data_files"] == [{"split": "train", "path": "data/web/*.parquet"}]
    readme = files["README.md"].decode()
    assert "| train | 65 |" in readme
    assert "deduplicate" in readme.split("## What was dropped")[1].split("##")[0]
    assert "Terms of the mill" in readme
    assert result["url"] not in readme  # nothing of this server
    # What a text has in it ends no block of the card.
    assert "````text\n```\n" in readme
    assert readme.count("<EMAIL>") == 4
    assert MAIL not in readme + files["croissant.json"].decode()
    described = json.loads(files["croissant.json"])
    listed = {one["@id"]: one.get("sha256") for one in described["distribution"]}
    assert {name: sums[name] for name in data} == {k: v for k, v in listed.items() if v}
    fields = [one["name"] for one in described["recordSet"][0]["field"]]
    written(hub, tmp_path / "out")
    assert fields == pq.read_schema(tmp_path / "out" / data[0]).names


def test_tokens_and_then_texts_in_one_commit_each(folder: Path, hub: Hub) -> None:
    publish_to_hub(folder / "tokens", TARGET)
    tokens = hub.files("mill/flour")
    assert {name for name in tokens if name.endswith(".parquet")} == {
        "data/train-00000.parquet",
        "data/val-00000.parquet",
    }
    assert tokens["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()
    samples = tokens["README.md"].decode().split("## Samples")[1]
    assert samples.count("books, document 0:") == samples.count("web, document ") == 2
    assert "<EMAIL>" in samples
    assert MAIL not in samples
    splits = front_matter(hub)["configs"][0]["data_files"]
    assert [one["split"] for one in splits] == ["train", "validation"]
    again = publish_to_hub(folder / "tokens", TARGET)
    assert (again["uploaded"], again["removed"]) == (0, 0)
    assert len(hub.commits["mill/flour"]) == 2
    result = publish_to_hub(folder / "texts", TARGET)
    assert len(hub.commits["mill/flour"]) == 3
    assert result["removed"] == 3
    assert not {"tokenizer.json", "data/train-00000.parquet"} & hub.files("mill/flour").keys()


def test_an_upload_that_was_cut_off_goes_on(folder: Path, hub: Hub, tmp_path: Path) -> None:
    hub.refuse_uploads_after = 1
    with pytest.raises(GristmillError):
        publish_to_hub(folder / "texts", TARGET)
    assert [*hub.files("mill/flour")] == [".gitattributes"]  # a reader sees nothing of it
    assert len(hub.uploads) == 1
    laid_out = next((tmp_path / "cache/gristmill/hub").glob("*/data/books/00000.parquet"))
    before = laid_out.stat().st_mtime_ns
    hub.refuse_uploads_after = None
    seen: list[int] = []
    hub.before_commit = lambda: seen.append(laid_out.stat().st_mtime_ns)
    publish_to_hub(folder / "texts", TARGET)
    assert seen == [before]  # it was not laid out again
    assert len(hub.uploads) == len(set(hub.uploads)) == 3
    assert not list((tmp_path / "cache/gristmill/hub").iterdir())


def test_a_killed_publisher_goes_on(folder: Path, hub: Hub, tmp_path: Path) -> None:
    """SIGKILL while it uploads; the same command again."""
    words = command_line("publish", folder / "texts", TARGET, "--with", "text", "--json")
    environment = {**os.environ, "HF_HUB_DISABLE_XET": "1"}
    running = subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    hub.after_upload = running.kill
    assert running.wait(60) == -signal.SIGKILL
    hub.after_upload = None
    sent = len(hub.uploads)
    assert sent >= 1
    assert [*hub.files("mill/flour")] == [".gitattributes"]
    publish_to_hub(folder / "texts", TARGET)
    assert len(hub.uploads) == len(set(hub.uploads)) == 3
    assert len(hub.commits["mill/flour"]) == 2
    assert not list((tmp_path / "cache/gristmill/hub").iterdir())


def test_large_files_by_xet(
    folder: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What huggingface_hub does where hf_xet is installed, with its storage in a folder."""
    package("hf_xet")
    from huggingface_hub import _commit_api
    from huggingface_hub.utils._runtime import is_xet_available

    monkeypatch.setattr(_commit_api, "is_xet_available", is_xet_available)
    monkeypatch.setenv("HF_XET_CACHE", str(tmp_path / "cache/xet"))
    # The hub gives no token for the storage.
    with pytest.raises(GristmillError, match="mill/flour"):
        publish_to_hub(folder / "texts", TARGET)
    hub.xet = f"local://{tmp_path / 'xet'}"
    (tmp_path / "xet").mkdir()
    publish_to_hub(folder / "texts", TARGET)
    assert hub.xet_tokens > 0
    assert hub.uploads == []  # nothing by LFS
    stored = [path for path in (tmp_path / "xet").rglob("*") if path.is_file()]
    assert stored
    tree = hub.commits["mill/flour"][-1][1]
    sums = dict(line.split("  ")[::-1] for line in tree["SHA256SUMS"].data.decode().splitlines())
    large = {path: blob.stored[0] for path, blob in tree.items() if blob.stored}
    assert len(large) == 3
    assert large == {path: sums[path] for path in large}
    again = publish_to_hub(folder / "texts", TARGET)
    assert (again["uploaded"], again["removed"]) == (0, 0)


def test_of_two_publishers_the_second_is_refused(folder: Path, hub: Hub) -> None:
    other = {"README.md": Blob(b"of another", lfs=False)}
    hub.before_commit = lambda: hub.add("mill/flour", other)
    with pytest.raises(MachineError, match="somebody else published"):
        publish_to_hub(folder / "texts", TARGET)
    assert hub.files("mill/flour") == {"README.md": b"of another"}
    with pytest.raises(VerificationError, match="gristmill did not write this data set"):
        publish_to_hub(folder / "texts", TARGET)


def test_what_the_hub_has_is_checked(folder: Path, hub: Hub) -> None:
    hub.corrupt = True
    with pytest.raises(SourceError, match=r"does not have these files .*data/"):
        publish_to_hub(folder / "texts", TARGET)


def test_refused_with_the_reason(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for wrong in ("hf://mill/flour", "hf://datasets/flour", "hf://datasets/../../x"):
        with pytest.raises(RecipeError, match="hf://datasets/OWNER/NAME"):
            publish_to_hub(folder / "texts", wrong)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(RecipeError, match="HF_TOKEN"):
        publish_to_hub(folder / "texts", TARGET)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match="cannot be reached"):
        publish_to_hub(folder / "texts", TARGET)
    with pytest.raises(VerificationError, match="not finished"):
        publish_to_hub(tmp_path, TARGET)
    monkeypatch.setattr(module, "MOST_FILES", 9)
    with pytest.raises(RecipeError, match="a commit on the hub takes 9"):
        publish_to_hub(folder / "texts", TARGET)


def test_the_verb(folder: Path, hub: Hub) -> None:
    environment = {**os.environ, "HF_HUB_DISABLE_XET": "1"}

    def mill(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command_line("publish", folder / "texts", TARGET, *words),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    done = mill("--with", "text", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["commit"] == hub.head("mill/flour")
    assert "data/books/00000.parquet" in hub.files("mill/flour")
    with pytest.raises(RecipeError, match="the hub takes tokens, or texts"):
        publish(folder / "texts", TARGET, with_=["verdicts"])
    assert gristmill.publish(folder / "texts", TARGET, with_=["text"])["uploaded"] == 0


def test_licences_by_their_words() -> None:
    assert hub_licence("CC BY 4.0") == "cc-by-4.0"
    assert hub_licence(None) == "unknown"
    assert hub_licence("mine") == "other"
    assert licence_page("cc-by-nc-sa-4.0").endswith("/by-nc-sa/4.0/")
    assert licence_page("MIT") == "https://spdx.org/licenses/MIT.html"
    assert licence_page("mine") == "mine"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of rdflib
@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_mlcroissant_reads_all_records(kind: str, folder: Path, hub: Hub, tmp_path: Path) -> None:
    package("mlcroissant")
    import mlcroissant

    publish_to_hub(folder / kind, TARGET)
    out = written(hub, tmp_path / "out")
    opened = mlcroissant.Dataset(jsonld=out / "croissant.json")
    assert not opened.metadata.ctx.issues.errors
    rows = list(opened.records("documents"))
    files = sorted(out.glob("data/**/*.parquet"))
    expected = [row["document"] for path in files for row in pq.read_table(path).to_pylist()]
    assert sorted(row["documents/document"] for row in rows) == sorted(expected)


@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_datasets_reads_the_folder(kind: str, folder: Path, hub: Hub, tmp_path: Path) -> None:
    datasets = package("datasets")
    publish_to_hub(folder / kind, TARGET)
    out = written(hub, tmp_path / "out")
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    if kind == "tokens":
        assert set(loaded) == {"train", "validation"}
        assert len(loaded["train"]) + len(loaded["validation"]) == 65
        return
    assert set(loaded) == {"train"}
    assert len(loaded["train"]) == 65
    only = datasets.load_dataset(str(out), "web", cache_dir=str(tmp_path / "cache"))
    assert len(only["train"]) == 25


def test_without_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(RecipeError, match=r"gristmill\[hub\]"):
        module.library()
