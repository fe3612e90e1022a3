"""The step decontaminate: how benchmarks are read, what is found and told, and what bad files
get.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from gristmill.errors import RecipeError
from gristmill.filters.decontaminate.benchmarks import Benchmark
from gristmill.filters.decontaminate.common_ngrams import hits, judge_common, unlisted
from gristmill.filters.decontaminate.decontaminate import Decontaminate, load
from gristmill.recipe import parse, stored
from gristmill.tables import schema
from tests.support import naive, strategies
from tests.support.corpora import article
from tests.support.decontaminate import inputs_of, measure

QUESTION = (
    "A robe takes two bolts of blue fiber and half that much white fiber. How many bolts in "
    "total does it take?"
)
ANSWER = (
    "It takes two halves, which is one bolt of white fiber. So the total amount of fabric is "
    "three bolts of fabric."
)
ROWS = [
    {
        "id": "r/0",
        "question": QUESTION,
        "answer": ANSWER,
        "choices": {"text": ["one bolt", "three bolts"], "label": ["A", "B"]},
    },
    {
        "id": "r/1",
        "question": "What is the capital city of France?",
        "answer": "Paris",
        "choices": {"text": [], "label": []},
    },
    {
        "id": "r/2",
        "question": "Why",
        "answer": "not?",
        "choices": {"text": ["because"], "label": ["A"]},
    },
]


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def step(tmp_path: Path) -> Callable[..., Decontaminate]:
    """A step whose one benchmark is a file with these bytes."""

    def make(
        data: bytes | list[dict[str, Any]], name: str = "b.jsonl", **keys: Any
    ) -> Decontaminate:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else jsonl(data))
        own = {key: keys.pop(key) for key in list(keys) if key in Benchmark.__struct_fields__}
        own.setdefault("fields", ["question", "answer"])
        return Decontaminate(benchmarks=[Benchmark(name="bolts", file=str(path), **own)], **keys)

    return make


def test_question_and_answer_together_and_each_by_itself(
    step: Callable[..., Decontaminate],
) -> None:
    texts = [
        f"Menu. {QUESTION.upper()} -- {ANSWER} Imprint.",
        f"Menu. {QUESTION} Imprint.",
        f"{ANSWER}",
        article(1),
        "The Capital City of France? Paris",
        "So: what is the capital city of France - Paris!",
        "why not",
    ]
    measured, said = measure(step(ROWS, id="id"), texts)
    assert said.reason.to_pylist() == ["overlap", "overlap", "overlap", None, None, "overlap", None]
    assert measured.measures["overlap"].to_pylist() == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert measured.measures["items"].to_pylist() == [1, 1, 1, 0, 0, 1, 0]
    assert said.threshold.to_pylist()[0] == 0.5
    rows = measured.found.to_pylist()
    assert [(row["document"], row["item"], row["id"], row["field"]) for row in rows] == [
        (7, 0, "r/0", None),
        (7, 0, "r/0", "question"),
        (7, 0, "r/0", "answer"),
        (8, 0, "r/0", None),
        (8, 0, "r/0", "question"),
        (9, 0, "r/0", None),
        (9, 0, "r/0", "answer"),
        (12, 1, "r/1", None),
        (12, 1, "r/1", "question"),
    ]
    raw = texts[0].encode()
    assert raw[rows[1]["start"] : rows[1]["end"]].decode() == QUESTION.upper().rstrip("?")
    assert rows[1]["context"] == texts[0][:200]
    assert (
        texts[5].encode()[rows[-2]["start"] : rows[-2]["end"]]
        == b"what is the capital city of France - Paris"
    )
    assert (rows[-1]["matched"], rows[-1]["ngrams"]) == (1, 1)
    assert json.loads(measured.found.schema.metadata[b"benchmarks"]) == {
        "bolts": {"items": 3, "ngrams": 1, "whole": 1, "joined": 0, "templates": 0, "ignored": 1}
    }


@pytest.mark.parametrize(
    ("name", "data", "keys"),
    [
        ("a.jsonl", jsonl(ROWS), {}),
        ("a.jsonl.gz", gzip.compress(jsonl(ROWS)), {}),
        (
            "a",
            "\n\n".join(f"{row['question']}\n{row['answer']}" for row in ROWS).encode(),
            {"fields": None, "unit": "paragraphs"},
        ),
        (
            "a.txt",
            b"\xef\xbb\xbf"
            + "\r\n".join(f"{row['question']} {row['answer']}" for row in ROWS).encode(),
            {"fields": None},
        ),
        (
            "a.csv",
            (
                "question,answer\n"
                + "".join(f'"{row["question"]}","{row["answer"]}"\n' for row in ROWS)
            ).encode(),
            {},
        ),
        (
            "a",
            (
                "question,answer\n"
                + "".join(f'"{row["question"]}","{row["answer"]}"\n' for row in ROWS)
            ).encode(),
            {"kind": "csv"},
        ),
        ("a.parquet", None, {}),
    ],
)
def test_every_format_gives_the_same(
    step: Callable[..., Decontaminate],
    tmp_path: Path,
    name: str,
    data: bytes | None,
    keys: dict[str, Any],
) -> None:
    if data is None:
        pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x")
        data = (tmp_path / "x").read_bytes()
    measured, _ = measure(
        step(data, name, **keys),
        [f"{QUESTION} {ANSWER}", "what is the capital city of france paris"],
    )
    assert measured.measures["overlap"].to_pylist() == [1.0, 1.0]
    whole = [row for row in measured.found.to_pylist() if row["field"] is None]
    assert [(row["document"], row["item"]) for row in whole] == [(7, 0), (8, 1)]


def test_fields_within_fields_lists_numbers_and_nulls(step: Callable[..., Decontaminate]) -> None:
    rows = [
        {
            "q": ["how", "many", None, {"x": 3}],
            "n": 4.5,
            "a": {"b": None, "c": "bolts of it"},
            "choices.text": "no",
        }
    ]
    made = step(rows, fields=["q", "n", "a.b", "a.c"])
    parts = load(made, inputs_of(made)).parts
    assert parts.data.tobytes() == b"how many 3 4 5 bolts of it"
    assert (
        load(
            step(rows, fields=["choices.text", "a.c"], least_words=2), inputs_of(made)
        ).parts.data.tobytes()
        == b"no bolts of it"
    )


BAD = {
    "empty": (b"", {"fields": None}, "'bolts': b: expected items, got none"),
    "blank lines": (b"\n \n\t\n", {"fields": None}, "expected items, got none"),
    "items of one word": (
        b"word\nother\n" + b"7" * 1_000_000,
        {"fields": None},
        "none of its 3 items has 5 words or more",
    ),
    "no object": (b'{"question": "a", "answer": "b"}\n[1]\n', {}, "line 2 is no object"),
    "no JSON": (b'{"question": "a", "answer": "b"}\n{oh\n', {}, "line 2 is no JSON"),
    "another field": (
        jsonl([{"query": "a"}]),
        {},
        "row 1 has no field 'question'; there are: query",
    ),
    "no fields": (jsonl(ROWS), {"fields": None}, "there are id, question, answer, choices"),
    "fields of text": (b"some text of more than five words", {}, "is text, which has no fields"),
    "binary": (b"\0\1" * 50, {"fields": None}, "is binary"),
    "a page": (b"<!doctype html><p>404", {"fields": None}, "is a web page"),
    "no Parquet": (b"PAR1" + b"x" * 50, {}, "is no Parquet file"),
    "cut gzip": (gzip.compress(jsonl(ROWS))[:-30], {}, "truncated|corrupt"),
    "a large field of CSV": (
        b"question,answer\n" + b"x" * 200_000 + b",y\n",
        {"kind": "csv"},
        "is no CSV",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_benchmark(step: Callable[..., Decontaminate], name: str) -> None:
    data, keys, message = BAD[name]
    made = step(data, "b", **keys)
    with pytest.raises(RecipeError, match=message) as caught:
        made.load(inputs_of(made))
    assert "benchmark" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    made = Decontaminate(benchmarks=[Benchmark(name="x", file=str(tmp_path / "no"))])
    with pytest.raises(RecipeError, match="cannot be read"):
        made.load(inputs_of(made))


def test_a_benchmark_that_is_the_corpus_itself(step: Callable[..., Decontaminate]) -> None:
    """Every document is an item, and goes; rows of each are no more than it may have."""
    texts = [article(number, 8) for number in range(40)]
    measured, said = measure(step([{"text": text} for text in texts], fields=["text"]), texts)
    assert said.reason.to_pylist() == ["overlap"] * 40
    assert set(measured.measures["overlap"].to_pylist()) == {1.0}
    assert [row["item"] for row in measured.found.to_pylist() if row["overlap"] == 1.0] == list(
        range(40)
    )


def test_rows_of_a_document_that_all_items_share_a_template_with(
    step: Callable[..., Decontaminate],
) -> None:
    template = (
        "Choose the answer that fits best and give your reasons in one or two short sentences "
        "please"
    )
    rows = [{"text": f"{template} {number} x{number} y"} for number in range(3_000)]
    texts = [f"{template} thanks", f"{template} 70 x70 y"]
    measured, _ = measure(step(rows, fields=["text"]), texts)
    assert measured.measures["items"].to_pylist() == [0, 1]
    assert [(row["document"], row["item"]) for row in measured.found.to_pylist()] == [(8, 70)]
    measured, said = measure(step(rows, fields=["text"], template_items=0), texts)
    assert measured.measures["items"].to_pylist() == [3_000, 3_000]
    found = measured.found.to_pylist()
    assert (
        16 <= len([row for row in found if row["document"] == 7]) <= 18
    )  # 16, and one for each 8 words
    assert (
        max((row for row in found if row["document"] == 8), key=lambda row: row["overlap"])["item"]
        == 70
    )
    assert said.reason.to_pylist() == ["overlap", "overlap"]


def test_a_million_digits(step: Callable[..., Decontaminate]) -> None:
    made = step(ROWS)
    texts = ["7" * 1_000_000, "7 " * 500_000, QUESTION + " 7" * 500_000]
    assert measure(made, texts)[1].reason.to_pylist() == [None, None, "overlap"]


def test_thresholds_and_floors(step: Callable[..., Decontaminate]) -> None:
    half = " ".join(QUESTION.split()[:14])
    texts = [half, QUESTION, "nothing of it here at all"]
    for threshold, dropped in (
        (0.0, [True, True, False]),
        (0.15, [True, True, False]),
        (0.5, [False, True, False]),
        (1.0, [False, True, False]),
    ):
        measured, said = measure(step(ROWS, threshold=threshold), texts)
        assert said.reason.is_valid().to_pylist() == dropped, threshold
        told = {row["document"] for row in measured.found.to_pylist()}
        assert told >= {7 + place for place, gone in enumerate(dropped) if gone}
    assert step(ROWS, threshold=0.05).floor == 0.05
    assert step(ROWS).floor == 0.1
    with pytest.raises(ValueError, match="over threshold"):
        step(ROWS, threshold=0.2, floor=0.3)
    with pytest.raises(ValueError, match="two benchmarks"):
        Decontaminate(benchmarks=[Benchmark(name="x", file="a"), Benchmark(name="x", file="b")])
    with pytest.raises(ValueError, match="Expected `float` >= 0.0"):
        step(ROWS, threshold=float("nan"))


RECIPE = """
[[source]]
name = "web"
files = ["a.jsonl"]
[[step]]
use = "decontaminate"
[[step.benchmarks]]
name = "gsm8k"
file = "https://user:pw@h.example/x?token=s3cret#sha256=ab"
fields = ["question"]
[[step.benchmarks]]
name = "t"
file = ["a", "b"]
"""


def test_the_stored_recipe_has_no_secret_and_inputs_have_names() -> None:
    recipe = parse(RECIPE, "r.toml")
    table = stored(recipe)["step"][0]
    assert "s3cret" not in str(table)
    assert "pw" not in str(table["benchmarks"])
    assert table["floor"] == 0.1
    assert list(recipe.steps("web")[0].inputs()) == [
        "decontaminate.gsm8k",
        "decontaminate.t/0",
        "decontaminate.t/1",
    ]
    with pytest.raises(RecipeError, match="benchmarks"):
        parse(RECIPE.replace('fields = ["question"]', 'field = "question"'), "r.toml")


def test_texts_of_fewer_blocks_than_a_stretch_are_compared() -> None:
    """An item of more blocks than all documents of a batch have: a stretch of its length is none of
    theirs.
    """
    from gristmill.filters.decontaminate.segment_minhash import find_similar, sign_parts
    from gristmill.kernels.unicode.normalised import normalise

    texts, parts = ["a " * 22, "a " * 22], ["a " * 34]
    found = find_similar(
        *normalise(*strategies.buffers(texts)), sign_parts(*normalise(*strategies.buffers(parts)))
    )
    assert found.similarity.tolist() == [1.0, 1.0]


@strategies.fuzz(60)
@given(
    strategies.batches(strategies.repetitive_texts(), most=4),
    strategies.batches(strategies.repetitive_texts(), most=4),
)
def test_fuzz_equals_sets_of_words(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], benchmark: list[str]
) -> None:
    """The whole step: what is measured and told is what sets of words say."""
    rows = [{"text": text} for text in [*benchmark, "some item of more than five words"]]
    path = tmp_path_factory.mktemp("b") / "b.jsonl"
    path.write_bytes(jsonl(rows))
    made = Decontaminate(
        benchmarks=[Benchmark(name="b", file=str(path), fields=["text"])],
        ngram=3,
        least_words=2,
        threshold=0.0,
    )
    measured, _ = measure(made, texts)
    parts = [naive.normalise(row["text"]) for row in rows]
    for place, text in enumerate(texts):
        twin = naive.find_overlap(
            naive.normalise(text), parts, range(len(parts)), width=3, floor=0.0
        )
        assert measured.measures["overlap"][place].as_py() == twin.overlap
        assert measured.measures["items"][place].as_py() == twin.items
        own = [row for row in measured.found.to_pylist() if row["document"] == 7 + place]
        assert [(row["item"], row["matched"]) for row in own] == [row[:2] for row in twin.rows]
        for row in own:
            cut = naive.normalise(text.encode()[row["start"] : row["end"]].decode()).split()
            _, _, first, last = next(one for one in twin.rows if one[0] == row["item"])
            assert cut == naive.normalise(text).split()[first : last + 1]


def test_common_ngrams_are_judged_on_tables(step: Callable[..., Decontaminate]) -> None:
    """What stands in more than n documents counts on neither side of the share; by sets of
    words.
    """
    licence = (
        "This software is provided as is without warranty of any kind express or implied "
        "including the warranties of merchantability"
    )
    rows = [{"text": f"{licence} {article(number, 2)}"} for number in range(5)] + [
        {"text": licence}
    ]
    texts = [
        licence,
        licence + " and more",
        f"x {licence}",
        rows[0]["text"],
        rows[1]["text"][: len(licence) + 150],
        article(77),
    ]
    made = step(rows, fields=["text"], common=3)
    measured, said = measure(made, texts)
    assert said.reason.null_count == len(texts)
    pairs = {
        (row["document"], row["ngram"])
        for batch in hits([measured.found])
        for row in batch.to_pylist()
    }
    documents: dict[int, int] = {}
    for _, ngram in pairs:
        documents[ngram] = documents.get(ngram, 0) + 1
    listed = np.array(sorted(ngram for ngram, count in documents.items() if count > 3), np.int64)
    index = load(made, inputs_of(made)).table
    assert len(listed) == len(naive.ngrams_of(naive.normalise(licence), 13))
    left = unlisted(index.part_offsets, index.part_ngrams, listed)
    common = set(naive.ngrams_of(naive.normalise(licence), 13))
    for threshold in (0.0, 0.2, 1.0):
        got = {
            row["document"]: row["value"]
            for batch in judge_common([measured.found], listed, left, threshold=threshold)
            for row in batch.to_pylist()
        }
        expected = {}
        for place, text in enumerate(texts):
            held = set(naive.ngrams_of(naive.normalise(text), 13)) - common
            shares = []
            for row in rows:
                wanted = set(naive.ngrams_of(naive.normalise(row["text"]), 13)) - common
                if wanted & held:
                    shares.append(len(wanted & held) / len(wanted))
            if shares and max(shares) >= threshold:
                expected[7 + place] = max(shares)
        assert got == expected
    assert set(got) == {10}
    with pytest.raises(ValueError, match="without `hits`"):
        list(hits([measure(step(rows, fields=["text"]), texts)[0].found]))
    assert measured.found.schema.equals(schema.CONTAMINATION)


def test_similar_text_by_signatures(step: Callable[..., Decontaminate]) -> None:
    """A paraphrase that shares no 13 words in a row is found by MinHash, in its place; plain text
    is not.
    """
    item = article("item", 12)
    words = item.split()
    for place in range(6, len(words), 12):
        words[place] = "other"
    paraphrase = " ".join(words)
    texts = [
        f"{article(1, 20)} {paraphrase} {article(2, 20)}",
        paraphrase,
        article(3, 40),
        "",
        "one",
        f"{article(5, 9)} {item}",
    ]
    rows = [{"text": item}, *({"text": article(f"more {number}", 3)} for number in range(50))]
    measured, said = measure(step(rows, fields=["text"], similarity=0.3), texts)
    assert said.reason.to_pylist() == ["similar", "similar", None, None, None, "overlap"]
    assert measured.measures["overlap"].to_pylist()[0] == 0.0
    found = [row for row in measured.found.to_pylist() if row["similarity"] is not None]
    assert {(row["document"], row["item"]) for row in found} == {(7, 0), (8, 0), (12, 0)}
    row = found[0]
    cut = texts[0].encode()[row["start"] : row["end"]].decode()
    shared = set(naive.ngrams_of(naive.normalise(cut), 5)) & set(
        naive.ngrams_of(naive.normalise(item), 5)
    )
    every = set(naive.ngrams_of(naive.normalise(cut), 5)) | set(
        naive.ngrams_of(naive.normalise(item), 5)
    )
    assert abs(len(shared) / len(every) - row["similarity"]) < 0.15
    with pytest.raises(ValueError, match="use one of them"):
        step(rows, fields=["text"], similarity=0.3, common=3)


@strategies.fuzz(60)
@given(
    strategies.batches(strategies.repetitive_texts(), most=4),
    strategies.batches(strategies.repetitive_texts(), most=4),
)
def test_fuzz_stretches_are_the_minima_of_their_shingles(
    texts: list[str], parts: list[str]
) -> None:
    """The similarity told of a document and a part is that of the signatures of the stretch that is
    named, by the slow twin.
    """
    from gristmill.filters.decontaminate.segment_minhash import (
        BANDS,
        ROWS,
        SHINGLE,
        find_similar,
        sign_parts,
    )
    from gristmill.kernels.hashing.minhash import permutations
    from gristmill.kernels.unicode.normalised import normalise

    families = dict(
        zip(
            ("multipliers", "addends"),
            (one.tolist() for one in permutations(BANDS * ROWS, 1)),
            strict=True,
        )
    )
    found = find_similar(
        *normalise(*strategies.buffers(texts)), sign_parts(*normalise(*strategies.buffers(parts)))
    )
    for document, part, similarity, first, last in zip(
        *(column.tolist() for column in found[1:]), strict=True
    ):
        stretch = " ".join(naive.normalise(texts[document]).split()[first : last + 1])
        one, other = (
            naive.sign(text, width=SHINGLE, **families)[0]
            for text in (stretch, naive.normalise(parts[part]))
        )
        assert similarity == sum(a == b for a, b in zip(one, other, strict=True)) / (BANDS * ROWS)
    for place, text in enumerate(texts):
        assert (found.similarity[place] == 1.0) >= (
            bool(naive.normalise(text)) and naive.normalise(text) in map(naive.normalise, parts)
        )
