"""Codes of languages: what `keep` means in a model's labels."""

import pytest

from gristmill.filters.language import codes

SCRIPTED = ["eng_Latn", "srp_Cyrl", "srp_Latn", "cmn_Hani", "yue_Hani", "arb_Arab", "ekk_Latn"]
PLAIN = ["en", "sr", "zh", "ar", "et", "ceb"]


@pytest.mark.parametrize(
    ("wanted", "labels"),
    [
        ("en", ["eng_Latn", "en"]),
        ("eng", ["eng_Latn", "en"]),
        ("eng_Latn", ["eng_Latn"]),
        ("sr", ["srp_Cyrl", "srp_Latn", "sr"]),
        ("sr_Latn", ["srp_Latn"]),
        ("srp_Cyrl", ["srp_Cyrl"]),
        ("zh", ["cmn_Hani", "yue_Hani", "zh"]),
        ("cmn", ["cmn_Hani"]),
        ("ar", ["arb_Arab", "ar"]),
        ("et", ["ekk_Latn", "et"]),
        ("ceb", ["ceb"]),
        ("ms", []),
    ],
)
def test_what_a_code_means(wanted: str, labels: list[str]) -> None:
    assert [label for label in (*SCRIPTED, *PLAIN) if codes.means(wanted, label)] == labels


def test_a_label_that_is_spelt_so_comes_first() -> None:
    assert codes.place("yue_Hani", ["zh", "yue_Hani"]) == 1
    assert codes.place("cmn_Hani", ["zh", "yue_Hani"]) == 0
    assert codes.place("fra_Latn", ["zh", "yue_Hani"]) is None


@pytest.mark.parametrize(
    ("wanted", "labels", "why"),
    [
        ("eng_Latn", PLAIN, "name no script: write 'en'"),
        ("cmn", PLAIN, "'cmn' is none of the model's 6 labels: zh"),
        ("eng_Ltan", SCRIPTED, "none of the model's 7 labels: eng_Latn"),
        ("english", PLAIN, "none of the model's 6 labels: en, sr"),
        ("", SCRIPTED, "none of"),
    ],
)
def test_a_code_that_means_no_label(wanted: str, labels: list[str], why: str) -> None:
    assert why in (codes.unknown([wanted], labels) or "")
    assert codes.unknown(labels, labels) is None
