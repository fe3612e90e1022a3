"""Steps in whole runs: pages, lists and models by path and URL with pins, filters of one's own,
same URLs, presets.
"""

import gzip
import hashlib
from importlib import metadata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, init, run, verify, why
from gristmill.filters.api import step_inputs
from gristmill.phases.inputs import inputs
from gristmill.phases.inputs.plan import Plan
from gristmill.recipe import PRESETS, for_files, load, packaged, parse
from gristmill.store.manifest import decode
from tests.support.corpora import article, digests, jsonl, pages, record, wet
from tests.support.faults import site


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, "utf-8")
    return path


def html(number: int, paragraphs: str = "") -> bytes:
    body = paragraphs or "".join(f"<p>{line}</p>" for line in article(f"page {number}").split("\n"))
    return (
        "<!doctype html><html lang='en-GB'><head><title>Page  "
        f"{number}</title></head><body><nav><a href=/>home</a> <a href=/x>more</a></nav>"
        "<main><article><h1>Story "
        f"{number}</h1>{body}</article></main><footer>imprint</footer></body></html>"
    ).encode()


def response(
    body: bytes,
    number: int,
    *,
    status: str = "200 OK",
    kind: str = "text/html; charset=utf-8",
    more: str = "",
) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}"
    return record(
        head.encode() + b"\r\n\r\n" + body,
        f"https://pages.example/{number}",
        number,
        kind="response",
    )


def warc(blocks: list[bytes]) -> bytes:
    start = gzip.compress(record(b"software: tests\r\n", None, kind="warcinfo"), mtime=0)
    return start + b"".join(gzip.compress(block, mtime=0) for block in blocks)


PAGES = """
[[source]]
name = "web"
files = ["a.warc.gz"]
[[step]]
use = "extract"
[[step]]
use = "language"
keep = ["en"]
min_score = 0.3
[[step]]
use = "gopher"
rules = "datatrove-0.10"
"""


def test_pages_to_clean_text(tmp_path: Path) -> None:
    blocks = [response(html(number), number) for number in range(12)]
    blocks += [
        response(b"<html><body>gone</body></html>", 100, status="404 Not Found"),
        response(b"%PDF-1.4", 101, kind="application/pdf"),
        response(gzip.compress(html(102)), 102, more="Content-Encoding: gzip\r\n"),
        response(b"\0\1\2\3" * 500, 103),
        response(b"<div>" * 3000 + b"deep" + b"</div>" * 3000, 104),
        response(b"<html><body></body></html>", 105),
        record(b"GET / HTTP/1.1\r\n\r\n", "https://pages.example/0", 106, kind="request"),
    ]
    (tmp_path / "a.warc.gz").write_bytes(warc(blocks))
    corpus = tmp_path / "corpus"
    funnel = run(write(tmp_path, PAGES), out=corpus, workers=1).table
    assert funnel["documents"] == 18
    assert funnel["kept"] == 13
    verify(corpus)

    def fate(number: int) -> dict[str, object]:
        return why(corpus, f"https://pages.example/{number}")[0]

    assert fate(100)["reason"] == "read.http_status"
    assert fate(100)["value"] == 404
    assert fate(101)["reason"] == "read.not_html"
    assert fate(103)["reason"] == "read.binary"
    assert (fate(104)["reason"], fate(104)["threshold"]) == ("extract.too_deep", 1000)
    assert fate(105)["reason"] == "extract.empty"
    assert fate(102)["reason"] is None
    row = pq.read_table(corpus / "documents/00000.parquet").to_pylist()[3]
    assert row["title"] == "Page 3"
    assert row["declared_language"] == "eng"  # the record's own word goes before the page's
    assert row["content_type"] == "text/html"
    assert "Story 3" in row["text"]
    assert "<" not in row["text"]
    assert article("page 3").split("\n")[0] in row["text"]


def test_html_in_jsonl(tmp_path: Path) -> None:
    rows = [{"url": f"https://x.example/{n}", "html": html(n).decode()} for n in range(3)]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    recipe = PAGES.replace("a.warc.gz", "a.jsonl").replace(
        'name = "web"', 'name = "web"\ntext = "html"'
    )
    run(write(tmp_path, recipe), out=tmp_path / "corpus", workers=1)
    rows = pq.read_table(tmp_path / "corpus/documents/00000.parquet").to_pylist()
    assert [row["title"] for row in rows] == ["Page 0", "Page 1", "Page 2"]
    assert rows[0]["declared_language"] == "en"


def test_a_warc_is_read_by_the_small_preset(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(warc([response(html(n), n) for n in range(4)]))
    (tmp_path / "b.warc.wet.gz").write_bytes(
        wet([{"url": "https://w.example/", "text": "2 < 3, <b> is no tag here. " + article(9)}])
    )
    funnel = run(
        [str(tmp_path / "a.warc.gz"), str(tmp_path / "b.warc.wet.gz")],
        out=tmp_path / "corpus",
        workers=1,
    )
    assert funnel.table["kept"] == 5
    text = pq.read_table(tmp_path / "corpus/documents/00001.parquet")["text"].to_pylist()[0]
    assert text.startswith("2 < 3, <b> is no tag here. ")


LISTS = """
[[source]]
name = "web"
files = ["a.jsonl"]
[[step]]
use = "url"
domains = ["LIST"]
"""


def test_a_list_by_path_by_url_and_its_pin(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        jsonl([{"url": f"https://www.{d}.com/x", "text": article(d)} for d in "abc"])
    )
    (tmp_path / "bad.txt").write_text("b.com\n")
    digest = hashlib.sha256(b"b.com\n").hexdigest()
    run(write(tmp_path, LISTS.replace("LIST", "bad.txt")), out=tmp_path / "one", workers=1)
    with site() as here:
        base = here.address
        here.put("/bad.txt?token=s3cret", b"b.com\n")
        here.put("/bad.txt", b"b.com\n")
        location = f"{base}/bad.txt?token=s3cret#sha256={digest}"
        run(
            write(tmp_path, LISTS.replace("LIST", location)),
            out=tmp_path / "two",
            workers=1,
            cache_dir=tmp_path / "cache",
        )
        wrong = LISTS.replace("LIST", f"{base}/bad.txt#sha256={'0' * 64}")
        with pytest.raises(RecipeError, match=f"expected sha256 {'0' * 64}, got {digest}"):
            run(
                write(tmp_path, wrong),
                out=tmp_path / "three",
                workers=1,
                cache_dir=tmp_path / "cache",
            )
    for name in ("one", "two"):
        manifest = decode((tmp_path / name / "manifest.json").read_bytes())
        assert manifest.inputs["url.domains.0"] == {"name": "bad.txt", "sha256": digest}
        assert manifest.funnel["steps"][1]["reasons"] == {"url.domain": 1}
        assert b"s3cret" not in (tmp_path / name / "recipe.toml").read_bytes()
    (tmp_path / "bad.txt").write_text("c.com\na.com\n")
    assert (
        run(
            write(tmp_path, LISTS.replace("LIST", "bad.txt")), out=tmp_path / "one", workers=1
        ).table["kept"]
        == 1
    )


def test_each_sources_own_list_counts(tmp_path: Path) -> None:
    """Two sources with a url step each: a change of either list is a change of the corpus."""
    text = ""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(
            jsonl([{"url": f"https://{d}.com/", "text": article(name + d)} for d in "xyz"])
        )
        (tmp_path / f"{name}.txt").write_text("x.com\n")
        text = f'[[source]]\nname = "{name}"\nfiles = ["{name}.jsonl"]\n{text}'
        text += f'[[step]]\nuse = "url"\nsources = ["{name}"]\ndomains = ["{name}.txt"]\n'
    recipe, corpus = write(tmp_path, text), tmp_path / "corpus"
    assert run(recipe, out=corpus, workers=1).table["kept"] == 4
    named = decode((corpus / "manifest.json").read_bytes()).inputs
    assert {named[name]["name"] for name in named if name.startswith("url.domains")} == {
        "a.txt",
        "b.txt",
    }
    for kept, name in ((3, "a"), (2, "b")):
        (tmp_path / f"{name}.txt").write_text("x.com\ny.com\n")
        assert run(recipe, out=corpus, workers=1).table["kept"] == kept


@pytest.mark.parametrize(
    ("step", "library"),
    [
        ('use = "normalise"\nmojibake = true', "ftfy"),
        ('use = "extract"\nextractor = "trafilatura"', "trafilatura"),
    ],
)
def test_another_version_of_a_library_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, library: str
) -> None:
    pytest.importorskip(library)
    (tmp_path / "a.jsonl").write_bytes(
        jsonl([{"html": html(number).decode()} for number in range(3)])
    )
    text = f'[[source]]\nname = "web"\nfiles = ["a.jsonl"]\ntext = "html"\n[[step]]\n{step}\n'
    recipe, corpus = write(tmp_path, text), tmp_path / "corpus"
    run(recipe, out=corpus, workers=1)
    name = f"{step.split(chr(34))[1]}.{library}"
    assert (
        decode((corpus / "manifest.json").read_bytes()).inputs[name]["name"]
        == f"{library} {metadata.version(library)}"
    )
    state = corpus / "work/state/process/00000.json"
    before = state.read_bytes()
    run(recipe, out=corpus, workers=1)
    assert state.read_bytes() == before
    monkeypatch.setattr(step_inputs.metadata, "version", lambda package: "99.1")
    run(recipe, out=corpus, workers=1)
    assert decode((corpus / "manifest.json").read_bytes()).inputs[name]["name"] == f"{library} 99.1"
    assert state.read_bytes() != before
    with monkeypatch.context() as patch:
        patch.setattr(step_inputs.metadata, "version", absent)
        assert (
            inputs.gather(load(recipe).recipe, tmp_path, None, tmp_path, Plan())[
                f"version:{library}"
            ].name
            == f"{library}, not installed"
        )


def absent(package: str) -> str:
    raise metadata.PackageNotFoundError(package)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.txt", None),
        ("binary", b"\0\1\2" * 99),
        ("page", b"<!doctype html><p>404"),
        ("empty", b""),
    ],
)
def test_a_list_that_is_none(tmp_path: Path, name: str, content: bytes | None) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"url": "https://a.example/", "text": article(1)}]))
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RecipeError, match=name):
        run(write(tmp_path, LISTS.replace("LIST", name)), out=tmp_path / "corpus", workers=1)


def test_a_model_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": article(1)}]))
    (tmp_path / "model.bin").write_bytes(b"no model at all " * 100)
    recipe = LISTS.replace(
        'use = "url"\ndomains = ["LIST"]', 'use = "language"\nkeep = ["en"]\nmodel = "model.bin"'
    )
    with pytest.raises(RecipeError, match="model.bin"):
        run(write(tmp_path, recipe), out=tmp_path / "corpus", workers=1)


OWN = LISTS.replace('use = "url"\ndomains = ["LIST"]', 'use = "mine:no_mills"')


def test_a_filter_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        jsonl([{"url": f"https://x.example/{n}", "text": article(n, 8)} for n in range(30)])
    )
    code = tmp_path / "mine.py"
    code.write_text(
        'def no_mills(text: str) -> str | None:\n    return "mill" if "mill" in text else None\n'
    )
    recipe, corpus = write(tmp_path, OWN), tmp_path / "corpus"
    with pytest.raises(RecipeError, match="--allow-code"):
        run(recipe, out=corpus, workers=1)
    first = run(recipe, out=corpus, workers=2, allow_code=True).table
    gone = sum("mill" in article(n, 8) for n in range(30))
    assert 0 < gone < 30
    assert first["steps"][1] == {
        "step": "no_mills",
        "dropped": gone,
        "left": 30 - gone,
        "reasons": {"no_mills.mill": gone},
    }
    told = digests(corpus)
    code.write_text(
        code.read_text()
        .replace('"mill" in text', '"mill" in text.lower()')
        .replace('return "mill"', 'return "mills"')
    )
    second = run(recipe, out=corpus, workers=1, allow_code=True).table
    assert list(second["steps"][1]["reasons"]) == ["no_mills.mills"]
    assert digests(corpus) != told
    code.unlink()
    verify(corpus)
    assert why(corpus, "0:0")[0]["url"] == "https://x.example/0"


def test_same_urls_and_what_they_keep_out(tmp_path: Path) -> None:
    """The earliest of a URL stays; a copy of a page that went for its URL names what stays in the
    end.
    """
    rows = [
        {"url": "https://a.example/", "text": article(1)},
        {"url": "https://b.example/", "text": article(2)},
        {"url": "https://a.example/", "text": article(3)},
        {"url": "https://c.example/", "text": article(3)},
        {"url": "https://b.example/", "text": article(4)},
        {"text": article(5)},
        {"text": article(6)},
        {"url": "https://d.example/", "text": article(1)},
        {"url": "https://d.example/", "text": article(7)},
    ]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    text = '[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[deduplicate]\nurl = true\nnear = {}\n'
    run(write(tmp_path, text), out=tmp_path / "corpus", workers=1)
    verify(tmp_path / "corpus")
    found = pq.read_table(tmp_path / "corpus/verdicts/00000.parquet").to_pylist()
    same, exact = "deduplicate.same_url", "deduplicate.exact_duplicate"
    assert [(row["reason"], row["keeper"]) for row in found] == [
        (None, None),
        (None, None),
        (same, 0),
        (None, None),
        (same, 1),
        (None, None),
        (None, None),
        (exact, 0),
        (same, 0),
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_recipes_that_name_their_source(name: str, tmp_path: Path) -> None:
    text = packaged(name).read_text("utf-8")
    assert "Source" in text or "datatrove" in text
    (tmp_path / "a.txt").write_text("text")
    loaded, shown = for_files([str(tmp_path / "a.txt")], None, None, name)
    assert 'files = ["a.txt"]' in shown
    assert loaded.recipe.steps(loaded.recipe.source[0].name)
    assert (
        load(
            init(tmp_path / "recipe.toml", preset=name), {"source.0.files": '["a.txt"]'}
        ).recipe.step
        == loaded.recipe.step
    )
    with pytest.raises(RecipeError, match="no shards"):
        parse(text, name)


def test_the_gopher_and_c4_presets_run(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(pages(40)))
    for name in ("gopher", "c4", "lab"):
        table = run([str(tmp_path / "a.jsonl")], out=tmp_path / name, workers=1, preset=name).table
        assert table["documents"] == 40
        assert sum(step["dropped"] for step in table["steps"]) + table["kept"] == 40
    with pytest.raises(RecipeError, match="did you mean 'gopher'"):
        run([str(tmp_path / "a.jsonl")], out=tmp_path / "x", preset="gofer")
