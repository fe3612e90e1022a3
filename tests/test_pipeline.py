"""The whole run: the same bytes whatever the workers, nothing done twice, what is read back is what
went in.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import Tokenizer, run
from tests.support.corpora import RECIPE, digests, jsonl, lay_out, pages


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, and its corpus made by one worker."""
    folder = tmp_path_factory.mktemp("made")
    run(lay_out(folder), out=folder / "one", workers=1, cache_dir=folder / "cache")
    return folder


def test_one_worker_and_four_give_the_same_bytes(made: Path) -> None:
    run(made / "recipe.toml", out=made / "four", workers=4, cache_dir=made / "cache")
    assert digests(made / "four") == digests(made / "one")


def test_running_again_does_nothing_and_says_so(made: Path) -> None:
    told: list[dict[str, object]] = []
    before = {
        path: path.stat().st_mtime_ns
        for path in (made / "one").rglob("*")
        if path.is_file() and "work" not in path.parts
    }
    funnel = run(made / "recipe.toml", out=made / "one", cache_dir=made / "cache", show=told.append)
    assert not funnel.fresh
    assert ["nothing to do" in str(event.get("text")) for event in told] == [True]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_every_document_has_one_verdict_and_the_funnel_adds_up(made: Path) -> None:
    funnel = json.loads((made / "one/funnel.json").read_text())
    seen: list[int] = []
    kept = 0
    for path in sorted((made / "one/verdicts").iterdir()):
        table = pq.read_table(path)
        assert table["document"].to_pylist() == sorted(table["document"].to_pylist())
        seen += table["document"].to_pylist()
        kept += table["reason"].null_count
    assert len(set(seen)) == len(seen) == funnel["documents"]
    assert (
        funnel["kept"]
        == kept
        == funnel["documents"] - sum(step["dropped"] for step in funnel["steps"])
    )
    assert {step["step"] for step in funnel["steps"]} == {"read", "gopher", "deduplicate"}
    assert all(
        reason.startswith(step["step"] + ".")
        for step in funnel["steps"]
        for reason in step["reasons"]
    )
    assert funnel["steps"][2]["reasons"].keys() == {
        "deduplicate.exact_duplicate",
        "deduplicate.near_duplicate",
    }


def kept_texts(corpus: Path) -> dict[int, str]:
    out = {}
    for path in sorted((corpus / "documents").iterdir()):
        verdicts = pq.read_table(corpus / "verdicts" / path.name)
        gone = {
            d
            for d, r in zip(
                verdicts["document"].to_pylist(), verdicts["reason"].to_pylist(), strict=True
            )
            if r is not None
        }
        table = pq.read_table(path)
        out |= {
            d: t
            for d, t in zip(table["document"].to_pylist(), table["text"].to_pylist(), strict=True)
            if d not in gone
        }
    return out


def test_shards_read_back_with_memmap_decode_to_the_documents_that_went_in(made: Path) -> None:
    corpus = made / "one"
    tokenizer = Tokenizer("tokenizer.json", (corpus / "tokenizer/tokenizer.json").read_bytes())
    texts = kept_texts(corpus)
    read: dict[int, list[int]] = {}
    for split in ("train", "val"):
        bins = sorted((corpus / "tokens/web").glob(f"{split}_*.bin"))
        assert bins, split
        for place, path in enumerate(bins):
            tokens = np.memmap(path, np.uint16, "r")
            assert len(tokens) == 5_000 or place == len(bins) - 1
            table = np.fromfile(path.with_suffix(".docs"), np.int64)
            documents, ends = table[: len(table) // 2], table[len(table) // 2 :]
            assert ends[-1] == len(tokens)
            for document, start, stop in zip(
                documents.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True
            ):
                read.setdefault(document, []).extend(tokens[start:stop].tolist())
    assert read.keys() == texts.keys()
    for document, tokens in read.items():
        assert tokens[-1] == tokenizer.end_of_text
        assert tokens.count(tokenizer.end_of_text) == 1
        assert tokenizer.decode(tokens[:-1]) == texts[document]


def test_the_order_is_shuffled_by_the_seed_and_append_keeps_document_order(made: Path) -> None:
    def order(corpus: Path) -> list[int]:
        out: list[int] = []
        for path in sorted((corpus / "tokens/web").glob("train_*.docs")):
            table = np.fromfile(path, np.int64)
            out += table[: len(table) // 2].tolist()
        return list(dict.fromkeys(out))

    run(made / "recipe.toml", out=made / "seed8", settings={"seed": "8"}, cache_dir=made / "cache")
    run(
        made / "recipe.toml",
        out=made / "append",
        settings={"tokens.order": '"append"'},
        cache_dir=made / "cache",
    )
    assert order(made / "append") == sorted(order(made / "append")) == sorted(order(made / "one"))
    assert order(made / "one") != sorted(order(made / "one"))
    assert order(made / "seed8") != order(made / "one")


def test_equal_texts_fall_on_one_side_of_validation(tmp_path: Path) -> None:
    rows = pages(60, "v")
    recipe = lay_out(
        tmp_path, recipe=RECIPE.replace("[deduplicate]\nnear = {}\n", "").replace("0.1", "0.3")
    )
    for path in (tmp_path / "raw").iterdir():
        path.unlink()
    (tmp_path / "raw/one.jsonl").write_bytes(jsonl(rows))
    (tmp_path / "raw/two.jsonl").write_bytes(jsonl(rows))
    run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    sides: dict[str, set[int]] = {}
    for split in ("train", "val"):
        for path in (tmp_path / "corpus/tokens/web").glob(f"{split}_*.docs"):
            table = np.fromfile(path, np.int64)
            sides.setdefault(split, set()).update(
                row & 0xFFFFFFFF for row in table[: len(table) // 2].tolist()
            )
    assert sides["val"]
    assert sides["train"]
    assert not sides["val"] & sides["train"]


def test_without_tokens_the_corpus_ends_with_text_and_export_gives_all_fields_back(
    tmp_path: Path,
) -> None:
    recipe = lay_out(tmp_path, recipe=RECIPE.partition("[tokens]")[0])
    run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    corpus = tmp_path / "corpus"
    assert not (corpus / "tokens").exists()
    assert sorted(path.name for path in (corpus / "text/web").iterdir()) == [
        f"0000{n}.parquet" for n in range(4)
    ]
    told = gristmill.export(corpus, tmp_path / "out", to="jsonl")
    texts = kept_texts(corpus)
    assert told["documents"] == len(texts)
    lines = [
        json.loads(line) for line in (tmp_path / "out/web/00001.jsonl").read_bytes().splitlines()
    ]
    given = {row["url"]: row for row in pages(120, "b") + pages(40, "a")}
    assert lines
    for line in lines:
        assert line == given[line["url"]] | {"copies": line["copies"]}
    assert sum(line["copies"] for line in lines) > 0
    gristmill.export(corpus, tmp_path / "table", to="parquet")
    table = pq.read_table(tmp_path / "table/web/00001.parquet")
    for name in ("text", "url", "meta", "copies"):
        assert table[name].to_pylist() == [line[name] for line in lines]
    first = gristmill.export(corpus, tmp_path / "again", to="jsonl.zst")
    second = gristmill.export(corpus, tmp_path / "twice", to="jsonl.zst")
    assert first == second
    assert (tmp_path / "again/web/00000.jsonl.zst").read_bytes() == (
        tmp_path / "twice/web/00000.jsonl.zst"
    ).read_bytes()


def test_a_changed_parameter_runs_its_phase_and_what_follows_and_nothing_before_it(
    made: Path,
) -> None:
    corpus = made / "changed"
    run(made / "recipe.toml", out=corpus, cache_dir=made / "cache")
    told: list[dict[str, object]] = []
    run(
        made / "recipe.toml",
        out=corpus,
        settings={"tokens.tokens_per_shard": "7000"},
        cache_dir=made / "cache",
        show=told.append,
    )
    assert [event["phase"] for event in told if event["event"] == "phase"] == ["fetch", "assemble"]
    told.clear()
    run(
        made / "recipe.toml",
        out=corpus,
        settings={"deduplicate.near.threshold": "0.9"},
        cache_dir=made / "cache",
        show=told.append,
    )
    assert [event["phase"] for event in told if event["event"] == "phase"] == [
        "fetch",
        "deduplicate",
        "write_verdicts",
        "tokenize",
        "assemble",
    ]
    fresh = made / "fresh"
    run(
        made / "recipe.toml",
        out=fresh,
        settings={"deduplicate.near.threshold": "0.9"},
        cache_dir=made / "cache",
    )
    assert digests(fresh) == digests(corpus)


def test_a_grown_source_gets_later_numbers_and_changes_no_earlier_verdict(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    corpus = tmp_path / "corpus"
    before = {path.name: path.read_bytes() for path in (corpus / "verdicts").iterdir()}
    # The new file's name sorts first; its number comes last all the same.
    (tmp_path / "raw/0.jsonl").write_bytes(jsonl(pages(50, "a")))
    funnel = run(recipe, out=corpus, cache_dir=tmp_path / "cache")
    assert funnel.fresh
    plan = json.loads((corpus / "plan.json").read_text())
    assert [shard["url"] for shard in plan["shards"]] == [
        "raw/a.wet.gz",
        "raw/b.jsonl",
        "raw/c.jsonl.gz",
        "raw/d.txt",
        "raw/0.jsonl",
    ]
    assert {name: (corpus / "verdicts" / name).read_bytes() for name in before} == before
    reasons = pq.read_table(corpus / "verdicts/00004.parquet")["reason"].to_pylist()
    assert None not in reasons  # all of it stood in the corpus
    assert gristmill.verify(corpus)["parts"] > 0
    # The stored plan over the same raw bytes gives the same corpus in a new folder.
    run(
        recipe,
        out=tmp_path / "replayed",
        plan_file=corpus / "plan.json",
        cache_dir=tmp_path / "cache",
    )
    assert digests(tmp_path / "replayed") == digests(corpus)


def test_a_limit_counts_documents_of_the_whole_source(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    funnel = run(recipe, out=tmp_path / "corpus", limit=150, cache_dir=tmp_path / "cache")
    assert funnel.table["documents"] == 150
    gristmill.verify(tmp_path / "corpus")


def test_an_empty_validation_share_writes_no_file_and_says_so(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path, recipe=RECIPE.replace("validation = 0.1", "validation = 0"))
    funnel = run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "corpus/tokens/web").glob("val_*"))
    assert any("validation" in line and "no file" in line for line in funnel.lines())


def test_keep_documents_false_removes_them_in_the_end(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    run(
        recipe,
        out=tmp_path / "corpus",
        settings={"keep_documents": "false"},
        cache_dir=tmp_path / "cache",
    )
    assert not (tmp_path / "corpus/documents").exists()
    gristmill.verify(tmp_path / "corpus")
    assert not run(
        recipe,
        out=tmp_path / "corpus",
        settings={"keep_documents": "false"},
        cache_dir=tmp_path / "cache",
    ).fresh


def test_scope_source_compares_within_a_source_only(tmp_path: Path) -> None:
    rows = pages(40, "s")
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(rows))
    recipe = tmp_path / "recipe.toml"
    text = (
        '[[source]]\nname = "one"\nfiles = ["one.jsonl"]\n[[source]]\nname = "two"\nfiles = '
        '["two.jsonl"]\n[deduplicate]\nnear = {}\n'
    )
    recipe.write_text(text)
    whole = run(recipe, out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    apart = run(
        recipe,
        out=tmp_path / "apart",
        settings={"deduplicate.scope": '"source"'},
        cache_dir=tmp_path / "cache",
    )
    assert apart.table["kept"] == 2 * whole.table["kept"]
