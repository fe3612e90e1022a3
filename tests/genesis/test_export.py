"""Genesis' layout, as its nodes read it: over HTTP, by the rules of its own loader."""

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

import gristmill
from gristmill import TokenCorpus, export, grow_tokenizer
from gristmill.store.parts import to_json
from tests.support.corpora import article, jsonl
from tests.support.skips import missing

PER_SHARD = 700


class Node:
    """A node of Genesis: fetches the index and the vocabulary, then the shards that it chooses."""

    def __init__(self, address: str, node_id: str, cache: Path) -> None:
        self.address, self.cache = address, cache
        self.manifest = json.loads(self._get("manifest.json"))
        self.next_merge_id = 266
        self.pieces = {10 + byte: bytes([byte]) for byte in range(256)}
        remote = json.loads(self._get("tokenizer.json"))
        if remote["next_merge_id"] > self.next_merge_id:
            self.next_merge_id = remote["next_merge_id"]
            for pair, merged in remote["merges"].items():
                left, right = map(int, pair.split("_"))
                self.pieces[merged] = self.pieces[left] + self.pieces[right]
        count = self.manifest["total_shards"]
        primary = int(hashlib.sha256(node_id.encode()).hexdigest(), 16) % count
        self.assigned = [(primary + place) % count for place in range(10)]

    def shard(self, shard_id: int) -> Any:
        import torch

        path = self.cache / f"shard_{shard_id}.pt"
        path.write_bytes(self._get(path.name))
        return torch.load(path, weights_only=True)

    def text(self, tokens: list[int]) -> str:
        return b"".join(self.pieces.get(token, b"") for token in tokens).decode()

    def _get(self, name: str) -> bytes:
        with urlopen(f"{self.address}/{name}", timeout=10) as answer:
            return bytes(answer.read())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("genesis")
    for name, count in (("books", 6), ("web", 10)):
        rows = [{"text": article(f"{name} {number}", 20)} for number in range(count)]
        rows += rows[:2]  # copies, which are dropped
        (folder / f"{name}.jsonl").write_bytes(jsonl(rows))
    grow_tokenizer({"web": [folder / "web.jsonl"]}, folder / "tokenizer.json", merges=60, least=2)
    (folder / "recipe.toml").write_text(
        "".join(f'[[source]]\nname = "{n}"\nfiles = ["{n}.jsonl"]\n' for n in ("books", "web"))
        + '[deduplicate]\n[tokens]\ntokenizer = "tokenizer.json"\nvalidation = 0.1\n'
    )
    gristmill.run(folder / "recipe.toml", out=folder / "corpus", workers=1)
    return folder / "corpus"


@pytest.fixture(scope="module")
def exported(corpus: Path) -> Path:
    try:
        import torch  # noqa: F401
    except ImportError:
        missing("torch", "torch is not installed")
    export(corpus, corpus.parent / "genesis", to="genesis", tokens_per_file=PER_SHARD)
    return corpus.parent / "genesis"


@pytest.fixture
def address(exported: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Print nothing."""

    handler = partial(Quiet, directory=str(exported))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_node_trains_on_what_it_is_assigned(corpus: Path, address: str, tmp_path: Path) -> None:
    node = Node(address, "a node", tmp_path)
    opened = TokenCorpus.open(corpus)
    assert node.next_merge_id == opened.format.vocabulary == 10 + 256 + 60
    said = node.manifest
    shards = {number: node.shard(number) for number in range(said["total_shards"])}
    assert set(node.assigned) == set(shards) & set(node.assigned)
    assert {(str(one.dtype), one.dim()) for one in shards.values()} == {("torch.int64", 1)}
    at = 0
    for name, source in said["sources"].items():
        stream = opened.stream(name)
        own = [shards[at + place].tolist() for place in range(source["shards"])]
        assert {len(one) for one in own[:-1]} <= {PER_SHARD}
        assert list(chain.from_iterable(own)) == stream.read(0, stream.tokens).tolist()
        assert source["tokens"] == stream.tokens
        assert source["last_shard_id"] == at + source["shards"] - 1
        at += source["shards"]
    assert at == said["total_shards"]
    assert said["total_tokens"] == sum(len(one) for one in shards.values())
    # The first document, decoded by the node's own merges.
    first = list(chain.from_iterable(shards[place].tolist() for place in range(5)))
    end = first.index(opened.format.end_of_text)
    lines = (corpus.parent / "books.jsonl").read_text().splitlines()
    rows = [json.loads(line)["text"] for line in lines]
    assert node.text(first[:end]) in rows


def test_the_index_says_what_was_read_and_where_to_go_on(corpus: Path, exported: Path) -> None:
    said = json.loads((exported / "manifest.json").read_text())
    assert said["tokenizer_version"] == "bpe_v1"
    assert {name: one["documents_processed"] for name, one in said["sources"].items()} == {
        "books": 8,
        "web": 12,
    }
    sizes = [(exported / f"shard_{one['shard_id']}.pt").stat().st_size for one in said["shards"]]
    assert said["total_size_bytes"] == sum(sizes)
    for one in said["shards"]:
        data = (exported / f"shard_{one['shard_id']}.pt").read_bytes()
        assert hashlib.sha256(data).hexdigest() == one["sha256"]
    going_on = json.loads((exported / "checkpoints.json").read_text())
    for name, one in going_on.items():
        stream = TokenCorpus.open(corpus).stream(name)
        full = stream.tokens // PER_SHARD
        rest = stream.read(full * PER_SHARD, stream.tokens)
        assert np.array_equal(one["leftover_tokens"], rest)
        first = said["sources"][name]["last_shard_id"] + 1 - said["sources"][name]["shards"]
        assert one["last_shard_id"] == first + full - 1
    assert json.loads((exported / "tokenizer.json").read_text())["sources_contributed"] == {
        "web": 60
    }


def test_times_are_outside_the_digests(corpus: Path, exported: Path, tmp_path: Path) -> None:
    sums = (exported / "SHA256SUMS").read_text()
    assert "checkpoints.json" not in sums
    assert "  manifest.json" not in sums
    details = json.loads((exported / "gristmill.json").read_text())["details"]
    for name, digest in details["sha256_without_times"].items():
        table = json.loads((exported / name).read_text())
        for one in (table, *table.values()):
            if isinstance(one, dict):
                for key in ("created_at", "updated_at", "timestamp"):
                    one.pop(key, None)
        assert hashlib.sha256(to_json(table)).hexdigest() == digest
    earlier = json.loads((exported / "manifest.json").read_text())
    earlier["created_at"] = "2025-12-09T20:00:00Z"
    (exported / "manifest.json").write_text(json.dumps(earlier))
    export(corpus, exported, to="genesis", tokens_per_file=PER_SHARD)
    again = json.loads((exported / "manifest.json").read_text())
    assert again["created_at"] == "2025-12-09T20:00:00Z" < again["updated_at"]
    assert (exported / "SHA256SUMS").read_text() == sums


def test_another_tokenizer_is_exported_with_a_warning(corpus: Path, tmp_path: Path) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        missing("torch", "torch is not installed")
    from tests.support.token_corpora import token_corpus
    from tests.support.trainer_readers import word_tokenizer

    root = token_corpus(tmp_path / "c", {"web": [[1, 2, 0]]}, tokenizer=word_tokenizer(1000))
    result = export(root, tmp_path / "out", to="genesis")
    assert "tokenizer grow" in " ".join(result["notes"])
    going_on = json.loads((tmp_path / "out/checkpoints.json").read_text())
    assert going_on["web"]["leftover_tokens"] == [1, 2, 0]
    assert going_on["web"]["last_shard_id"] == -1
    assert (tmp_path / "out/hf_tokenizer.json").read_bytes() == word_tokenizer(1000)
