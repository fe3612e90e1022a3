"""The prediction kernel against the library: equal label and float32 score on every document. Files
that are no models are refused.
"""

import random
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import fasttext as library
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input
from gristmill.filters.language.language import Language
from gristmill.filters.models import fasttext_format
from gristmill.filters.models.classifier import Classifier
from gristmill.filters.models.fasttext_file import LabelledModel, mapped, read, read_labels
from gristmill.kernels.models.fasttext import BLOCK, predict
from gristmill.kernels.models.fasttext_words import NARROW
from gristmill.tables.columns import on_lines, utf8_buffers
from tests.support.fasttext_files import BAGS, LABELS, WORDS, assemble, packaged
from tests.support.strategies import batches

PLANTED = [
    "",
    " ",
    "\0",
    "\n\n",
    "</s>",
    "</s> hello there",
    "hello </s> there",
    "__label__en is a label",
    "__label__xx is none",
    "__label__",
    "a\nb\tc\vd\fe\rf",
    "x" * 5000,
    "é" * 3000,
    "日本語" * 600,
    "<a> </a>",
    "word " * 900,
    "\u2028 a \u00a0 b",
    "__label_x",
]


@cache
def packaged_model() -> Any:
    return library.load_model(str(packaged()))


@pytest.fixture(scope="module")
def known() -> LabelledModel:
    found = read(packaged().read_bytes())
    assert found is not None
    return found


def check(
    known: LabelledModel,
    texts: list[str],
    characters: int | None = 1000,
    path: Path | None = None,
    block: int = BLOCK,
) -> None:
    model = library.load_model(str(path)) if path else packaged_model()
    columns = utf8_buffers(pa.array(texts, pa.string()))
    places, scores = predict(
        *columns, known.model, characters=characters, block=block, tables=known.tables
    )
    for text, place, score in zip(texts, places.tolist(), scores, strict=True):
        labels, expected = model.predict(text.replace("\n", " ")[:characters])
        assert (known.labels[place] if place >= 0 else None) == (
            labels[0].removeprefix("__label__") if labels else None
        ), text[:80]
        if labels:
            assert np.float32(expected[0]) == score, text[:80]


def test_planted_texts(known: LabelledModel) -> None:
    check(known, PLANTED)
    check(known, PLANTED, characters=7)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_all_of_unicode(known: LabelledModel, texts: list[str]) -> None:
    check(known, texts)


LONG = [
    "The mill by the river ground the grain of three villages.\n" * 300,
    "one " + "Mühle" * 200 + " two " + "日本語" * 150 + "\n" + "ё" * 501 + " three",
    "x" * 5000,
    "word " + "__label__" + "y" * 400 + " after",
    "a b c " * 90 + "</s> of this nothing counts",
    " " * 900 + "end",
    "é " * 700 + "\0tail",
]


@pytest.mark.parametrize("block", [1, 40, 128, 1001, BLOCK])
def test_whole_texts_a_block_at_a_time(known: LabelledModel, tmp_path: Path, block: int) -> None:
    """No block changes a bit of label or score, and words that are longer than one have their
    n-grams.
    """
    texts = [*LONG, *PLANTED, *(text[::-1] for text in LONG)]
    check(known, texts, None, block=block)
    check(known, texts, 777, block=block)
    path = tmp_path / "model.bin"
    path.write_bytes(assemble())
    other = read(path.read_bytes())
    assert other is not None
    check(other, texts, None, path, block)


@pytest.mark.parametrize("slots", [1, 16])
def test_words_that_take_each_others_slots(known: LabelledModel, slots: int) -> None:
    """A table of words that is too small for a text changes no score."""
    small = known._replace(tables=[on_lines(slots, NARROW, np.uint64)])
    check(small, [*LONG, *PLANTED], None)
    check(small, LONG, 777, block=128)


def test_a_long_text_takes_no_memory_of_its_length(known: LabelledModel) -> None:
    texts = utf8_buffers(pa.array(["The mill by the river. " * 100_000, "x" * 1_000_000]))
    tracemalloc.start()
    predict(*texts, known.model, characters=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20  # of them 8 MB for the table of words


def test_204_languages(known: LabelledModel, data: Path) -> None:
    texts = []
    for path in sorted((data / "D_langid/flores200_devtest").rglob("*.devtest")):
        if path.is_file():
            texts += path.read_text("utf-8", "replace").split("\n")[:15]
    assert len(texts) > 2000
    check(known, texts)


def test_pieces_of_novels(known: LabelledModel, data: Path) -> None:
    pick = random.Random(1)
    texts = []
    for path in sorted((data / "I_prose").rglob("*"))[:150]:
        if path.is_file() and path.suffix in (".txt", ".xml"):
            text = path.read_text("utf-8", "replace")
            texts += [
                text[start : start + 1500]
                for start in (pick.randrange(len(text)) for _ in range(8))
            ]
    assert len(texts) > 500
    check(known, texts)


def test_a_plain_model(tmp_path: Path) -> None:
    """What lid.176.bin is: not quantised, not pruned.

    The file itself is too large to be had here.
    """
    path = tmp_path / "plain.bin"
    lengths = ((1, 6), (0, 3), (-3, 3), (3, 3), (5, 8), (2, 8), (6, 5))
    for shape in (
        {},
        *(
            {"dimension": 13, "buckets": 77, "shortest": low, "longest": high}
            for low, high in lengths
        ),
    ):
        path.write_bytes(assemble(**shape))
        known = read(path.read_bytes())
        assert known is not None
        assert known.labels == [label.removeprefix("__label__") for label in LABELS]
        check(
            known,
            [
                *PLANTED,
                "The mill by the river",
                "hello Mühle x 日本語 y",
                "__label__eng_Latn hello",
                "riverbed riverbeds",
                "riverbe riverbed's riverbed's-edge riverbed's-edgy riverbed's-edges",
                "x" * 64 + " x",
                " " * 63 + "mill é the",
            ],
            path=path,
        )


def test_other_models_are_left_to_the_library(tmp_path: Path) -> None:
    data = packaged().read_bytes()
    other = bytearray(data)
    other[8 + 4 * 5 : 8 + 4 * 6] = (2).to_bytes(4, "little")  # wordNgrams = 2
    assert read(bytes(other)) is None
    path = tmp_path / "model.bin"
    for change in (
        {"word_ngrams": 2},
        {"version": 11},
        {"longest": 9},
        {"shortest": 1, "longest": 8},
    ):
        path.write_bytes(assemble(**change))
        assert read(path.read_bytes()) is None
        assert library.load_model(str(path)).predict("hello the mill")[0]


def check_bag(path: Path, texts: list[str]) -> None:
    """Each label's probability is the library's own float32."""
    data = path.read_bytes()
    known, model = read(data), library.load_model(str(path))
    assert known is not None
    check(known, texts, None, path)
    check(known, texts, None, path, block=40)
    assert known.labels == read_labels(data)
    # The library takes lone NULs and the like for white space as well; of a newline it would see
    # one line.
    told = [
        dict(zip(*model.predict(text.replace("\n", " "), k=len(known.labels)), strict=True))
        for text in texts
    ]
    for place, label in enumerate(known.labels):
        _, scores = predict(*utf8_buffers(pa.array(texts, pa.string())), known.model, label=place)
        assert scores.dtype == np.float32
        for text, score, shares in zip(texts, scores, told, strict=True):
            assert np.float32(shares["__label__" + label]) == score, text[:80]


@pytest.mark.parametrize("shape", BAGS, ids=str)
def test_a_bag_of_words(shape: dict[str, int], tmp_path: Path) -> None:
    """DCLM's kind: words and word n-grams, a softmax, nothing quantised."""
    path = tmp_path / "bag.bin"
    path.write_bytes(assemble(**shape))
    words = " ".join(WORDS[1:])
    check_bag(
        path,
        [
            *PLANTED,
            "The mill by the river",
            "hello Mühle x 日本語 y",
            "__label__eng_Latn hello",
            words,
            f"{words}\n{words}",
            words * 300,
            "the the the",
            "the",
            "riverbe riverbed's-edgies",
            "é" * 70,
            " " * 63 + "mill é the",
            "</s>",
            "the </s>",
        ],
    )


@settings(max_examples=80, deadline=None)
@given(
    batches(),
    st.lists(st.lists(st.sampled_from([*WORDS, "__label__x", "unheard"]), max_size=12), max_size=4),
)
def test_a_bag_of_all_of_unicode(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], more: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("bag") / "bag.bin"
    path.write_bytes(assemble(**BAGS[1]))
    check_bag(path, [*texts, *map(" ".join, more)])


def test_the_exponential_is_a_doubles(tmp_path: Path) -> None:
    """Of these texts an exponential in float32 differs in its last bit."""
    path = tmp_path / "bag.bin"
    path.write_bytes(assemble(**BAGS[1]))
    check_bag(path, ["१२•", "๋ᧄ", "˂ᮅ∓", "᱇⎬❑ᘙ ", "ԟಾ", *map(chr, range(0x3400, 0x3C00))])


@pytest.mark.parametrize("change", [{"loss": 2}, {"loss": 4}, {"loss": 3, "longest": 5}])
def test_a_score_of_each_label(tmp_path: Path, change: dict[str, int]) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(assemble(**change))
    check_bag(path, PLANTED)
    path.write_bytes(assemble(**(BAGS[1] | change | {"longest": 0})))
    check_bag(path, [*PLANTED, "the mill and the river"])


def test_a_tree_over_words(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(assemble(**(BAGS[1] | {"loss": 1})))
    known = read(path.read_bytes())
    assert known is not None
    check(known, [*PLANTED, *LONG], None, path)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 420), st.integers(0, 255)), min_size=1, max_size=4))
def test_wild_bytes_of_a_bag(changes: list[tuple[int, int]]) -> None:
    data = bytearray(assemble(**BAGS[1]))
    for place, byte in changes:
        data[place] = byte
    try:
        found = read(bytes(data))
    except ValueError:
        return
    if found is not None:
        predict(*utf8_buffers(pa.array(PLANTED[:12])), found.model)


REFUSED = (
    (b"", "cut short"),
    (b"no model", "does not start"),
    (assemble(version=13), "version is 13"),
    (assemble(kind=1), "not trained"),
    (assemble(loss=9), "loss 9"),
    (assemble(buckets=0, longest=0, word_ngrams=3), "no buckets"),
    (assemble(longest=65), "65 char"),
    (assemble(pruned=0), "another size|not quantised"),
    (assemble(width=17), "another size"),
    (assemble()[:-1], "cut short"),
    (assemble(pruned=1 << 50), "impossible size"),
    (assemble()[:40], "cut short"),
)


@pytest.mark.parametrize(("data", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_no_model_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(data)


def test_every_cut_is_found(known: LabelledModel) -> None:
    data = packaged().read_bytes()
    for size in (7, 8, 50, 80, 1000, 100_000, len(data) - 1):
        with pytest.raises(ValueError, match="cut short|no end|impossible"):
            read(data[:size])


@settings(max_examples=150, deadline=None)
@example([(47, 128)])  # n-grams of at least -2**31 characters: the library finds none
@given(st.lists(st.tuples(st.integers(0, 420), st.integers(0, 255)), min_size=1, max_size=4))
def test_wild_bytes_are_refused_or_read(changes: list[tuple[int, int]]) -> None:
    """Of a model whose head is damaged either something is wrong, or the kernel's tables hold
    together.
    """
    data = bytearray(assemble())
    for place, byte in changes:
        data[place] = byte
    try:
        found = read(bytes(data))
    except ValueError:
        return
    if found is not None:
        predict(*utf8_buffers(pa.array(PLANTED[:12])), found.model, characters=50)


def test_wild_bytes_of_a_quantised_model() -> None:
    data = packaged().read_bytes()
    pick = random.Random(3)
    refused = 0
    for _ in range(12):
        wild = bytearray(data)
        wild[pick.randrange(8, 110)] = pick.randrange(256)
        try:
            read(bytes(wild))
        except ValueError:
            refused += 1
    assert refused > 2


FLAT = [  # what scores every label: GlotLID's and OpenLID's kind first
    {"loss": 3, "longest": 5, "dimension": 256},
    {"loss": 3, "longest": 5, "dimension": 64, "labels": 700},
    {"loss": 4, "dimension": 213, "labels": 130},
    {"loss": 2, "dimension": 3, "buckets": 77},
    {"loss": 3, "shortest": 1, "longest": 7, "dimension": 40},
]


@pytest.mark.parametrize("change", FLAT)
def test_models_that_score_every_label(tmp_path: Path, change: dict[str, int]) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(assemble(**change))
    known = read(path.read_bytes())
    assert known is not None and len(known.model.left) == 0
    for characters, block in ((None, 40), (None, BLOCK), (77, 40)):
        check(known, [*LONG, *PLANTED], characters, path, block)


@settings(max_examples=40, deadline=None)
@given(batches())
def test_all_of_unicode_and_every_label(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "every_label.bin"
    if not path.exists():
        path.write_bytes(assemble(**FLAT[0]))
    known = read(path.read_bytes())
    assert known
    check(known, texts, None, path)


def test_a_flat_model_stays_in_its_file(tmp_path: Path) -> None:
    """No byte is copied: workers share the pages of the file."""
    path = tmp_path / "model.bin"
    path.write_bytes(assemble(**FLAT[0]))
    with path.open("rb") as file:
        data = mapped(file)
    known = read(data)
    assert known
    assert np.shares_memory(known.model.matrix, np.frombuffer(data, np.uint8))


def plant(data: bytes, value: float, *, all_rows: bool) -> bytes:
    """A model with a weight, or all weights of its words and n-grams, that is no number."""
    if not all_rows:
        return data[:-4] + np.array([value], "<f4").tobytes()
    plain = fasttext_format.walk(data).plain
    assert plain is not None
    start = data.index(plain.tobytes())
    count = len(plain) // 4
    return data[:start] + np.full(count, value, "<f4").tobytes() + data[start + len(plain) :]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("changes", [{}, {"loss": 3}, BAGS[0]])
def test_weights_that_are_no_numbers_are_refused(value: float, changes: dict) -> None:
    for all_rows in (False, True):
        bad = plant(assemble(**changes), value, all_rows=all_rows)
        for reader in (read, read_labels):
            with pytest.raises(ValueError, match="its weights hold NaN or infinity"):
                reader(bad)


@pytest.mark.parametrize("changes", [{}, {"loss": 3}, {"word_ngrams": 2}, BAGS[0]])
def test_a_score_that_is_no_number_names_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    """Tables too large to be looked at when they are read."""
    data = plant(assemble(**changes), np.nan, all_rows=True)
    monkeypatch.setattr(fasttext_format, "SCANNED", 0)
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    given = Input("model.bin", str(path), f"{len(changes)}" * 64)
    batch = pa.RecordBatch.from_pydict({"text": [" ".join(WORDS)]})
    label = LABELS[0].removeprefix("__label__")
    steps: list[Any] = [
        Classifier(model="m", label=label, min_score=0.5),
        Language(model="m", keep=["eng"]),
    ]
    for step in steps:
        with pytest.raises(RecipeError, match=f"{step.name}.model.*(is no number|Encountered NaN)"):
            step.load({"m": given})(batch)
