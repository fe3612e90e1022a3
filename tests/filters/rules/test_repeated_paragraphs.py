"""The share of a document that is in others, as counting in plain Python gives it."""

from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill
from gristmill.engine.relations import duckdb_with
from gristmill.filters.rules.repeated_paragraphs import FOLDER, RepeatedParagraphs
from tests.support import naive_folding, naive_lines
from tests.support.corpora import article, jsonl


class Shard:
    """A raw shard: the step's own table of its documents."""

    def __init__(self, step: RepeatedParagraphs, documents: list[int], texts: list[str]) -> None:
        batch = pa.record_batch({"document": pa.array(documents, pa.int64()), "text": texts})
        found = step.load({})(batch.cast(pa.schema([batch.schema[0], ("text", pa.string())]))).found
        assert found is not None
        self.found = found

    def rows(self, table: str) -> list[pa.RecordBatch]:
        assert table == FOLDER
        return [self.found]


def counted(step: RepeatedParagraphs, documents: dict[int, str]) -> dict[int, float]:
    """The documents over the limit, and their shares."""
    texts: dict[int, list[str]] = {}
    for number, text in documents.items():
        found = naive_lines.find(text, paragraphs=step.unit == "paragraphs")
        plain = [naive_folding.signed_words(line.text) for line in found]
        texts[number] = [line for line in plain if len(line) >= step.least_characters]
    counts = Counter(line for lines in texts.values() for line in set(lines))
    out = {}
    for number, lines in texts.items():
        first = {line for line in lines if min(n for n in texts if line in texts[n]) == number}
        again = [
            line
            for line in lines
            if counts[line] > step.most and not (step.keep == "first" and line in first)
        ]
        size = len if step.by == "paragraphs" else lambda parts: sum(map(len, parts))
        if lines and size(again) / size(lines) > step.max_share:
            out[number] = size(again) / size(lines)
    return out


WORDS = st.sampled_from(["a", "Bee!", "bee", "long line of it", "é", "...", "水車"])
TEXT = st.lists(st.tuples(WORDS, st.sampled_from(["\n", "\n\n", "\r\n \n"])), max_size=6).map(
    lambda parts: "".join(word + end for word, end in parts)
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.3, 0.5, 0.99]),
    st.sampled_from(["characters", "paragraphs"]),
    st.sampled_from(["paragraphs", "lines"]),
    st.integers(1, 2),
    st.sampled_from(["first", "none"]),
    st.integers(1, 3),
)
def test_shares_are_those_of_counting(
    shards: list[list[str]], share: float, by: str, unit: str, most: int, keep: str, least: int
) -> None:
    step = RepeatedParagraphs(
        max_share=share, by=by, unit=unit, most=most, keep=keep, least_characters=least
    )
    numbered = [
        ([(place << 32) + row for row in range(len(texts))], texts)
        for place, texts in enumerate(shards)
    ]
    (rule,) = step.corpus_rules
    with TemporaryDirectory() as name:
        work = Path(name)
        opener = partial(duckdb_with(1, 200), work / "spill", [work])
        got = rule.ask([Shard(step, *one) for one in numbered], {}, opener, work)
    expected = counted(
        step, {number: text for one in numbered for number, text in zip(*one, strict=True)}
    )
    assert dict(zip(got.documents.tolist(), got.values.tolist(), strict=True)) == expected


def test_a_run_drops_what_was_written_before(tmp_path: Path) -> None:
    own = [article(f"own {number}", 4) for number in range(3)]
    rows = [{"text": text} for text in (*own, f"{own[0]}\n\nNew.", own[1].upper())]
    (tmp_path / "rows.jsonl").write_bytes(jsonl(rows))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["rows.jsonl"]\n'
        '[[step]]\nuse = "repeated_paragraphs"\n'
    )
    gristmill.run(recipe, workers=1)
    verdicts = pq.read_table(tmp_path / "corpus/verdicts/00000.parquet").to_pylist()
    assert [row["reason"] for row in verdicts] == [None] * 3 + ["repeated_paragraphs.repeated"] * 2
    assert verdicts[4]["value"] == 1.0
    gristmill.verify(tmp_path / "corpus")
    again = gristmill.rejudge(recipe, settings={"step.0.max_share": "0.999"})
    assert again["kept"] == {"was": 3, "now": 4}
