"""Steps that differ by language: each document is measured and judged as by the step with its
language's parameters alone.
"""

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.filters.api.judge import judge, make_schemas, named
from gristmill.filters.language.by_language import ByLanguage
from gristmill.filters.language.language import Language
from gristmill.phases.process.redecide import redecide
from gristmill.recipe import make_step
from gristmill.tables import schema
from tests.support.corpora import article

# Labels are scripts: those need no model.
LABEL = {"use": "language", "rules": "script", "keep": ["Latn", "Cyrl", "Grek"], "min_score": 0.0}
GOPHER = {"use": "gopher", "rules": "datatrove-0.10", "min_words": 3, "min_stop_words": 1}
ENTRIES = {
    "Cyrl": {"stop_words": ["и", "в"], "min_words": 5, "max_word_length": 12.0},
    "Grek": False,
}
WORDS = {
    "Latn": ["the", "mill", "and", "river", "of"],
    "Cyrl": ["и", "мельница", "в", "река", "старая"],
    "Grek": ["ο", "μύλος", "και"],
    "": ["17", "..."],
}
documents = st.lists(
    st.sampled_from(sorted(WORDS)).flatmap(
        lambda script: st.lists(st.sampled_from(WORDS[script]), max_size=9).map(" ".join)
    ),
    max_size=12,
)


def judged(tables: list[dict], texts: list[str], everything: bool = False):
    steps = [make_step(place, table) for place, table in enumerate(tables)]
    calls = [named(step, step.load({})) for step in steps]
    rows = [{"document": row, "text": text} for row, text in enumerate(texts)]
    batch = pa.RecordBatch.from_pylist(rows, schema.RAW)
    return steps, judge(batch, calls, make_schemas(calls)[0], everything=everything)


@settings(deadline=None, max_examples=25)
@given(documents, st.booleans())
def test_each_language_is_judged_by_its_own_parameters(texts: list[str], everything: bool) -> None:
    _, found = judged([LABEL, {**GOPHER, "by_language": ENTRIES}], texts, everything)
    verdicts, measures = found.verdicts.to_pylist(), found.measures.to_pylist()
    for row, text in enumerate(texts):
        label = measures[row]["language.label"]
        entry = ENTRIES.get(label, {})
        if entry is False:
            assert verdicts[row]["reason"] is None
            assert measures[row]["gopher.words"] is None
            continue
        _, alone = judged([LABEL, {**GOPHER, **entry}], [text], everything)
        (expected,) = alone.verdicts.to_pylist()
        assert {**verdicts[row], "document": 0} == expected
        (values,) = alone.measures.to_pylist()
        assert {name: measures[row][name] for name in values} == {**values, "document": row}
        assert measures[row]["gopher.language"] == (label if "gopher" in reached(values) else None)


def reached(values: dict) -> set[str]:
    return {name.partition(".")[0] for name, value in values.items() if value is not None}


@settings(deadline=None, max_examples=25)
@given(documents)
def test_other_thresholds_are_tried_on_stored_measures(texts: list[str]) -> None:
    _, found = judged([LABEL, {**GOPHER, "by_language": ENTRIES}], texts, everything=True)
    changed = {**ENTRIES, "Cyrl": {**ENTRIES["Cyrl"], "min_words": 2}, "Latn": {"min_words": 4}}
    steps, fresh = judged([LABEL, {**GOPHER, "by_language": changed}], texts, everything=True)
    said = redecide(found.measures, found.verdicts, steps, everything=True)
    for name, column in (("reason", said.reason), ("threshold", said.threshold)):
        assert column.to_pylist() == fresh.verdicts[name].to_pylist()


def test_a_step_that_rewrites_keeps_the_texts_of_a_language_it_does_not_look_at() -> None:
    c4 = {
        "use": "c4",
        "min_sentences": 1,
        "by_language": {"Cyrl": False, "Latn": {"min_line_words": 1}},
    }
    text, other = "One.\nTwo words here, all in a line.", "Слово.\nДва слова."
    _, found = judged([LABEL, c4], [text, other])
    assert found.kept["text"].to_pylist() == [text, other]
    _, found = judged([LABEL, {**c4, "by_language": {"Cyrl": False}}], [text, other])
    assert found.kept["text"].to_pylist() == ["Two words here, all in a line.", other]


def test_what_measures_depend_on() -> None:
    def key(entries: dict) -> dict:
        step = make_step(0, {**GOPHER, "by_language": entries})
        return step.measuring(step.content())

    assert key({"Cyrl": {"min_words": 2}}) == key({}) == key({"Latn": {"min_words": 9}})
    assert key({"Cyrl": {"stop_words": ["и"]}}) != key({})
    assert key({"Cyrl": False}) != key({})
    # The one that is listed first is what a label means, where two mean it.
    both = {"sr": {"stop_words": ["и"]}, "srp": {"stop_words": ["je"]}}
    assert key(both) != key(dict(reversed(both.items())))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**LABEL, "by_language": {"Cyrl": {}}}, "says the language itself"),
        ({"use": "extract", "by_language": {"fr": {}}}, "takes the text out of pages"),
        ({"use": "private", "after_dedup": True, "by_language": {"fr": {}}}, "waits until"),
        ({"use": "repeated_paragraphs", "by_language": {"fr": {}}}, "looks at the whole corpus"),
        ({**GOPHER, "by_language": {"fr": {"rules": "lab"}}}, "fr: rules cannot differ"),
        ({**GOPHER, "by_language": {"fr": {"min_word": 1}}}, "fr: gopher: no parameter `min_word`"),
        ({**GOPHER, "by_language": {"fr": {"min_words": "1"}}}, "Expected `int"),
        (
            {"use": "classifier", "model": "m", "by_language": {"fr": {"drop_lowest": 0.5}}},
            "would look at the whole corpus",
        ),
    ],
)
def test_what_cannot_differ_is_refused(table: dict, message: str) -> None:
    with pytest.raises((msgspec.ValidationError, RecipeError), match=message):
        make_step(0, table)


def test_files_of_languages_are_inputs_of_their_own() -> None:
    entries = {"fr": {"model": "fr.arpa"}, "de": {"model": "de.arpa"}, "it": {"model": "de.arpa"}}
    step = make_step(0, {"use": "perplexity", "model": "en.arpa", "by_language": entries})
    assert isinstance(step, ByLanguage)
    assert [*step.inputs().values()] == ["en.arpa", "fr.arpa", "de.arpa"]
    assert step.inputs()["perplexity.model.fr"] == "fr.arpa"


def test_any_language_may_be_kept_with_scores_for_some() -> None:
    step = Language(keep="all", min_score={"fra_Latn": 0.9, "all": 0.5})
    measures = {
        "label": pa.array(["fra_Latn", "deu_Latn", "deu_Latn", None], pa.string()),
        "score": pa.array([0.8, 0.6, 0.4, None], pa.float64()),
    }
    said = step.decide(measures)
    assert said.reason.to_pylist() == ["low_score", None, "low_score", "unknown"]
    assert said.threshold.to_pylist() == [0.9, None, 0.5, None]


def test_texts_in_memory_have_no_language() -> None:
    step = make_step(0, {**GOPHER, "by_language": ENTRIES})
    assert step(article(1)).kept
