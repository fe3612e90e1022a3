"""What the README and docs/ show is run: every Python block as a script, every block of commands by
a shell; recipes are parsed. A block that cannot run here says why in a comment, and is checked: its
verbs, options, imports and recipes exist. tests/support/doc_blocks.py has the rules.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

import gristmill
from tests.support import ROOT
from tests.support.command import program_line, script
from tests.support.corpora import article, jsonl, pages, wet
from tests.support.doc_blocks import (
    Block,
    blocks,
    check_commands,
    check_python,
    check_recipe,
    is_session,
)
from tests.support.doc_blocks import pages as guide
from tests.support.published import published
from tests.support.skips import missing

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
SESSIONS = [page for page in guide() if is_session(page)]
# Pages whose session takes long, or needs more than this package's own dependencies.
LONG = {"tutorial.md"}
BLOCKS = [block for page in guide() for block in blocks(page)]
ALONE = [
    block
    for block in BLOCKS
    if block.kind in ("python", "sh") and not block.not_run and ROOT / block.page not in SESSIONS
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose `fresh` has all files that the examples name."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bin").mkdir()
    script(folder / "bin")
    # A link would be a Python without the packages of its environment.
    (folder / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "bin/python").chmod(0o755)
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
    # The last twenty are in no other file: an index of the others leaves something of it.
    (fresh / "crawl.wet.gz").write_bytes(wet([*rows[20:40], *pages(80)[60:]]))
    pq.write_table(
        pa.table({"text": [str(row["text"]) for row in rows[40:]]}), fresh / "books.parquet"
    )
    (fresh / "pages").mkdir()
    for number in range(3):
        text = article(number, 20).replace("\n", "</p><p>")
        (fresh / f"pages/{number}.html").write_text(f"<html><body><main><p>{text}</p></main>")
    (fresh / "reference.jsonl").write_bytes(
        jsonl([{"text": article(number, 60)} for number in range(20)])
    )
    (fresh / "items.jsonl").write_bytes(
        jsonl([{"text": str(row["text"])[:400]} for row in rows[20:22]] * 60)
    )
    gristmill.train_tokenizer([fresh / "wiki.jsonl"], fresh / "tokenizer.json", vocabulary=300)
    (fresh / "recipe.toml").write_text(local_recipe())
    return folder


@pytest.fixture(scope="module")
def done(world: Path) -> Path:
    """The same, where the recipe has been run."""
    fresh, done = world / "fresh", world / "done"
    shutil.copytree(fresh, done)
    with open(done / "recipe.toml", "a") as recipe:
        recipe.write(LINES + BENCHMARK)
    gristmill.run(done / "recipe.toml", workers=1)
    (done / "data.sha256").write_text(
        hashlib.sha256((done / "corpus/manifest.json").read_bytes()).hexdigest()
    )
    published(done / "corpus", done / "target")
    for name in ("demo/corpus", "../last-week/corpus", "2024-22", "other"):
        shutil.copytree(done / "corpus", done / name)
    for limit, name in enumerate(("2024-10", "2024-18"), 5):
        gristmill.run([str(fresh / "wiki.jsonl")], out=done / name, limit=limit, workers=1)
    return done


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
        'keep = ["en"]', 'keep = ["en", "la"]'
    )


def commands(text: str) -> str:
    """What is typed: of a block with prompts the lines behind them."""
    lines = text.splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return "\n".join(prompted or lines)


def shell(lines: str, folder: Path, world: Path) -> str:
    """Run commands in a folder; what they print."""
    return process(["sh", "-ec", lines], folder, world)


def process(words: list[str], folder: Path, world: Path) -> str:
    environment = {
        **os.environ,
        "CACHE": str(folder.parent / "cache"),
        "GRISTMILL_KEY_PASSPHRASE": "of the examples",
        "PATH": f"{world / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ended = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.parametrize("block", ALONE, ids=[block.where for block in ALONE])
def test_what_is_shown_runs(block: Block, world: Path, done: Path, tmp_path: Path) -> None:
    text, page = block.text, Path(block.page).name
    folder = tmp_path / "here"
    begins = re.match(r"(\$ )?gristmill run ", text) or "gristmill.run(" in text
    shutil.copytree(world / "fresh" if begins else done, folder)
    shutil.copytree(world / "last-week", tmp_path / "last-week")
    if page == "custom-filters.md" and block.kind == "sh":
        filters = next(one.text for one in BLOCKS if one.page == block.page)
        (folder / "filters.py").write_text(filters)
        with open(folder / "recipe.toml", "a") as recipe:
            recipe.write('\n[[step]]\nuse = "filters:shouted"\n')
    if page == "mixing.md":
        (folder / "recipe.toml").write_text(MIX)
    if block.kind == "python":
        (folder / "example.py").write_text(text)
        fresh = [sys.executable, "example.py"] if page == "README.md" else None
        shown = process(fresh or program_line(folder / "example.py"), folder, world)
    else:
        lines = (
            commands(text)
            .replace("--tokenizer gpt2", "--tokenizer tokenizer.json")
            .replace("https://host/pages.jsonl.gz", f"file://{folder}/pages.jsonl.zst")
        )
        shown = shell(re.sub(r"init recipe.toml", "init other.toml", lines), folder, world)
    if block.following.startswith("Verdict("):
        assert shown == block.following


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.soak] if page.name in LONG else [])
        for page in SESSIONS
    ],
    ids=lambda page: page.name,
)
def test_a_page_runs_from_top_to_bottom(page: Path, world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    shutil.copytree(world / "fresh", folder)
    if page.name in LONG:
        if find_spec("torch") is None:
            missing("torch", "torch is not installed (pip install 'gristmill[torch]')")
        shutil.rmtree(folder)
        folder.mkdir()
    shown = None
    for block in blocks(page):
        text = block.text
        if block.replaced:
            assert block.replaced[0] in text, f"{block.where}: {block.replaced[0]} is not there"
            text = text.replace(*block.replaced)
        text = text.replace("/path/to/gristmill", str(ROOT))
        if block.not_run or block.kind not in ("python", "sh", "toml", "text"):
            shown = None
        elif block.kind == "text":
            if shown is not None:
                lacking = [line for line in masked(text) if line not in masked(shown)]
                assert lacking == [], f"{block.where}: this is not printed, but: {shown}"
            shown = None
        elif block.file:
            (folder / block.file).write_text(text)
        elif block.kind == "python":
            (folder / "example.py").write_text(text)
            shown = process(program_line(folder / "example.py"), folder, world)
        elif block.kind == "sh":
            shown = shell(commands(text), folder, world)


def masked(text: str) -> list[str]:
    """Lines without what differs from run to run: numbers, digests and the spaces between."""
    plain = [re.sub(r"\b[0-9a-f]{16,}\b", "#", line) for line in text.splitlines()]
    plain = [re.sub(r"[0-9][0-9,.:%-]*", "#", line) for line in plain]
    return [" ".join(line.split()) for line in plain if line.strip() not in ("", "...")]


@pytest.mark.parametrize("page", guide(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_shown_exists(page: Path) -> None:
    """Of every block, run or not: verbs and options, recipes, imports."""
    before = ""
    for block in blocks(page):
        if block.kind == "sh":
            check_commands(block.text)
        elif block.kind == "python":
            check_python(block.text)
        elif block.kind == "toml" and "not a recipe" not in (block.not_run or ""):
            check_recipe(block.text, before)
            before = block.text


def test_checks_see_what_is_wrong() -> None:
    for command in ("gristmill runn x", "A=1 gristmill run x --ot y", 'sbatch "gristmill no x"'):
        with pytest.raises(Exception, match="No such|required"):
            check_commands(command)
    assert check_commands("gristmill run x && gristmill model show y | cat; ls") == 2
    with pytest.raises(gristmill.RecipeError):
        check_recipe('[[step]]\nuse = "gopher"\nmin_word = 1\n')
    with pytest.raises(AssertionError, match="has no nothing"):
        check_python("from gristmill.errors import nothing\n")


def test_most_of_it_is_run() -> None:
    runs = [block for block in BLOCKS if block.kind in ("python", "sh")]
    assert len(ALONE) > 20
    assert len([block for block in runs if block.not_run]) < len(runs) / 3
    assert len(SESSIONS) > 10
