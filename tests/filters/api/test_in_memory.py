"""Filters as values: what they take, what they give, what they refuse."""

import doctest
import importlib
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from gristmill import filters
from gristmill.errors import ArgumentError, RecipeError
from gristmill.filters.api import in_memory, registry
from gristmill.filters.api.step import Check, Decision, Measured, Step, check
from tests.support.corpora import article
from tests.support.skips import missing

SHORT, LONG = "Too short.", "One two three four five six."
SIMPLE = filters.Simple(min_words=5)
REASONS = ["simple.few_words", None, "read.no_text"]


class Shouting(Step, frozen=True, kw_only=True):
    """Drop what has too many exclamation marks."""

    version: ClassVar[int] = 1
    most: int = 1

    def load(self, inputs: Any) -> Any:
        return lambda batch: Measured(
            {"marks": pa.array([text.count("!") for text in batch["text"].to_pylist()], pa.int64())}
        )

    def decide(self, measures: Any) -> Decision:
        return check([Check("loud", "marks", ">", self.most)], measures)


def lorem(text: str) -> str | None:
    return "filler" if "lorem" in text else None


def package(name: str) -> Any:
    """An optional package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name, f"the package {name} is not installed")


def test_one_string() -> None:
    verdict = SIMPLE(SHORT)
    assert (verdict.reason, verdict.value, verdict.threshold) == ("simple.few_words", 2.0, 5.0)
    assert not verdict
    assert not verdict.kept
    assert verdict.text is None
    assert verdict.measures["simple.words"] == 2
    assert SIMPLE(LONG)
    assert SIMPLE(LONG).text == LONG


@pytest.mark.parametrize(
    "given",
    [
        [SHORT, LONG, None],
        (SHORT, LONG, None),
        (text for text in (SHORT, LONG, None)),
        np.array([SHORT, LONG, None], object),
        pa.array([SHORT, LONG, None]),
        pa.array([SHORT, LONG, None], pa.large_string()),
        pa.array([SHORT, LONG, None], pa.string_view()),
        pa.array([SHORT, LONG, None]).dictionary_encode(),
        pa.array(["", SHORT, LONG, None])[1:],
        pa.chunked_array([[SHORT], [], [LONG, None]]),
        pa.table({"text": [SHORT, LONG, None], "n": [1, 2, 3]}),
        pa.table({"content": [SHORT, LONG, None]}),
        pa.RecordBatch.from_pydict({"text": [SHORT, LONG, None]}),
    ],
    ids=lambda given: f"{type(given).__name__} {getattr(given, 'type', '')}",
)
def test_what_is_taken(given: Any) -> None:
    assert SIMPLE(given)["reason"].to_pylist() == REASONS


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([SHORT, LONG], [LONG]),
        ((SHORT, LONG), [LONG]),
        (pa.array([SHORT, LONG]), pa.array([LONG])),
        (pa.array([SHORT, LONG], pa.string_view()), pa.array([LONG], pa.string_view())),
        (pa.chunked_array([[SHORT], [LONG]]), pa.chunked_array([[LONG]])),
        (
            pa.table({"text": [SHORT, LONG], "n": [1, 2]}),
            pa.table({"text": [LONG], "n": pa.array([2])}),
        ),
        ({"text": [SHORT, LONG], "n": [1, 2]}, {"text": [LONG], "n": [2]}),
        (LONG, LONG),
        (SHORT, None),
        ([], []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_kept_has_its_form(given: Any, kept: Any) -> None:
    got = filters.keep(given, [SIMPLE])
    assert type(got) is type(kept)
    assert got == kept or got.equals(kept)


def test_numpy_and_generators_have_their_form() -> None:
    got = filters.keep(np.array([SHORT, LONG], object), [SIMPLE])
    assert isinstance(got, np.ndarray)
    assert got.tolist() == [LONG]
    endless = (LONG for _ in iter(int, 1))
    stream = filters.keep(endless, [SIMPLE])
    assert [next(stream) for _ in range(3)] == [LONG] * 3


def test_pandas() -> None:
    pandas = package("pandas")
    series = pandas.Series([SHORT, LONG, None], index=[7, 8, 9], name="content")
    assert SIMPLE(series)["reason"].to_pylist() == REASONS
    assert filters.keep(series, [SIMPLE]).to_dict() == {8: LONG}
    category = pandas.Series(["a  b", "a  b"], dtype="category")
    assert filters.keep(category, [filters.Normalise()]).tolist() == ["a b", "a b"]
    frame = pandas.DataFrame({"text": [SHORT, LONG, None], "other": [object(), 2, 3]})
    assert filters.mask(frame, [SIMPLE]).tolist() == [False, True, False]
    assert filters.keep(frame, [SIMPLE])["other"].tolist() == [2]
    with pytest.raises(ArgumentError, match="without a column 'body': it has text"):
        SIMPLE(frame[["text"]], text="body")


def test_polars() -> None:
    polars = package("polars")
    series = polars.Series("content", [SHORT, LONG, None])
    assert SIMPLE(series)["reason"].to_pylist() == REASONS
    assert filters.keep(series, [SIMPLE]).to_list() == [LONG]
    frame = polars.DataFrame({"text": [SHORT, LONG, None], "n": [1, 2, 3]})
    assert filters.keep(frame, [SIMPLE]).rows() == [(LONG, 2)]
    with pytest.raises(ArgumentError, match="collect"):
        SIMPLE(frame.lazy())


def test_duckdb() -> None:
    import duckdb

    relation = duckdb.sql(f"select '{LONG}' as text, 5 as n union all select 'short', 6")
    assert sorted(SIMPLE(relation)["simple.words"].to_pylist()) == [1, 6]
    assert filters.keep(relation, [SIMPLE]).to_pylist() == [{"text": LONG, "n": 5}]


def test_data_sets_of_hugging_face() -> None:
    datasets = package("datasets")
    rows = {"text": [SHORT, LONG, None], "n": [1, 2, 3]}
    for given in (
        datasets.Dataset.from_dict(rows),
        datasets.Dataset.from_dict(rows).to_iterable_dataset(),
    ):
        assert SIMPLE(given)["reason"].to_pylist() == REASONS
        assert list(filters.keep(given, [SIMPLE])) == [{"text": LONG, "n": 2}]
        chosen = given.filter(partial(filters.mask, steps=[SIMPLE]), batched=True)
        assert list(chosen) == [{"text": LONG, "n": 2}]
        judged = list(given.map(SIMPLE, batched=True))
        assert [row["reason"] for row in judged] == REASONS
        assert judged[0]["n"] == 1
        assert [row["reason"] for row in given.map(SIMPLE)] == REASONS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "a int was given: expected a string, a list"),
        (None, "a NoneType was given"),
        (b"bytes", "bytes were given: decode them"),
        ([LONG, 5], r"texts\[1\] is a int \(5\)"),
        ([LONG, b"bytes"], r"texts\[1\] is bytes: decode it"),
        (pa.array([1, 2]), "a column of int64"),
        (pa.array([b"x"]), "a column of binary"),
        (np.zeros((2, 2)), "2 dimensions"),
        (pa.table({"a": ["x"], "b": ["y"]}), "without a column 'text': it has a, b"),
        ({"a": ["x"]}, "without a column 'text'"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    for call in (SIMPLE, partial(filters.keep, steps=[SIMPLE])):
        with pytest.raises(TypeError, match=message):
            call(given)


def test_hostile_texts() -> None:
    assert SIMPLE(["\ud800 lone", LONG])["simple.words"].to_pylist() == [2, 6]
    assert filters.keep(["\ud800 a b c d e"], [SIMPLE]) == ["\ufffd a b c d e"]
    long = "word " * (2 << 20)
    assert SIMPLE([long, SHORT, long])["simple.words"].to_pylist() == [2 << 20, 2, 2 << 20]
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xff")]
    )
    with pytest.raises(ArgumentError, match="not a valid column"):
        SIMPLE(broken)
    assert SIMPLE([])["reason"].to_pylist() == []
    assert SIMPLE([None])["reason"].to_pylist() == ["read.no_text"]


def test_parameters_are_checked_when_a_filter_is_made() -> None:
    for make, message in (
        (lambda: filters.Simple(min_wrods=3), "Simple: .*'min_wrods'; did you mean 'min_words'"),
        (lambda: filters.Simple(min_words="3"), "Simple: Expected `int.*got `str` - at `min_words"),
        (filters.Language, "Language: missing required field `keep`"),
        (lambda: filters.Gopher(rules="none"), "rules"),
        (lambda: filters.Simple(3), "Simple: Extra positional arguments"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
    assert filters.Gopher(rules="datatrove-0.10", min_words=3).min_words == 3
    assert isinstance(filters.Classifier(model=Path("a.bin"), min_score=1).min_score, float)


def test_steps_are_checked() -> None:
    for steps, message in (
        ([], "none was given"),
        ([SIMPLE, filters.Simple()], "simple is given twice"),
        ([filters.Simple], r"Simple is a class: call it first, as in Simple\(\)"),
        ([3], "a int is no filter"),
        (3, "a int was given"),
        ([lambda text: None], "a filter's name is '<lambda>'"),
        ([filters.Simple(sources=["web"])], "there are no sources here"),
        ([filters.Normalise(after_dedup=True)], "there is no deduplication here"),
        ([filters.Classifier(model="x", drop_lowest=0.5)], "a rank in the whole corpus"),
    ):
        with pytest.raises(ArgumentError, match=message):
            filters.keep([LONG], steps)
    with pytest.raises(RecipeError, match="there is no such file"):
        filters.Perplexity(model="none.model", max_perplexity=9.0)(LONG)


def test_filters_of_your_own() -> None:
    loud = ["Stop!!", "Quiet."]
    assert Shouting(most=1)(loud)["reason"].to_pylist() == ["Shouting.loud", None]
    assert filters.keep([*loud, "lorem"], [Shouting(), lorem]) == ["Quiet."]
    assert filters.judge("lorem", lorem).reason == "lorem.filler"

    def fails(text: str) -> str | None:
        raise ValueError("no")

    with pytest.raises(RecipeError, match="fails: document 0:0: ValueError: no"):
        filters.judge("x", fails)


def test_a_rewritten_text_goes_on_to_the_next_filter() -> None:
    table = filters.judge(["a  b\r\n\r\n\r\n" + LONG, " "], [filters.Normalise(), SIMPLE])
    assert table["reason"].to_pylist() == [None, "normalise.empty"]
    assert table["text"].to_pylist() == [filters.keep(table["text"], [SIMPLE])[0].as_py(), None]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("alpha\n")
    step = filters.Toxicity(lists=[str(words)], max_words=0)
    assert step("alpha beta").reason == "toxicity.words"
    words.write_text("gamma delta\n")
    assert step("alpha beta").kept


def test_threads_give_what_one_gives() -> None:
    texts = [article(number, 12) for number in range(40)]
    steps = [filters.Gopher(), filters.C4(), filters.Language(keep=["en"]), filters.Private()]
    once = filters.judge(texts, steps)
    with ThreadPoolExecutor(4) as pool:
        for table in pool.map(lambda _: filters.judge(texts, steps), range(12)):
            assert table.equals(once)


def test_a_step_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(SIMPLE)) == SIMPLE


def test_a_thousand_strings_cost_little_besides_the_kernels() -> None:
    texts = [f"{number} {LONG}" for number in range(1000)]
    SIMPLE(texts)
    spent = []
    for _ in range(9):
        start = time.process_time()
        SIMPLE(texts)
        spent.append(time.process_time() - start)
    assert np.median(spent) < 0.02  # 2 ms alone; this machine may be busy


def test_the_names_are_those_of_the_registry() -> None:
    for step in registry.all_built_in():
        found = getattr(filters, registry.public_name(step))
        assert registry.public_name(step) in dir(filters)
        assert found.__doc__
        assert found is step or callable(found)
    with pytest.raises(AttributeError, match="no attribute 'Gohper'"):
        filters.Gohper  # noqa: B018


def test_importing_filters_loads_nothing_heavy() -> None:
    code = (
        "import sys; from gristmill import filters; assert 'numpy' not in sys.modules\n"
        "filters.Simple(min_words=2)('a b c')\n"
        "print([name for name in ('polars', 'datasets', 'duckdb', 'torch') "
        "if name in sys.modules])\n"
        "print([name for name in sys.modules if name.startswith('gristmill.kernels.') and "
        "name.split('.')[2] in ('bpe', 'html', 'models', 'decontaminate', 'pieces')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


@pytest.mark.parametrize("module", [in_memory, filters])
def test_the_examples_are_true(module: Any) -> None:
    assert doctest.testmod(module) == (0, doctest.testmod(module).attempted)
    assert doctest.testmod(module).attempted
