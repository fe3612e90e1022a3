"""What is to be scored leaves a corpus, and comes back as scores: the presets that need them, over
made texts and a judge that counts.
"""

import hashlib
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import export, init, run, verify
from gristmill.recipe import parse
from tests.support.corpora import article, jsonl
from tests.support.scored import topic_of

LANGUAGE = {"step.1.min_score": "0"}


def lay_out(folder: Path) -> None:
    from gristmill.training.train_tokenizer import train_tokenizer

    rows: list[dict[str, object]] = [
        {"url": f"https://web.example/{number}", "text": article(f"job {number}", 20)}
        for number in range(50)
    ]
    (folder / "a.jsonl").write_bytes(jsonl(rows[:30]))
    (folder / "b.jsonl").write_bytes(jsonl(rows[25:]))  # with five copies
    train_tokenizer([folder / "a.jsonl"], folder / "tokenizer.json", vocabulary=400)


def judge(folder: Path, out: Path, key: str) -> int:
    """Score every job: the number of documents."""
    rows = [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    for row in rows:
        expected = hashlib.blake2b(row["text"].encode(), digest_size=16).hexdigest()
        assert row["text_hash"] == expected
    columns = {
        key: [row[key] for row in rows],
        "quality": [len(row["text"]) / 100 for row in rows],
        "fineweb_edu_mistral": [row["text"].count("the") for row in rows],
        "fineweb_edu_nemotron": [row["text"].count("a") for row in rows],
        "dclm": [row["text"].count("e") / 10 for row in rows],
        "topic": [topic_of(row["url"]) for row in rows],
    }
    if key == "document":
        columns["url"] = [row["url"] for row in rows]
    pq.write_table(pa.table(columns), out)
    return len(rows)


@pytest.mark.parametrize(
    ("preset", "key"),
    [
        ("nemotron-cc", "document"),
        ("dolma3", "document"),
        pytest.param("dolma3", "text_hash", marks=pytest.mark.soak),
    ],
)
def test_the_way_out_and_back(tmp_path: Path, preset: str, key: str) -> None:
    lay_out(tmp_path)
    init(tmp_path / "whole.toml", preset=preset)
    text = (tmp_path / "whole.toml").read_text().replace("files = []", 'files = ["[ab].jsonl"]', 1)
    # What the preset shows as a comment is what is run here.
    head, marked, block = text.partition("#\n# [tokens]\n")
    assert marked
    text = head + re.sub(r"^# ?", "", marked + block, flags=re.M)
    text = text.replace('"gpt2"', '"tokenizer.json"\ntokens_per_shard = 2_000\nvalidation = 0.1')
    text = text.replace(
        'by = ["scores.topic"]', 'by = ["scores.topic"]\nnames = {"Science & Tech" = "science"}'
    )
    if key != "document":
        text = text.replace('files = ["scores.parquet"]', 'files = ["scores.parquet"]\nby = "text"')
    first = text[: text.index('[[step]]\nuse = "scores"')]
    (tmp_path / "first.toml").write_text(first + "[deduplicate]\nexact = true\n")
    (tmp_path / "whole.toml").write_text(text)
    parse(text, "whole")
    kept = run(tmp_path / "first.toml", out=tmp_path / "first", workers=1, settings=LANGUAGE).table
    assert kept["kept"] > 40
    export(tmp_path / "first", tmp_path / "jobs", to="score-jobs")
    assert judge(tmp_path / "jobs", tmp_path / "scores.parquet", key) == kept["kept"]
    table = run(tmp_path / "whole.toml", out=tmp_path / "c", workers=1, settings=LANGUAGE).table
    verify(tmp_path / "c")
    # A copy was no job: it is a document without scores, or by its text it has them.
    rows = pa.concat_tables(
        pq.read_table(path, columns=["scores.missing"])
        for path in (tmp_path / "c/measures").iterdir()
    )
    missed = sum(bool(count) for count in rows["scores.missing"].to_pylist())
    copies = table["documents"] - kept["kept"]
    assert table["kept"] == kept["kept"]
    (rule,) = json.loads((tmp_path / "c/judgement/rules.json").read_text())
    if preset == "nemotron-cc":
        assert missed == copies
        assert set(table["partitions"]) <= {
            f"crawl~{name}" for name in ("high", "medium-high", "medium", "medium-low", "low")
        }
        assert "crawl~high" in table["partitions"]
    else:
        assert set(table["partitions"]) == {
            f"crawl~{name}" for name in ("news", "sport", "science", "none")
        }
        assert max(row["times"] for row in table["repeats"]["table"] if row["documents"]) == 7
    assert rule["documents"] == (table["documents"] if key != "document" else kept["kept"])
