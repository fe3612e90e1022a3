"""What counts as the same text, asked of all that compares texts."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

import gristmill
from gristmill.dedup.lines import line_counts
from gristmill.dedup.settings import Deduplicate, FrequentLines, Near
from gristmill.dedup.signatures import sign
from gristmill.dedup.stream.duplicate_index import DuplicateIndex
from gristmill.errors import RecipeError
from gristmill.filters.decontaminate.benchmarks import Benchmark
from gristmill.filters.decontaminate.decontaminate import Decontaminate
from gristmill.filters.rules.repeated_paragraphs import RepeatedParagraphs
from gristmill.phases.output.validation import has_hash_of_validation
from tests.support.decontaminate import measure

PLAIN = "Die Mühle am Fluss mahlt im Herbst den großen Roggen, finally, den das Dorf Ögge bringt."


def forms_of(text: str) -> list[str]:
    """A text in 20 forms that a reader cannot tell from it."""
    invisible = ("\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff")
    apart = text.replace("ü", "u\u0308").replace("Ö", "O\u0308")
    inside = [text.replace("hl", f"h{point}l").replace("gg", f"g{point}g") for point in invisible]
    before = [f"{point}{text}{point}" for point in invisible]
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)
    spaced = [text.replace(" ", "\u00a0"), text.replace(" ", "  "), text.replace(" ", "\u3000")]
    return [
        *(apart, *inside, *before, wide, *spaced),
        text.replace("fi", "ﬁ"),
        apart.replace("hl", "h\u00adl"),
        text.replace("Herbst", "Her\u00ad\u200bbst"),
    ]


FORMS = forms_of(PLAIN)


def programs() -> list[str]:
    return [
        f"def f(x, y):\n    if x {left} y:\n        return x {right} y\n"
        for left in ("<", "<=", ">", ">=", "==", "!=")
        for right in "+-*/"
    ]


def kept(texts: list[str], **given: object) -> list[str]:
    """The texts that `gristmill.deduplicate` keeps, in order."""
    found = gristmill.deduplicate(texts, near=False, **given)
    reasons = found["reason"].to_pylist()
    return [text for text, reason in zip(texts, reasons, strict=True) if reason is None]


def documents(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"document": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.string())}
    )


def test_there_are_20_forms() -> None:
    assert len(set(FORMS)) == 20
    assert PLAIN not in FORMS


def test_programs_that_differ_in_an_operator_or_in_indentation_are_kept() -> None:
    assert kept(programs()) == programs()
    shifted = "def f(x):\n    if x:\n        a()\n        b()\n"
    other = "def f(x):\n    if x:\n        a()\n    b()\n"
    assert kept([shifted, other]) == [shifted, other]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("it was -5 °C here", "it was 5 °C here"),
        (r"the \Gamma function", r"the \gamma function"),
        ("x < lo", "x <= lo"),
        ("of 10 % and", "of 10 and"),
        ("x² + y", "x2 + y"),
        ("Polish it", "polish it"),
    ],
)
def test_what_differs_in_a_sign_or_in_case_is_kept(one: str, other: str) -> None:
    assert kept([one, other]) == [one, other]
    assert kept([one, other], exact="bytes") == [one, other]


@pytest.mark.parametrize("form", FORMS)
def test_exact_drops_what_looks_the_same(form: str) -> None:
    assert kept([PLAIN, form]) == [PLAIN]
    assert kept([PLAIN, form], exact="folded") == [PLAIN]
    assert kept([PLAIN, form], exact="words") == [PLAIN]
    assert kept([PLAIN, form], exact="bytes") == [PLAIN, form]


def test_words_drops_what_differs_in_case_and_signs() -> None:
    assert kept(programs(), exact="words") == programs()[:1]


@pytest.mark.parametrize("form", FORMS)
def test_near_signs_and_verifies_what_looks_the_same_as_the_same(form: str) -> None:
    signed = sign(documents([PLAIN, form]), Deduplicate(exact=False, near=Near()))
    assert signed["signature"][0] == signed["signature"][1]
    with DuplicateIndex(None, exact=False) as index:
        verdicts = index.add_batch([PLAIN, form])
    assert verdicts[1].similarity == 1.0


def test_signs_are_words_of_near_duplicates() -> None:
    texts = ["if x < lo then", "if x <= lo then", "if x , lo then"]
    with DuplicateIndex(None, exact=False, near=Near(shingle=2, threshold=0.9)) as index:
        assert [verdict.reason for verdict in index.add_batch(texts)] == [None, None, None]
    plain = Near(shingle=2, threshold=0.9, signs=False)
    with DuplicateIndex(None, exact=False, near=plain) as index:
        reasons = [verdict.reason for verdict in index.add_batch(texts)]
    assert reasons == [None, "deduplicate.near_duplicate", "deduplicate.near_duplicate"]


@pytest.mark.parametrize("unit", ["lines", "paragraphs", "sentences"])
def test_lines_and_paragraphs_that_look_the_same_are_counted_together(unit: str) -> None:
    settings = FrequentLines(most=1, unit=unit)
    texts = [f"{text}\n\nOne more thing.\n\nAnd another." for text in [PLAIN, *FORMS]]
    counted = pa.Table.from_batches(line_counts.count([documents(texts)], settings))
    assert set(counted["documents"].to_pylist()) == {len(texts)}


def test_paragraphs_of_other_documents_repeat_in_whatever_form() -> None:
    for form in FORMS:
        batch = documents([PLAIN, form])
        found = RepeatedParagraphs().load({})(batch).found
        assert found is not None
        assert found["hash"][0] == found["hash"][1]


def test_equal_texts_are_in_one_split() -> None:
    for seed in range(20):
        split = has_hash_of_validation(pa.array([PLAIN, *FORMS]), share=0.5, seed=seed)
        assert len(set(split.tolist())) == 1


def test_300_items_in_other_forms_are_leaks(tmp_path: Path) -> None:
    draw = random.Random(5)
    letters = "abcdefghiklmnoprstuvw"
    items = [
        " ".join("".join(draw.choices(letters, k=draw.randint(4, 8))) for _ in range(30))
        for _ in range(300)
    ]
    marks = ("\u200b", "\u00ad", None)
    planted = []
    for place, item in enumerate(items):
        mark = marks[place % 3]
        if mark is None:
            hidden = "".join(chr(ord(c) + 0xFEE0) if c != " " else c for c in item)
        else:
            hidden = " ".join(word[:2] + mark + word[2:] for word in item.split())
        planted.append(f"Before it. {hidden} And after it.")
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps({"q": item}) + "\n" for item in items))
    step = Decontaminate(benchmarks=[Benchmark(name="b", file=str(path), fields=["q"])])
    measured, decision = measure(step, [*planted, "Nothing of the kind is here, so it stays."])
    assert decision.reason.to_pylist() == [*["overlap"] * 300, None]
    assert measured.found is not None
    contexts = measured.found["context"].to_pylist()
    assert all("After it" in c or "Before it." in c for c in contexts)
    for start, stop, document in zip(
        *(measured.found[name].to_pylist() for name in ("start", "end", "document")), strict=True
    ):
        raw = planted[document - 7].encode()
        assert raw[start:stop].decode() == planted[document - 7][11:-14]


def test_arabic_marks_and_tatweel_count_by_a_setting() -> None:
    bare, marked = "كتب محمد الدرس في المدرسة", "كَتَبَ مـــحمد الدرس في المدرسة"
    assert kept([bare, marked]) == [bare, marked]
    settings = Deduplicate(arabic_marks=False, near=Near(), lines=FrequentLines(most=1))
    signed = sign(documents([bare, marked]), settings)
    assert signed["text_hash"][0] == signed["text_hash"][1]
    assert signed["signature"][0] == signed["signature"][1]
    counted = pa.Table.from_batches(line_counts.count([documents([bare, marked])], settings.lines))
    assert counted["documents"].to_pylist() == [2]
    with DuplicateIndex(None, near=None, arabic_marks=False) as index:
        assert [v.reason for v in index.add_batch([bare, marked])][1] == (
            "deduplicate.exact_duplicate"
        )


def test_an_index_of_another_form_is_refused(tmp_path: Path) -> None:
    DuplicateIndex(tmp_path / "index", exact="folded").close()
    DuplicateIndex(tmp_path / "index", exact=True).close()
    with pytest.raises(RecipeError, match="exact"):
        DuplicateIndex(tmp_path / "index", exact="words")
    with pytest.raises(RecipeError, match="exact"):
        DuplicateIndex(None, exact="letters")  # type: ignore[arg-type]
