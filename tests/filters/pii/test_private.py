"""Redaction as a step: what is put, counts, phone numbers, twice is once, bad parameters, names by
a model, labelled sets.
"""

import gzip
import json
import re
import shutil
import subprocess
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import RecipeError, run, verify
from gristmill.filters.api.step import Input
from gristmill.filters.pii import names, phone_numbers, phones
from gristmill.filters.pii.private import DEFAULT, LISTS, Private
from tests.support import strategies
from tests.support.corpora import article, jsonl
from tests.support.pii import PIECES, THEIR_IP, THEIR_MAIL, is_global
from tests.support.redaction import INPUTS, KINDS, labelled, ready, redact


def spans_of(texts: list[str]) -> list[tuple[str, str, str]]:
    """What the step finds in texts: its kind, the 20 characters before it, and itself."""
    find, _ = Private()._finder(INPUTS)
    return [
        (kind, text[max(0, a - 20) : a], text[a:b]) for text in texts for kind, a, b in find(text)
    ]


TEXT = (
    "Zoë <a@b.org> +1 415 555 2671, 078-05-1120; 130.89.148.77 4111 1111 1111 1111 "
    "GB82WEST12345698765432 c@d.org"
)


def test_placeholders_and_counts() -> None:
    texts, counts = redact([TEXT, "nothing here", ""])
    assert texts == ["Zoë <<EMAIL>> <PHONE>, <SSN>; <IP> <CARD> <IBAN> <EMAIL>", "nothing here", ""]
    assert counts[0] == {"emails": 2, "phones": 1, "ssns": 1, "ips": 1, "cards": 1, "ibans": 1}
    assert set(counts[1].values()) == set(counts[2].values()) == {0}
    assert redact([TEXT], placeholder="[redacted]")[0][0].count("[redacted]") == 7
    texts, counts = redact([TEXT], kinds=["ssn"])
    assert texts == [TEXT.replace("078-05-1120", "<SSN>")]
    assert counts == [{"ssns": 1}]
    assert redact([])[0] == []


def test_lists_are_dealt_by_the_document_alone() -> None:
    text = " ".join([f"u{n}@foo.org 130.89.148.{n}" for n in range(8)])
    mails, ips = LISTS["email"], LISTS["ip"]
    expected = " ".join(f"{mails[n % 2]} {ips[n % 6]}" for n in range(8))
    kinds = ["email", "ip"]
    for rules in ("gristmill", "datatrove"):
        for batch in ([text, "x", text], [text]):
            found, _ = redact(batch, kinds=kinds, placeholder="datatrove", rules=rules)
            assert [row for row in found if row != "x"] == [expected] * (len(batch) // 2 + 1)
        assert redact([expected], kinds=kinds, placeholder="datatrove", rules=rules)[0] == [
            expected
        ]
    assert redact([TEXT], placeholder="datatrove")[0][0].endswith(
        f"{ips[0]} <CARD> <IBAN> {mails[1]}"
    )


def formatted(text: str) -> str:
    """datatrove's PIIFormatter 0.10.1 on one document, its counters at the start."""
    for kind, pattern, wanted in (
        ("email", THEIR_MAIL, lambda _: True),
        ("ip", THEIR_IP, is_global),
    ):
        turn = iter(LISTS[kind] * (len(text) + 1))

        def replace(match: re.Match[str], turn: Iterator[str] = turn, wanted: Any = wanted) -> str:
            return next(turn) if wanted(match[0]) else match[0]

        text = pattern.sub(replace, text)
    return text


@strategies.fuzz(200)
@given(
    st.lists(
        st.one_of(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), strategies.texts()),
        max_size=4,
    )
)
def test_fuzz_as_datatrove(texts: list[str]) -> None:
    found, _ = redact(texts, kinds=["email", "ip"], placeholder="datatrove", rules="datatrove")
    assert found == [formatted(text) for text in texts]


@strategies.fuzz(200)
@given(
    st.lists(st.sampled_from(PIECES), max_size=24).map("".join),
    st.sampled_from(([], ["US"], ["DE", "GB", "US"])),
    st.sampled_from(("typed", "[gone]")),
)
def test_fuzz_twice_is_once(text: str, regions: list[str], placeholder: str) -> None:
    once, _ = redact([text], regions=regions, placeholder=placeholder)
    assert redact(once, regions=regions, placeholder=placeholder)[0] == once


def test_finds_that_touch_go_in_one_run() -> None:
    texts = ["2a00::1.2.3.4(415) 555-2671", "nothing", "a@b.org", "2a00::1.2.3.43.51.98.32"]
    found, counts = redact(texts, regions=["US"])
    # The last has no number behind it: nobody writes `3.51.98.32` so in the United States.
    assert found == ["<IP><PHONE>", "nothing", "<EMAIL>", texts[3]]
    assert [(row["ips"], row["phones"], row["emails"]) for row in counts] == [
        (1, 1, 0),
        (0, 0, 0),
        (0, 0, 1),
        (0, 0, 0),
    ]
    assert redact(["2006::378282246310005"], addresses="all")[0] == ["<IP><CARD>"]


NUMBERS = {
    "call +1 415-555-2671 now": "call <PHONE> now",
    "+46 (0)8 928 571 38, +447700 208 815-Fax": "<PHONE>, <PHONE>-Fax",
    "+1-944-435-4352x04732.": "<PHONE>.",
    "+49 30 901820 12 people": "<PHONE> people",  # 11 digits are as possible as 9
    "415 555 2671, C++11, +2, +123 4567, 5+14155552671, a+14155552671": (
        "415 555 2671, C++11, +2, +123 4567, 5+14155552671, a+14155552671"
    ),
    (
        "(6.2+20210905-1) np.arange(6) + 98172489; x[0]+98172489 + 98172489*uk_3; + "
        "11-636512-fix.patch 0.182 +20210205-1"
    ): None,
    "format(+10011010010) +1 041 555 2671 +44 20 7946*x": None,
    "tel:+31-641044153 (+1 201 555 0123) Tel + 49 30 901820": "tel:<PHONE> (<PHONE>) Tel <PHONE>",
    "+999 415 555 2671 +35236450.6": "+999 415 555 2671 +35236450.6",
    "+14155552671+14155552672": "<PHONE><PHONE>",
}


def test_addresses_of_all_scripts_are_redacted_whole() -> None:
    texts = [
        "pat.o'neil@mill.org, jürgen.müller@mühle.de",
        "иван@пример.рф или ivan@xn--e1afmkfd.xn--p1ai",
        "用户@例子.中国",
        "אבי@דוגמה.ישראל",
    ]
    redacted = ["<EMAIL>, <EMAIL>", "<EMAIL> или <EMAIL>", "<EMAIL>", "<EMAIL>"]
    assert redact(texts, kinds=["email"])[0] == redacted


def test_phone_numbers() -> None:
    expected = {text: text if found is None else found for text, found in NUMBERS.items()}
    assert dict(zip(NUMBERS, redact(list(NUMBERS))[0], strict=True)) == expected
    texts = [
        "(415) 555-2671 or 415.555.2671",
        "4155552671 2015-12-22 04:00 1234567.8901 04/05/2015 1234",
        "020 7946 0958",
    ]
    assert redact(texts, regions=["US"])[0] == ["<PHONE> or <PHONE>", *texts[1:]]
    assert redact(texts[2:], regions=["GB"])[0] == ["<PHONE>"]
    assert redact(texts, regions=["GB", "US"])[0] == ["<PHONE> or <PHONE>", texts[1], "<PHONE>"]
    others = (
        "2004-2005; 105  133  161; 192.168.0.1; 17151 2450 Crown St; 6/24/1991; 90010-170; on "
        "12.05.2011 1234; (3221225477 bytes"
    )
    everywhere = ["US", "GB", "DE", "FR", "IL", "IN", "CA", "BR"]
    grouped = [
        "Soc. 12, 226-231. 1996",
        "360-90-90-140",
        "2016-11/21/10",
        "415-55-52-671 and 41-5555-2671",
        "544173/554173, 2024/2025, 6304/6442/7659",
    ]
    assert redact(grouped, regions=["US", "DE"])[0] == grouped
    assert redact(
        ["415/555-2671, 1-415-555-2671; 0171 123 4567, 0171/1234567"], regions=["US", "DE"]
    )[0] == ["<PHONE>, <PHONE>; <PHONE>, <PHONE>"]
    assert redact([others], regions=everywhere)[0] == [others]
    assert redact(["030 901820, 01 42 68 53 00"], regions=everywhere)[0] == ["<PHONE>, <PHONE>"]
    with pytest.raises(RecipeError, match="no region 'XX'"):
        redact([""], regions=["US", "XX"])


LABORATORY = {
    "email": "|||EMAIL_ADDRESS|||",
    "phone": "|||PHONE_NUMBER|||",
    "ip": "|||IP_ADDRESS|||",
}


def test_ones_own_placeholder_for_a_kind() -> None:
    """Stanford's CS 336 masks so; what is masked already stays."""
    text = "|||EMAIL_ADDRESS||| stays; test@gmail.com|test@gmail.com, 130.89.148.77 078-05-1120"
    (once,), counts = redact([text], placeholders=LABORATORY)
    assert (
        once == "|||EMAIL_ADDRESS||| stays; |||EMAIL_ADDRESS||||"
        "|||EMAIL_ADDRESS|||, |||IP_ADDRESS||| <SSN>"
    )
    assert counts[0]["emails"] == 2
    assert redact([once], placeholders=LABORATORY)[0] == [once]
    mixed, _ = redact(
        ["a@b.org 65.9.77.2 c@d.org"], placeholder="datatrove", placeholders={"email": "{MAIL}"}
    )
    assert mixed == [f"{{MAIL}} {LISTS['ip'][0]} {{MAIL}}"]
    assert redact(["a@b.org 65.9.77.2"], placeholder="[gone]", placeholders={"ip": "<<IP>>"})[
        0
    ] == ["[gone] <<IP>>"]


@strategies.fuzz(100)
@given(st.lists(st.sampled_from([*PIECES, *LABORATORY.values()]), max_size=24).map("".join))
def test_fuzz_ones_own_twice_is_once(text: str) -> None:
    for table in ({"placeholders": LABORATORY}, {"placeholders": LABORATORY, "addresses": "all"}):
        once, _ = redact([text], **table)
        assert redact(once, **table)[0] == once


def test_all_addresses() -> None:
    """Reserved, of examples, or of four numbers: whatever has the form."""
    texts = [
        "x@example.com 192.0.2.146 10.0.0.1 8.8.8.8 V8 4.6.85.28",
        "git@github.com:a/b 2001:db8::1 127.0.0.1",
        "1.2.3.4.5 1.02.3.4 1.2.3.256",
    ]
    assert redact(texts)[0] == texts
    found, _ = redact(texts, addresses="all")
    assert found == ["<EMAIL> <IP> <IP> <IP> V8 <IP>", "<EMAIL>:a/b <IP> <IP>", texts[2]]


def test_possible_numbers() -> None:
    """Ten digits, however they stand, are a number of the United States; terms, lists, fractions
    and longer numbers are not.
    """
    forms = [
        "2831823829",
        "(283)-182-3829",
        "(283) 182-3829",
        "(283) 182 3829",
        "283-182-3829",
        "283.182.3829",
        "1 283 182 3829",
    ]
    table = {
        "regions": ["US"],
        "phone_check": "possible",
        "placeholders": {"phone": "|||PHONE_NUMBER|||"},
    }
    texts = [f"Feel free to contact me at {form} if you have any questions." for form in forms]
    assert redact(texts, **table)[0] == [
        "Feel free to contact me at |||PHONE_NUMBER||| if you have any questions."
    ] * len(forms)
    others = (
        "12831823829123 0.2831823829 2831823829.5 0x2831823829 x * 2831823829, 2831823829*x, 5 + "
        "2831823829 [1, 2831823829, 5] id2831823829"
    )
    assert redact([others], **table)[0] == [others]
    assert redact([f"{forms[0]} {forms[4]}, {forms[1]}/{forms[0]}"], **table)[0] == [
        "X X, X/X".replace("X", "|||PHONE_NUMBER|||")
    ]
    assert redact(texts, regions=["US"])[0] == texts


def test_what_is_tried_is_bounded() -> None:
    """A candidate has at most nine ends, and each is asked about once."""
    asked: list[str] = []

    def never(text: str) -> bool:
        asked.append(text)
        return False

    text = "+1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 x"
    assert not [*phone_numbers.find(text, phones.PLUS, never, never)]
    assert len(asked) == 9


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"placeholders": {"email": "x@y.org"}}, "placeholders.email"),
        ({"placeholders": {"ip": ""}}, "brackets"),
        ({"placeholders": {"ip": "[a\nb]"}}, "brackets"),
        ({"placeholders": {"ip": "|||" + "x" * 65 + "|||"}}, "brackets"),
        ({"placeholders": {"face": "[x]"}}, "face"),
        ({"placeholders": {"name": "[x]"}}, "needs `names`"),
        ({"placeholders": {"ip": "[x]"}, "kinds": ["email"]}, "`kinds` has not"),
        ({"addresses": "some"}, "some"),
        ({"addresses": "all", "rules": "datatrove", "kinds": ["ip"]}, "gristmill"),
        ({"phone_check": "possible"}, "regions"),
        ({"placeholder": "x@y.org"}, "brackets"),
        ({"placeholder": ""}, "brackets"),
        ({"placeholder": "<a1>"}, "brackets"),
        ({"kinds": []}, "length"),
        ({"kinds": ["face"]}, "face"),
        ({"rules": "datatrove"}, "alone"),
        ({"kinds": ["ip"], "regions": ["US"]}, "phone"),
        ({"kind": ["ip"]}, "kind"),
    ],
)
def test_bad_parameters(table: dict, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(table, Private)


def test_a_whole_run(tmp_path: Path) -> None:
    rows = [
        {"url": f"https://x.example/{n}", "text": f"{article(n)} mail u{n}@debian.org"}
        for n in range(5)
    ]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    (tmp_path / "recipe.toml").write_text(
        '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[[step]]\nuse = "private"\n'
    )
    corpus = tmp_path / "corpus"
    assert run(tmp_path / "recipe.toml", out=corpus, workers=1).table["kept"] == 5
    verify(corpus)
    import pyarrow.parquet as pq

    texts = pq.read_table(corpus / "documents/00000.parquet")["text"].to_pylist()
    assert all(text.endswith("mail <EMAIL>") for text in texts)
    assert pq.read_table(corpus / "measures/00000.parquet")["private.emails"].to_pylist() == [1] * 5
    inputs = json.loads((corpus / "manifest.json").read_bytes())["inputs"]
    assert inputs["private.phonenumbers"]["name"].startswith("phonenumbers ")


# --- labelled sets ---


def test_recall_and_precision_on_the_labelled_set(data: Path) -> None:
    """What is labelled goes, whole; what goes is labelled. Floors are of what docs/private.md
    reports.
    """
    floors = {"email": 1.0, "ssn": 1.0, "iban": 1.0, "ip": 0.92, "card": 0.91}
    for kind, floor in floors.items():
        texts, spans = labelled(data, "presidio_synth_dataset_v2.json")
        wanted, gone, counted = 0, 0, 0
        for text, row, (found, count) in zip(
            texts, spans, map(zip_one, *redact(texts, kinds=[kind])), strict=True
        ):
            values = [text[a:b] for label, a, b in row if KINDS.get(label) == kind]
            wanted += len(values)
            gone += sum(value not in found for value in values)
            counted += count[f"{kind}s"]
        assert gone >= floor * wanted, kind
        assert counted == gone, kind  # nothing else was found


def zip_one(text: str, count: dict[str, int]) -> tuple[str, dict[str, int]]:
    return text, count


def test_the_addresses_of_changelogs(data: Path) -> None:
    """All 909 addresses in signature lines go, each whole."""
    rows = [
        json.loads(line)
        for line in (data / "F_pii/debian_changelogs.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    found, counts = redact([row["text"] for row in rows], kinds=["email"])
    addresses = [value for row in rows for _, value, *_ in row["trailer_emails"]]
    assert len(addresses) == 909
    for row, text, count in zip(rows, found, counts, strict=True):
        assert count["emails"] >= len(row["trailer_emails"])
        left = [value for _, value, *_ in row["trailer_emails"] if value in text]
        assert left == []


# --- code and documentation ---

VERSIONED = re.compile(
    r"(?:\bv[0-9]*|\boid|identifier|version|release|(?:bump|upgraded?|updated?) to|requires?"
    r"|proto|libx[a-z]+|section)[ (:\"']*\Z",
    re.IGNORECASE,
)
NUMBERS_THERE = {"+31-641044153", "+31641044153", "+1-201-555-0123"}  # of test_urlparse.py


def check_tree(texts: list[str]) -> dict[str, int]:
    """No phone number but what a test has as one, no card, no account of a code host, no version as
    an address; the counts by kind.
    """
    counts = dict.fromkeys(DEFAULT, 0)
    for kind, context, value in spans_of(texts):
        counts[kind] += 1
        assert kind not in ("card", "iban", "ssn"), (context, value)
        assert kind != "phone" or value in NUMBERS_THERE, (context, value)
        assert kind != "ip" or not VERSIONED.search(context), (context, value)
        assert not value.startswith("git@git"), (context, value)
    return counts


def test_the_source_of_python_and_numpy() -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = [
        *sorted((library / "test").glob("*.py")),
        *sorted(library.glob("*.py")),
        *sorted(Path(np.__file__).parent.rglob("*.py")),
    ]
    texts = [path.read_bytes().decode("utf-8", "replace") for path in paths]
    assert len(texts) > 200
    check_tree(texts)


def test_debian_documentation(data: Path) -> None:
    """Pages of Debian's archive with four numbers and dots, without their tags: a third of today's
    finds and more were sections' numbers.
    """
    texts = []
    with (
        subprocess.Popen(
            ["zstd", "-dcq", data / "J_debian_docs/html.tar.zst"], stdout=subprocess.PIPE
        ) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            page = archive.extractfile(member).read() if member.isfile() else b""
            if re.search(rb"[0-9]\.[0-9]+\.[0-9]+\.[0-9]", page):
                texts.append(re.sub(r"<[^>]*>", "", page.decode("utf-8", "replace")))
    counts = check_tree(texts)
    assert counts["ip"] > 300  # in the handbooks' examples


def test_debian_changelogs() -> None:
    """What is installed here: ncurses has dates as versions, X's libraries and nodejs have versions
    of four numbers.
    """
    paths = [
        path
        for name in ("ncurses-base", "libx11-data", "libxi6", "nodejs", "kmod")
        for path in Path("/usr/share/doc", name).rglob("*.gz")
    ]
    if not paths:
        pytest.skip("none of these packages' documentation is installed")
    check_tree([gzip.decompress(path.read_bytes()).decode("utf-8", "replace") for path in paths])


# --- names, by a model that a part of the set trains ---


def _train(
    folder: Path, texts: list[str], spans: list[list[tuple[str, int, int]]], rounds: int
) -> Path:
    """A small pipeline that finds PERSON, as a .zip."""
    import spacy
    from spacy.training import Example

    pipeline = spacy.blank("en")
    pipeline.add_pipe("ner").add_label("PERSON")
    examples = []
    for text, row in zip(texts, spans, strict=True):
        doc = pipeline.make_doc(text)
        found = [
            doc.char_span(a, b, "PERSON", alignment_mode="expand")
            for label, a, b in row
            if label == "PERSON"
        ]
        reference = doc.copy()
        reference.set_ents(spacy.util.filter_spans([span for span in found if span]))
        examples.append(Example(doc, reference))
    spacy.util.fix_random_seed(1)
    optimizer = pipeline.initialize(lambda: examples)
    for _ in range(rounds):
        for batch in spacy.util.minibatch(examples, 32):
            pipeline.update(batch, sgd=optimizer, drop=0.1)
    pipeline.to_disk(folder / "pipeline")
    return Path(shutil.make_archive(str(folder / "names"), "zip", folder / "pipeline"))


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("spacy")
    texts, spans = labelled(data, "presidio_synth_dataset_v2.json")
    return _train(tmp_path_factory.mktemp("names"), texts[:200], spans[:200], 6)


def named(archive: Path) -> dict:
    return {
        "inputs": {**INPUTS, str(archive): Input(archive.name, str(archive), "")},
        "names": {"model": str(archive)},
    }


def found_by(
    archive: Path, texts: list[str], spans: list[list[tuple[str, int, int]]]
) -> tuple[int, int, int]:
    """Labelled names, those of them that went whole, and all that went."""
    found, counts = redact(texts, **named(archive))
    told = sum(count["names"] for count in counts)
    assert told == sum(row.count("<NAME>") for row in found)
    assert redact(texts, **named(archive)) == (found, counts)
    people = [
        (text[a:b], row)
        for text, labels, row in zip(texts, spans, found, strict=True)
        for label, a, b in labels
        if label == "PERSON"
    ]
    return len(people), sum(value not in row for value, row in people), told


def test_names_by_a_tiny_model(data: Path, trained: Path) -> None:
    """200 texts teach little; what it finds is what is put, twice the same, and a text of any
    length is read.
    """
    texts, spans = labelled(data, "presidio_synth_dataset_v2.json")
    people, gone, told = found_by(trained, texts[1400:], spans[1400:])
    assert 0 < gone <= people
    assert told >= gone // 2
    long = "word " * 10_000 + "My name is Anna Smith."
    assert redact([long], **named(trained))[0][0].startswith("word " * 100)
    placed = redact([TEXT], placeholder="[gone]", **named(trained))[0][0]
    assert placed.count("[gone]") >= 7
    assert "<" not in placed.replace("<[gone]>", "")


@pytest.mark.soak
def test_names_by_a_small_model(data: Path, tmp_path: Path) -> None:
    """Trained on two thirds of the set, asked about the last third: docs/private.md has the
    figures.
    """
    pytest.importorskip("spacy")
    texts, spans = labelled(data, "presidio_synth_dataset_v2.json")
    archive = _train(tmp_path, texts[:1000], spans[:1000], 8)
    people, gone, told = found_by(archive, texts[1000:], spans[1000:])
    print(f"names: {people} labelled, {gone} of them gone, {told} found")
    assert gone >= 0.7 * people
    assert gone >= 0.7 * told


def test_a_model_that_may_not_be_loaded(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(name: str, config=None, more: str | None = None) -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(trained) as old, zipfile.ZipFile(path, "w") as new:
            for member in old.infolist():
                content = old.read(member)
                if config and member.filename == "config.cfg":
                    content = config(content.decode()).encode()
                new.writestr(member, content)
            if more:
                new.writestr(more, b"x")
        return path

    for path, message in (
        (changed("a.zip", more="../out.txt"), "outside"),
        (changed("b.zip", more="model.pkl"), "code"),
        (
            changed("c.zip", lambda text: text.replace("spacy.HashEmbedCNN.v2", "mine.Run.v1")),
            "expected one of spaCy's own layers",
        ),
        (
            changed(
                "d.zip",
                lambda text: text.replace("spacy.HashEmbedCNN.v2", "spacy.TorchBiLSTMEncoder.v1"),
            ),
            "PyTorch",
        ),
        (
            changed(
                "e.zip",
                lambda text: text.replace("spacy.Tokenizer.v1", "spacy.zh.ChineseTokenizer"),
            ),
            "Tokenizer",
        ),
        (
            changed(
                "f.zip",
                lambda text: text.replace(
                    "before_creation = null", 'before_creation = {"@callbacks":"x"}'
                ),
            ),
            "no code is run",
        ),
        (changed("g.zip", lambda text: "no config"), "g.zip is no spaCy pipeline"),
    ):
        with pytest.raises(RecipeError, match=message):
            redact([""], **named(path))
    (tmp_path / "h.zip").write_bytes(b"PK no archive")
    with zipfile.ZipFile(tmp_path / "i.zip", "w") as empty:
        empty.writestr("meta.json", "{}")
    for name in ("h.zip", "i.zip"):
        with pytest.raises(RecipeError, match=f"{name} is no spaCy pipeline"):
            redact([""], **named(tmp_path / name))
    with pytest.raises(RecipeError, match="knows none of"):
        redact(
            [""], inputs=named(trained)["inputs"], names={"model": str(trained), "labels": ["DOG"]}
        )
    ready.cache_clear()
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "spacy", None)
        with pytest.raises(RecipeError, match=r"gristmill\[ner\]"):
            redact([""], **named(trained))


def test_long_texts_are_cut_at_spaces() -> None:
    for text in ("", "a" * 50_000, "ab " * 20_000, "x\n" * 25_000):
        pieces = names._pieces(text)
        assert "".join(text[a:b] for a, b in pieces) == text
        assert all(b - a <= names.PIECE for a, b in pieces)
        assert all(text[b - 1].isspace() for _, b in pieces[:-1]) or " " not in text
