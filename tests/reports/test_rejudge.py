"""Thresholds change: a run that uses its measures again gives a fresh run's bytes, and `rejudge`
tells beforehand what it keeps.
"""

import random
from pathlib import Path

import msgspec
import pytest

from gristmill import RecipeError, rejudge, run
from gristmill.corpus.corpus import Corpus
from gristmill.recipe import Source, parse
from gristmill.reports.planning.rejudge import READ
from gristmill.store.manifest import decode
from tests.support.corpora import article, digests, jsonl, pages, wet
from tests.support.duplicates import edited

STEPS = """
seed = 7
[[source]]
name = "web"
files = ["raw/*"]
[[step]]
use = "normalise"
[[step]]
use = "repetition"
[[step]]
use = "c4"
line_stops = false
[[step]]
use = "gopher"
rules = "datatrove-0.10"
min_words = 60
[[step]]
use = "fineweb"
[deduplicate]
near = { bands = 16, rows = 4 }
"""
TIGHTER = {"step.3.min_words": "150", "step.1.max_lines": "0.02", "step.4.max_short_lines": "0.4"}
LOOSER = {
    "step.3.min_words": "20",
    "step.1.max_top": "[0.9, 0.9, 0.9]",
    "step.2.min_sentences": "2",
}
MIXED = {"step.1.max_lines": "0.02", "step.3.min_words": "30", "step.4.min_stopped_lines": "0.9"}


def lay_out(folder: Path) -> Path:
    pick = random.Random(5)
    more: list[dict[str, object]] = []
    for number in range(80):
        lines = article(f"more {number}", pick.randint(4, 30)).split("\n")
        lines += ["short line"] * pick.randint(0, 6) + [lines[0]] * pick.randint(0, 2)
        text = "\n".join(lines) + ("\nlorem ipsum dolor sit amet." if number % 19 == 0 else "")
        more.append({"url": f"https://more.example/{number}", "text": text})
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "a.wet.gz").write_bytes(wet(pages(70, "a") + more[:40]))
    (raw / "b.jsonl").write_bytes(jsonl(pages(60, "b") + more[40:] + pages(20, "a")))
    path = folder / "recipe.toml"
    path.write_text(STEPS, "utf-8")
    return path


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("rejudge"))


def steps_timed(corpus: Path) -> set[str]:
    """What the last processing spent time on, over all shards."""
    found = Corpus(corpus)
    return {
        name
        for shard in ("00000", "00001")
        for name in found.last("process", shard).counts["seconds"]
    }  # type: ignore[union-attr]


@pytest.mark.parametrize("measure", [pytest.param("needed", marks=pytest.mark.soak), "all"])
def test_a_run_over_measures_gives_a_fresh_runs_bytes(
    recipe: Path, tmp_path: Path, measure: str
) -> None:
    corpus = tmp_path / "corpus"
    settings = {"measure": f'"{measure}"'}
    run(recipe, out=corpus, workers=1, settings=settings)
    before = decode((corpus / "manifest.json").read_bytes()).funnel
    for number, changed in enumerate((TIGHTER, LOOSER, MIXED, {})):
        told = rejudge(recipe, out=corpus, settings=settings | changed)
        fresh = tmp_path / f"fresh{number}"
        run(recipe, out=fresh, workers=2, settings=settings | changed)
        again = run(recipe, out=corpus, workers=1, settings=settings | changed)
        assert digests(corpus) == digests(fresh)
        funnel = decode((fresh / "manifest.json").read_bytes()).funnel
        assert funnel == again.table
        assert told["kept"]["was"] == before["kept"]
        assert told["unread"] == 0 or measure == "needed"
        if told["unread"] == told["anew"] == 0:
            assert told["kept"]["now"] == funnel["kept"]
            now = {
                reason: count
                for step in funnel["steps"]
                for reason, count in step["reasons"].items()
            }
            assert {
                reason: count["now"] for reason, count in told["reasons"].items() if count["now"]
            } == now
        assert told["anew" if measure == "all" else "unread"] > 0 or changed is not LOOSER
        assert told["unread"] == told["anew"] == 0 or changed is not TIGHTER
        assert before["kept"] != funnel["kept"]
        before = funnel


def test_tightening_opens_no_raw_shard(recipe: Path, tmp_path: Path) -> None:
    settings = {"samples": "0"}
    run(recipe, out=tmp_path, workers=1, settings=settings)
    assert "read" in steps_timed(tmp_path)
    run(recipe, out=tmp_path, workers=1, settings=settings | TIGHTER)
    assert "read" not in steps_timed(tmp_path)
    run(recipe, out=tmp_path, workers=1, settings=settings | LOOSER)
    assert "read" in steps_timed(tmp_path)


def test_any_threshold_from_the_floor_on_reads_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = random.Random(8)
    texts = [article(number, 20) for number in range(30)]
    texts += [
        edited(pick.choice(texts), pick.choice([0.004, 0.01, 0.015, 0.02, 0.03]), pick)
        for _ in range(90)
    ]
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": text} for text in texts]))
    path = tmp_path / "recipe.toml"
    path.write_text(
        '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[deduplicate.near]\nthreshold = 0.9\n'
    )
    run(path, out=tmp_path / "corpus", workers=1)
    monkeypatch.setattr(
        "gristmill.dedup.near.comparison.write_shingles", None
    )  # a read of a text fails here
    kept = set()
    for threshold in ("0.7", "0.75", "0.8", "0.87", "0.95"):
        changed = {"deduplicate.near.threshold": threshold, "deduplicate.near.floor": "0.7"}
        told = rejudge(path, out=tmp_path / "corpus", settings=changed)
        kept.add(told["kept"]["now"])
        assert (
            told["kept"]["now"]
            == run(path, out=tmp_path / threshold, workers=1, settings=changed).table["kept"]
        )
    assert len(kept) > 3
    with pytest.raises(RecipeError, match=r"a floor of 0\.65 lies below the corpus' own, 0\.7"):
        rejudge(path, out=tmp_path / "corpus", settings={"deduplicate.near.threshold": "0.65"})


def test_what_would_be_measured_otherwise_is_refused(recipe: Path, tmp_path: Path) -> None:
    run(recipe, out=tmp_path, workers=1)
    for changed in (
        {"step.2.citations": "false"},
        {"step.3.rules": '"datatrove-0.2"'},
        {"deduplicate.near.bands": "8"},
        {"source.0.base_url": '"https://mirror.example/"'},
    ):
        with pytest.raises(RecipeError, match="measures something else"):
            rejudge(recipe, out=tmp_path, settings=changed)
    told = rejudge(recipe, out=tmp_path, settings={"deduplicate.near.threshold": "0.999"})
    assert told["kept"]["now"] > told["kept"]["was"]


def test_a_source_with_a_target_is_refused(recipe: Path, tmp_path: Path) -> None:
    run(recipe, out=tmp_path / "corpus", workers=1, limit=20)
    aimed = {"source.0.target_tokens": "1000", "tokens.tokenizer": '"gpt2"'}
    with pytest.raises(RecipeError, match="a source has a target"):
        rejudge(recipe, out=tmp_path / "corpus", settings=aimed)


def test_half_of_an_older_process_is_not_used(recipe: Path, tmp_path: Path) -> None:
    """A kill between two parts leaves one of the new and one of the old thresholds: their digests
    tell.
    """
    corpus, fresh = tmp_path / "corpus", tmp_path / "fresh"
    run(recipe, out=corpus, workers=1, until="process")
    staged = corpus / "work/stage/documents/00000.parquet"
    run(recipe, out=tmp_path / "other", workers=1, until="process", settings=TIGHTER)
    staged.write_bytes((tmp_path / "other/work/stage/documents/00000.parquet").read_bytes())
    run(recipe, out=corpus, workers=1, settings=MIXED)
    run(recipe, out=fresh, workers=1, settings=MIXED)
    assert digests(corpus) == digests(fresh)


def test_a_shard_without_a_document_has_nothing_to_judge(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    (tmp_path / "raw/empty.jsonl").write_bytes(b"")
    run(path, out=tmp_path / "corpus", workers=1)
    told = rejudge(path, out=tmp_path / "corpus")
    assert told["kept"]["was"] == told["kept"]["now"] > 0


def test_every_threshold_is_a_parameter() -> None:
    loaded = parse(STEPS, "recipe.toml")
    for step in loaded.steps("web"):
        assert step.thresholds <= set(msgspec.structs.asdict(step))  # type: ignore[type-var]


def test_every_key_of_a_source_is_known_to_rejudge() -> None:
    others = {"name", "sha256sums", "authorization", "priority", "licence", "parent"}
    assert set(Source.__struct_fields__) == READ | others and not READ & others
