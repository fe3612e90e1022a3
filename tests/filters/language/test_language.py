"""Language: fastText's own label and score on what the step shows it; scripts; and the reasons."""

import hashlib
import tomllib
from collections import Counter
from pathlib import Path

import fasttext
import msgspec
import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gristmill.demonstration.texts import OTHER_LANGUAGES
from gristmill.errors import ArgumentError, RecipeError
from gristmill.filters.api.step import Decision, Input, Measured
from gristmill.filters.language import codes, scripts
from gristmill.filters.language.language import PACKAGED, Language
from gristmill.tables import schema
from tests.support import ROOT, strategies
from tests.support.corpora import article
from tests.support.fasttext_files import assemble, packaged

ENGLISH = (
    "The old mill by the river has ground the grain of the villages around it for three "
    "hundred years.\nEvery morning "
) * 5


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
    )


def judge(step: Language, texts: list[str]) -> tuple[Measured, Decision]:
    """Measure and decide, with the inputs that the caller finds."""
    inputs = {}
    for location in step.inputs().values():
        path = packaged() if location == PACKAGED else Path(location)
        inputs[location] = Input(
            path.name, str(path), hashlib.sha256(path.read_bytes()).hexdigest()
        )
    found = step.load(inputs)(batch_of(texts))
    return found, step.decide(found.measures)


GERMAN = "Die alte Mühle am Fluss mahlt seit dreihundert Jahren das Korn der Dörfer. "
SWEDISH = "Den gamla kvarnen vid ån har malt byarnas säd i trehundra år. "
CAPITALS = {"en": ENGLISH[:95].upper(), "de": GERMAN.upper(), "sv": SWEDISH.upper()}


def test_text_in_capitals_is_read_in_lower_case() -> None:
    texts = list(CAPITALS.values())
    lower, _ = judge(Language(keep="all"), [text.lower() for text in texts])
    found, said = judge(Language(keep=["en", "de", "sv"]), texts)
    assert found.measures["label"].to_pylist() == list(CAPITALS)
    assert said.reason.null_count == 3
    assert found.measures["score"].equals(lower.measures["score"])
    kept, _ = judge(Language(keep="all", capitals="keep"), texts)
    model = fasttext.load_model(str(packaged()))
    assert kept.measures["label"].to_pylist() == [
        model.predict(text)[0][0].removeprefix("__label__") for text in texts
    ]
    assert kept.measures["label"].to_pylist() != list(CAPITALS)


def test_lower_case_is_asked_about_only_where_capitals_outnumber_small_letters() -> None:
    mixed = ["OK, ta! NATO, UNESCO: de facto", "abc", "", "x " * 40, ENGLISH, "12 34"]
    ours, _ = judge(Language(keep="all"), mixed)
    theirs, _ = judge(Language(keep="all", capitals="keep"), mixed)
    few = [row for row, text in enumerate(mixed) if row != 0]
    for name in ("label", "score"):
        first, second = ours.measures[name].to_pylist(), theirs.measures[name].to_pylist()
        assert [first[row] for row in few] == [second[row] for row in few]


def test_only_the_characters_asked_about_are_looked_at_in_lower_case() -> None:
    text = SWEDISH.upper() + ENGLISH * 3
    found, _ = judge(Language(keep="all", characters=len(SWEDISH)), [text])
    assert found.measures["label"].to_pylist() == ["sv"]


def test_labels_and_scores_are_the_librarys_own() -> None:
    texts = [ENGLISH, *OTHER_LANGUAGES.values(), article(1), "x", "a\nb\n" * 900, "é" * 3000]
    found, _ = judge(Language(keep=["en"], capitals="keep"), texts)
    model = fasttext.load_model(str(packaged()))
    for row, text in enumerate(texts):
        labels, scores = model.predict(text.replace("\n", " ")[:1000])
        assert found.measures["label"][row].as_py() == labels[0].removeprefix("__label__")
        assert found.measures["score"][row].as_py() == scores[0]


def test_reasons() -> None:
    texts = [ENGLISH, *OTHER_LANGUAGES.values(), "", "zzz qqq 17 the"]
    _, said = judge(Language(keep=["en", "de"], min_score=0.65), texts)
    assert said.reason.to_pylist()[:2] == [None, None]
    assert said.reason.to_pylist()[2:6] == ["other"] * 4
    assert said.reason.to_pylist()[6] in (
        "other",
        "low_score",
    )  # of nothing the model says something, at a low score
    found, strict = judge(Language(keep=["en"], min_score=0.999), [ENGLISH])
    assert strict.reason.to_pylist() == ["low_score"]
    assert strict.threshold.to_pylist() == [0.999]
    assert strict.value.to_pylist() == found.measures["score"].to_pylist()


def test_thresholds_of_each_language_decide_from_measures_alone() -> None:
    measures = {
        "label": pa.array(["en", "en", "de", "de", "fr", None], pa.string()),
        "score": pa.array([0.5, 0.7, 0.7, 0.85, 0.99, None], pa.float64()),
    }
    step = Language(keep=["de", "en"], min_score={"en": 0.6, "de": 0.8})
    said = step.decide(measures)
    assert said.reason.to_pylist() == ["low_score", None, "low_score", None, "other", "unknown"]
    assert said.value.to_pylist() == [0.5, None, 0.7, None, 0.99, None]
    assert said.threshold.to_pylist() == [0.6, None, 0.8, None, None, None]
    assert step.thresholds == {"keep", "min_score", "min_agreeing"}
    empty = step.decide({name: column.slice(0, 0) for name, column in measures.items()})
    assert len(empty.reason) == len(empty.value) == 0


WRONG = (
    ({"keep": ["en", "de"], "min_score": {"en": 0.5}}, "no value for 'de'"),
    ({"keep": ["en"], "min_score": {"en": 0.5, "fr": 0.5}}, "names 'fr'"),
    ({"keep": ["en"], "min_score": {"en": 1.5}}, "<= 1.0"),
    ({"keep": ["en"], "min_score": float("nan")}, "no number|>= 0.0"),
    ({"keep": []}, "length >= 1"),
    ({"keep": "en"}, r'or a list, such as \["en"\]'),
    ({"keep": ["latin"], "rules": "script"}, "no script"),
    ({"keep": ["Latn"], "rules": "script", "model": "x.bin"}, "no model"),
)


@pytest.mark.parametrize(("table", "why"), WRONG, ids=[why for _, why in WRONG])
def test_what_contradicts_itself_is_refused(table: dict, why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(table, Language)


def test_only_the_first_characters_are_seen() -> None:
    text = OTHER_LANGUAGES["de"][:200] + ENGLISH * 20
    assert judge(Language(keep=["de"], characters=200), [text])[1].reason.to_pylist() == [None]


def mixed(first: str, then: str) -> str:
    """A page: a side in one language, and as much in another."""
    return (first * (1200 // len(first) + 1)) + "\n" + (then * (1200 // len(then) + 1))


def test_a_page_of_two_languages_is_told_by_its_whole_text() -> None:
    pages = [mixed(ENGLISH, text) for text in OTHER_LANGUAGES.values()]
    short, whole = (Language(keep=["en"], characters=some) for some in (1000, "all"))
    assert set(judge(short, pages)[1].reason.to_pylist()) == {None}
    found, said = judge(whole, pages)
    assert said.reason.to_pylist().count(None) <= len(pages) // 4
    model = fasttext.load_model(str(packaged()))
    for row, page in enumerate(pages):
        labels, scores = model.predict(page.replace("\n", " "))
        assert found.measures["label"][row].as_py() == labels[0].removeprefix("__label__")
        assert found.measures["score"][row].as_py() == scores[0]
    assert judge(whole, [ENGLISH * 40])[1].reason.to_pylist() == [None]


def test_mixed_pages_of_flores(data: Path) -> None:
    """Half English, half another language: by the first 1,000 characters nearly all are English, by
    the whole text few.
    """
    folder = data / "D_langid/flores200_devtest"
    lines = {
        path.stem: path.read_text("utf-8").split("\n")
        for path in sorted(folder.rglob("*.devtest"))
        if path.is_file()
    }
    english = next(found for name, found in lines.items() if name.startswith("eng"))
    pages = [
        "\n".join([*english[start : start + 12], *found[start : start + 12]])
        for number, (name, found) in enumerate(sorted(lines.items()))
        if not name.startswith("eng") and len(found) > 900
        for start in (number * 4 % 900,)
    ]
    assert len(pages) > 150
    passed = [
        judge(Language(keep=["en"], characters=some), pages)[1].reason.to_pylist().count(None)
        for some in (1000, "all")
    ]
    assert passed[0] > 0.97 * len(pages)
    assert passed[1] < 0.4 * len(pages)


def test_script_of_whole_texts() -> None:
    text = "Mill " * 300 + "мельница " * 400
    for some, label in ((1000, "Latn"), ("all", "Cyrl")):
        assert (
            judge(Language(keep=["Latn"], rules="script", characters=some), [text])[0]
            .measures["label"][0]
            .as_py()
            == label
        )


@pytest.mark.parametrize("name", ["fineweb-v1", "fineweb-edu"])
def test_fineweb_told_languages_by_whole_texts(name: str) -> None:
    recipe = tomllib.loads((ROOT / f"recipes/{name}.toml").read_text("utf-8"))
    assert [step["characters"] for step in recipe["step"] if step["use"] == "language"] == ["all"]


def test_models_of_other_kinds_name_their_own_labels(tmp_path: Path) -> None:
    """A model with softmax, as GlotLID, OpenLID and NLLB's are: no prefix is left."""
    path = tmp_path / "other.bin"
    path.write_bytes(assemble(loss=3))
    found, _ = judge(
        Language(keep=["eng_Latn"], model=str(path)), ["hello the mill", "日本語\nx", ""]
    )
    model = fasttext.load_model(str(path))
    for row, text in enumerate(("hello the mill", "日本語 x")):
        labels, scores = model.predict(text)
        assert found.measures["label"][row].as_py() == labels[0].removeprefix("__label__")
        assert found.measures["score"][row].as_py() == scores[0]
    assert found.measures["label"][0].as_py().endswith(("_Latn", "_Jpan", "_Cyrl"))


def test_keep_by_any_code(tmp_path: Path) -> None:
    """Of a model whose labels name scripts, `en`, `eng` and `eng_Latn` keep the same documents."""
    path = tmp_path / "flat.bin"
    path.write_bytes(assemble(loss=3))
    texts = ["hello the mill", "日本語", "x", "riverbed's-edge", "Mühle"]
    said = [
        judge(Language(keep=[code], model=str(path), min_score=0.0), texts)[1].reason.to_pylist()
        for code in ("en", "eng", "eng_Latn")
    ]
    assert said[0] == said[1] == said[2]
    for code, model, why in (
        ("enn", str(path), "eng_Latn"),
        ("xx", None, "none of the model's 176 labels"),
        ("deu_Latn", None, "write 'de'"),
    ):
        with pytest.raises(RecipeError, match=why):
            judge(Language(keep=[code], model=model), texts)


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    for data in (b"no model", b"", assemble()[:5000], packaged().read_bytes()[:100_000]):
        path.write_bytes(data)
        with pytest.raises(RecipeError, match="model.bin is no fastText model"):
            judge(Language(keep=["en"], model=str(path)), [ENGLISH])
    step = Language(keep=["en"], model=str(tmp_path / "none.bin"))
    with pytest.raises(RecipeError, match="No such file"):
        step.load({str(tmp_path / "none.bin"): Input("none.bin", str(tmp_path / "none.bin"), "")})


# ISO 639-3, as FLORES names its files, to lid.176's label.
FLORES = {
    "eng": "en",
    "deu": "de",
    "fra": "fr",
    "spa": "es",
    "rus": "ru",
    "cmn_Hans": "zh",
    "jpn": "ja",
    "ara": "ar",
    "hin": "hi",
    "kor": "ko",
}


def test_languages_of_flores(data: Path) -> None:
    """Ten languages, 1,012 sentences each: one sentence is little, and still 98 in a hundred are
    told right.
    """
    right = {}
    for name, label in FLORES.items():
        texts = (
            (data / f"D_langid/flores200_devtest/devtest/{name}.devtest")
            .read_text("utf-8")
            .split("\n")[:-1]
        )
        found, _ = judge(Language(keep=[label]), texts)
        right[name] = np.mean([told == label for told in found.measures["label"].to_pylist()])
    assert min(right.values()) >= 0.9, right
    assert np.mean(list(right.values())) >= 0.98, right


# Scripts.


def dominant(text: str, characters: int) -> tuple[str | None, float]:
    """The slow twin of scripts.dominant and its kernel count_letters, by regex's own tables."""
    counts = Counter()
    for letter in regex.findall(r"\p{L}", text[:characters]):
        for code in CODES:
            if OF_SCRIPT[code].match(letter):
                counts[code] += 1
    letters = counts.total()
    kana, hangul, han = (
        counts.pop("Hira", 0) + counts.pop("Kana", 0),
        counts.pop("Hang", 0),
        counts["Hani"],
    )
    most = max(kana, hangul)
    if most and most * 20 >= most + han:
        counts["Hani"] = 0
        kana, hangul = (kana + han, hangul) if kana >= hangul else (kana, hangul + han)
    counts["Hira"], counts["Hang"] = kana, hangul
    code, count = max(sorted(counts.items()), key=lambda pair: pair[1])
    if not count:
        return None, 0.0
    return {"Hira": "Jpan", "Hang": "Kore"}.get(code, code), count / letters


CODES = sorted({*scripts.labels(), "Hira", "Kana", "Hang"} - {"Jpan", "Kore"})
OF_SCRIPT = {code: regex.compile(rf"\p{{sc={code}}}") for code in CODES}
SOME = (
    *strategies.LETTERS,
    "Ж",
    "Γειά",
    "ab",
    "日本",
    "ひらがな",
    "カ",
    "ー",
    "한",
    "ª",
    "µ",
    "ℓ",
    "𝐀",
    " ",
    "1",
    "x" * 64,
    "é" * 33,
)


@strategies.fuzz(40)
@given(
    st.lists(st.lists(st.sampled_from(SOME), max_size=40).map("".join), max_size=4),
    st.sampled_from((1, 7, 64, 100, 10_000)),
)
def test_fuzz_scripts(batch: list[str], characters: int) -> None:
    labels, shares = scripts.dominant(pa.array(batch, pa.string()), characters)
    assert list(zip(labels.to_pylist(), shares.tolist(), strict=True)) == [
        dominant(text, characters) for text in batch
    ]


def test_the_script_of_every_letter() -> None:
    """Each letter alone, against regex's tables; letters that this Python does not know are left
    out.
    """
    known = strategies.known_characters()
    expected = dict.fromkeys(known)
    for code in CODES:
        for letter in regex.findall(rf"[\p{{L}}&&\p{{sc={code}}}]", known, regex.V1):
            expected[letter] = {"Hira": "Jpan", "Kana": "Jpan", "Hang": "Kore"}.get(code, code)
    labels, shares = scripts.dominant(pa.array(list(known)), 10)
    assert labels.to_pylist() == [expected[letter] for letter in known]
    assert set(shares.tolist()) == {0.0, 1.0}


def test_scripts_of_flores(data: Path) -> None:
    expected = {
        "eng": "Latn",
        "vie": "Latn",
        "rus": "Cyrl",
        "cmn_Hans": "Hani",
        "jpn": "Jpan",
        "kor": "Kore",
        "hin": "Deva",
        "tha": "Thai",
    }
    for name, label in expected.items():
        texts = (
            (data / f"D_langid/flores200_devtest/devtest/{name}.devtest")
            .read_text("utf-8")
            .split("\n")[:-1]
        )
        found, said = judge(Language(keep=[label], rules="script", min_score=0.5), texts)
        assert np.mean([told == label for told in found.measures["label"].to_pylist()]) >= 0.99, (
            name
        )
        assert said.reason.null_count >= 0.95 * len(texts), name


def test_script_reasons() -> None:
    texts = ["Plain English.", "Русский текст", "half пол ру", "123 !!", ""]
    found, said = judge(
        Language(keep=["Latn", "Cyrl"], rules="script", min_score={"Latn": 0.9, "Cyrl": 0.5}), texts
    )
    assert found.measures["label"].to_pylist() == ["Latn", "Cyrl", "Cyrl", None, None]
    assert found.measures["score"].to_pylist() == [1.0, 1.0, 5 / 9, None, None]
    assert said.reason.to_pylist() == [None, None, None, "unknown", "unknown"]
    assert Language(keep=["Latn"], rules="script").inputs() == {}


def test_models_that_agree(tmp_path: Path) -> None:
    """lid.176 and a model with labels of languages and scripts."""
    model = str(tmp_path / "other.bin")
    Path(model).write_bytes(assemble())
    texts = [ENGLISH, *OTHER_LANGUAGES.values(), ""]
    alone, _ = judge(Language(keep="all", min_score=0.0, model=model), texts)
    for least, expected in ((None, "disagreed"), (1, "disagreed"), (0, None)):
        step = Language(keep="all", min_score=0.0, also=(model,), min_agreeing=least)
        found, said = judge(step, texts)
        assert found.measures["label_1"].to_pylist() == alone.measures["label"].to_pylist()
        assert found.measures["score_1"].to_pylist() == alone.measures["score"].to_pylist()
        pairs = zip(
            found.measures["label"].to_pylist(), alone.measures["label"].to_pylist(), strict=True
        )
        same = [codes.means(one or "-", other or "-") for one, other in pairs]
        assert found.measures["agreeing"].to_pylist() == [int(one) for one in same]
        reasons = [None if agree else expected for agree in same]
        assert said.reason.to_pylist() == reasons
        values = [None if reason is None else 0.0 for reason in reasons]
        assert said.value.to_pylist() == values
        assert said.threshold.to_pylist() == [None if one is None else 1.0 for one in values]
    labels = pa.array(["en", "eng_Latn", "zsm_Latn", "ms", None, "en"], pa.string())
    others = pa.array(["eng_Latn", "en", "ms", "zsm_Latn", None, "de"], pa.string())
    assert codes.same(labels, others).tolist() == [True] * 4 + [False] * 2
    for also, message in (((model, model), "named twice"), ((), "min_agreeing = 1")):
        with pytest.raises(ArgumentError, match=message):
            Language(keep="all", also=also, min_agreeing=1)
