"""The normal form of URLs, and that equal ones are found by it while the documents keep their
own.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, run
from gristmill.dedup.settings import TRACKING
from gristmill.dedup.url_form import normal_form
from gristmill.recipe import parse
from tests.support.corpora import jsonl

SAME = [
    ("http://X.Example", "https://x.example/"),
    ("HTTPS://x.example:443/a", "http://x.example/a"),
    ("http://x.example:80/", "https://x.example:/"),
    ("http://x.example./a#top", "http://x.example/a"),
    ("http://x.example/%c3%a9?q=%2f", "http://x.example/%C3%A9?q=%2F"),
    ("http://x.example/a?utm_source=b&id=1&fbclid=c", "http://x.example/a?id=1"),
    ("http://x.example/a?UTM_Source=b", "http://x.example/a"),
    ("http://M\u00dcNCHEN.example/", "https://xn--mnchen-3ya.example/"),
    (" http://x.example/a\n", "http://x.example/a"),
    ("http://x.example/?", "http://x.example"),
    ("http://me@X.example/", "https://me@x.example/"),
    ("http://[::1]:80/", "https://[::1]/"),
]
OTHERS = [
    ("http://x.example/a", "http://x.example/A"),
    ("http://x.example/a", "http://x.example/a/"),
    ("http://x.example:443/", "http://x.example/"),
    ("http://x.example/?a=1&b=2", "http://x.example/?b=2&a=1"),
    ("http://x.example/?utm=1", "http://x.example/"),
    ("http://x.example/#!a", "http://x.example/#!b"),
    ("http://www.x.example/", "http://x.example/"),
    ("ftp://x.example/", "http://x.example/"),
    ("http://x.example/%C3", "http://x.example/\u00c3"),
    ("http://me@x.example/", "http://x.example/"),
    ("http://stra\u00dfe.example/", "http://strasse.example/"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_page(one: str, other: str) -> None:
    assert normal_form(one, TRACKING) == normal_form(other, TRACKING)
    assert normal_form(normal_form(one, TRACKING), TRACKING) == normal_form(one, TRACKING)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_another_page(one: str, other: str) -> None:
    assert normal_form(one, TRACKING) != normal_form(other, TRACKING)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http:///a",
        "https://:443/",
        "http://.",
        "mailto:a@b.example",
        "no url",
        "//x.example/a",
        "javascript:void(0)",
        "?",
        "\x00",
        "http",
    ],
)
def test_without_a_host_it_is_as_it_is(url: str) -> None:
    assert normal_form(url, TRACKING) == url


def test_hostile_urls() -> None:
    long = "http://x.example/" + "a%" * 500_000 + "?" + "utm_a=1&" * 200_000 + "b=%c"
    assert normal_form(long, TRACKING) == "https://x.example/" + "a%" * 500_000 + "?b=%c"
    assert normal_form("http://x.example/%zz%c", TRACKING) == "https://x.example/%zz%c"
    host = "".join(chr(0x4E00 + number % 20_000) for number in range(300_000))
    assert normal_form(f"http://{host}/", TRACKING) == f"https://{host}/"
    assert normal_form("http://x.example:99999999/", TRACKING) == "https://x.example:99999999/"
    assert normal_form("http://[::1/a", TRACKING) == normal_form(
        normal_form("http://[::1/a", TRACKING), TRACKING
    )
    assert normal_form("http://a b\u202e.example/", ()) == normal_form(
        "HTTP://A b\u202e.example", ()
    )
    assert normal_form("http://x.example/?utm_a=1", ()) == "https://x.example/?utm_a=1"


RECIPE = """
[[source]]
name = "web"
files = ["FILE.jsonl"]
[deduplicate]
url = true
index = true
near = {}
against = [AGAINST]
"""


def test_equal_pages_go_and_keep_their_urls(tmp_path: Path) -> None:
    urls = [
        "http://x.example/a",
        "https://X.example:443/a?utm_source=mail#top",
        "https://x.example/b?id=1",
        "http://x.example/b?fbclid=2&id=1",
        None,
        None,
    ]
    for name, some in (("one", urls), ("two", [urls[1], "http://x.example/c"])):
        rows = [
            {"text": f"{name} has page {number}"} | ({"url": url} if url else {})
            for number, url in enumerate(some)
        ]
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(rows))

    def dropped(name: str, against: str = "", **settings: str) -> list[str | None]:
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(RECIPE.replace("FILE", name).replace("AGAINST", against))
        run(recipe, out=tmp_path / name, workers=1, settings=settings)
        stored = pq.read_table(tmp_path / name / "documents/00000.parquet")["url"].to_pylist()
        assert stored == (urls if name == "one" else [urls[1], "http://x.example/c"])
        return pq.read_table(tmp_path / name / "verdicts/00000.parquet")["reason"].to_pylist()

    same = "deduplicate.same_url"
    assert dropped("one", **{"deduplicate.normal_urls": "false"}) == [None] * 6
    assert dropped("one", **{"deduplicate.tracking": "[]"}) == [None] * 6
    assert dropped("one") == [None, same, None, same, None, None]
    assert dropped("two", '"one"') == [same, None]


@pytest.mark.parametrize("name", ["", "*", "UTM_*", "a*b"])
def test_names_of_parameters_that_cannot_be(name: str) -> None:
    with pytest.raises(RecipeError, match="tracking"):
        parse(
            '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n'
            f'[deduplicate]\ntracking = ["{name}"]\n',
            "recipe.toml",
        )
