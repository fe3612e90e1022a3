"""What the README and docs/ show is run: every Python block as a script, every block of commands by
a shell, in fresh processes.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

import gristmill
from tests.support import ROOT
from tests.support.command import script
from tests.support.corpora import article, jsonl, pages, wet
from tests.support.published import published

# What a line holds that is not run here, and why not.
NOT_RUN = {
    "make demo": "installs from a registry",
    "make test": "runs this",
    "pip install": "installs from a registry",
    "--engine spark://host": "needs a cluster (test_spark.py has one)",
    "spark-submit": "needs a cluster (test_spark.py has one)",
    "--preset fineweb-v1": "fetches lists of 100 MB from GitHub",
    "hf://datasets": "needs a token of the hub (test_hub.py has a server)",
    "gristmill doremi": "trains two models (tests/mixing/test_doremi.py has small ones)",
    "nlp.to_disk": "needs a spaCy pipeline that the reader has trained",
}
LINES = "\n[deduplicate.lines]\nmost = 50\n[deduplicate.substrings]\nbytes = 200\n"
MIX = """
[mix]
tokens = 10_000_000
weights = { web = 0.7, code = 0.3 }
[[source]]
name = "web"
files = ["data/*.jsonl"]
target_tokens = 90_000_000
[[source]]
name = "code"
files = ["wiki.jsonl"]
target_tokens = 8_000_000
[tokens]
tokenizer = "gpt2"
"""
BENCHMARK = (
    '\n[[step]]\nuse = "decontaminate"\nbenchmarks = [{ name = "gsm8k", file = '
    '"items.jsonl", fields = ["text"] },'
    ' { name = "mmlu", file = "items.jsonl", fields = ["text"] }]\n'
)


def blocks() -> Iterator[tuple[str, str, str, str]]:
    """(where, kind, text, the next block's text) of all that can be run: kind is python or sh."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        found = list(re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        for place, block in enumerate(found):
            kind, body = block[1], block[2]
            where = f"{path.name}:{text.count(chr(10), 0, block.start()) + 1}"
            following = found[place + 1][2] if place + 1 < len(found) else ""
            if kind == "python":
                yield where, kind, body, following
            elif kind in ("", "sh") and re.match(r"(\$ )?(gristmill|make|pip|spark-submit) ", body):
                lines = [
                    line.removeprefix("$ ")
                    for line in body.splitlines()
                    if re.match(r"(\$ )?(gristmill|make|pip|spark-submit) ", line)
                ]
                yield where, "sh", "\n".join(lines) + "\n", following


BLOCKS = list(blocks())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the examples name; in `done` their recipe has been run."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bin").mkdir()
    script(folder / "bin")
    fresh = folder / "fresh"
    (fresh / "data").mkdir(parents=True)
    rows = pages(60)
    for number, url in enumerate(
        ("https://example.org/page", "https://mirror.example/docs/near-copy-3")
    ):
        rows[number]["url"] = url
    (fresh / "data/pages.jsonl").write_bytes(jsonl(rows))
    (fresh / "pages.jsonl.zst").write_bytes(zstd.compress(jsonl(rows[:20])))
    (fresh / "wiki.jsonl").write_bytes(jsonl(rows[:20]))
    (fresh / "crawl.wet.gz").write_bytes(wet(rows[20:40]))
    pq.write_table(
        pa.table({"text": [str(row["text"]) for row in rows[40:]]}), fresh / "books.parquet"
    )
    (fresh / "reference.jsonl").write_bytes(
        jsonl([{"text": article(number, 60)} for number in range(20)])
    )
    (fresh / "items.jsonl").write_bytes(
        jsonl([{"text": str(row["text"])[:400]} for row in rows[20:22]] * 60)
    )
    gristmill.train_tokenizer([fresh / "wiki.jsonl"], fresh / "tokenizer.json", vocabulary=300)
    (fresh / "recipe.toml").write_text(local_recipe())
    done = folder / "done"
    shutil.copytree(fresh, done)
    with open(done / "recipe.toml", "a") as recipe:
        recipe.write(LINES + BENCHMARK)
    gristmill.run(done / "recipe.toml", workers=1)
    (done / "data.sha256").write_text(
        hashlib.sha256((done / "corpus/manifest.json").read_bytes()).hexdigest()
    )
    published(done / "corpus", done / "target")
    for name in ("demo/corpus", "../last-week/corpus", "2024-22"):
        shutil.copytree(done / "corpus", done / name)
    for limit, name in enumerate(("2024-10", "2024-18"), 5):
        gristmill.run([str(fresh / "wiki.jsonl")], out=done / name, limit=limit, workers=1)
    return folder


def local_recipe() -> str:
    """The README's recipe, with files of ours for the crawl, and a tokenizer that needs no
    download.
    """
    recipe = re.search(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert recipe is not None
    text = re.sub(
        r"commoncrawl = .*\nkind = .*\nsample = .*\n", 'files = ["data/*.jsonl"]\n', recipe[1]
    )
    assert "data/*.jsonl" in text
    return text.replace('tokenizer = "gpt2"', 'tokenizer = "tokenizer.json"').replace(
        'keep = ["en"]\nmin_score = 0.65', 'keep = ["en", "la"]'
    )


@pytest.mark.parametrize(
    ("where", "kind", "text", "following"), BLOCKS, ids=[block[0] for block in BLOCKS]
)
def test_what_is_shown_runs(
    where: str, kind: str, text: str, following: str, world: Path, tmp_path: Path
) -> None:
    lines = [line for line in text.splitlines() if not any(sign in line for sign in NOT_RUN)]
    if (kind == "sh" and not lines) or (kind == "python" and len(lines) < len(text.splitlines())):
        pytest.skip("; ".join(reason for sign, reason in NOT_RUN.items() if sign in text))
    folder = tmp_path / "here"
    begins = re.match(r"gristmill run|import gristmill\n", lines[0]) and "--resume-only" not in text
    shutil.copytree(world / ("fresh" if begins else "done"), folder)
    shutil.copytree(world / "last-week", tmp_path / "last-week")
    if where.startswith("custom-filters") and kind == "sh":
        filters = next(body for at, _, body, _ in BLOCKS if at.startswith("custom-filters"))
        (folder / "filters.py").write_text(filters)
        with open(folder / "recipe.toml", "a") as recipe:
            recipe.write('\n[[step]]\nuse = "filters:shouted"\n')
    if where.startswith("mixing"):
        (folder / "recipe.toml").write_text(MIX)
    environment = {
        **os.environ,
        "CACHE": str(tmp_path / "cache"),
        "GRISTMILL_KEY_PASSPHRASE": "of the examples",
        "PATH": f"{world / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    if kind == "python":
        (folder / "example.py").write_text(text)
        command = [sys.executable, "example.py"]
    else:
        shown = (
            "\n".join(lines)
            .replace("--tokenizer gpt2", "--tokenizer tokenizer.json")
            .replace("https://host/pages.jsonl.gz", f"file://{folder}/pages.jsonl.zst")
        )
        command = ["sh", "-ec", re.sub(r"init recipe.toml", "init other.toml", shown)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    if following.startswith("Verdict("):
        assert done.stdout == following


def test_what_is_not_run_is_still_shown() -> None:
    shown = "".join(text for _, _, text, _ in BLOCKS)
    for sign in NOT_RUN:
        assert sign in shown
    assert len(BLOCKS) > 20
