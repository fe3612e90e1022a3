"""The step url: its lists, its order, what it takes for a registered domain, and datatrove's filter
on the same URLs.
"""

import gzip
import io
import json
import lzma
import os
import random
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import tldextract
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Input, Measured
from gristmill.filters.lists import lists
from gristmill.filters.lists.domains import Suffixes, written_host
from gristmill.filters.lists.url import SUFFIXES, Url
from gristmill.kernels.lists.entries import LOWER_CASE, WORD
from gristmill.store.codecs import zstd
from tests.support import ROOT, strategies
from tests.support.skips import missing

SNAPSHOT = Path(tldextract.__file__).with_name(".tld_set_snapshot")
LISTS = {
    "domains": (
        "# comment\nbad.com\r\n  spaced.org  "
        "\n\nsub.fine.co.uk\nco.uk\n192.0.2.1\nBIG.com\nb\u00fccher.de\ncity.kawasaki.jp\n"
    ),
    "urls": "http://fine.com/page?x=1\nfine.com/raw\n",
    "words": "hard\n#other\nha-rder\nboth\n",
    "soft_words": "soft\nsofter\nSoftest\nboth\n",
    "subwords": "sub word\n",
}


def inputs_of(step: Url) -> dict[str, Input]:
    """The files that a step names, where they lie."""
    files = {
        location: Input(Path(location).name, location, "") for location in step.inputs().values()
    }
    return {**files, SUFFIXES: Input(SNAPSHOT.name, str(SNAPSHOT), "")}


def judge(step: Url, urls: list[str | None]) -> tuple[Measured, Decision]:
    measured = step.load(inputs_of(step))(
        pa.RecordBatch.from_pydict({"url": pa.array(urls, pa.string())})
    )
    return measured, step.decide(measured.measures)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., list[str]]:
    """Write a list; give its location as the step takes it."""

    def write(name: str, data: str | bytes) -> list[str]:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return [str(path)]

    return write


@pytest.fixture
def step(write: Callable[..., list[str]]) -> Url:
    return Url(**{key: write(key, text) for key, text in LISTS.items()})


CASES = {
    "http://bad.com/": ("domain", "bad.com"),
    "https://www.bad.com:80/x": ("domain", "bad.com"),
    "//user:pw@a.b.bad.com?q": ("domain", "bad.com"),
    "http://BAD.com/": None,  # compared as written
    "http://BIG.com./": ("domain", "BIG.com"),
    "http://spaced.org": ("domain", "spaced.org"),
    "http://www.fine.co.uk/": None,  # co.uk is listed, and is no registered domain
    "http://sub.fine.co.uk/": ("subdomain", "sub.fine.co.uk"),
    "http://x.sub.fine.co.uk/": None,
    "http://192.0.2.1/": None,  # an address has no registered domain, as datatrove has it
    "http://bücher.de/": ("domain", "bücher.de"),
    "http://www.bücher。de/": ("domain", "bücher.de"),
    "http://city.kawasaki.jp/": ("domain", "city.kawasaki.jp"),  # an exception to *.kawasaki.jp
    "http://fine.com/page?x=1": ("url", "http://fine.com/page?x=1"),
    "http://fine.com/page?x=2": None,
    "fine.com/raw": ("url", "fine.com/raw"),
    "http://fine.com/a/hard_x": ("hard_blacklisted", "hard"),
    "http://fine.com/Hard": None,
    "http://fine.com/ha-rder": None,  # words are cut at the sign that entries lose
    "http://fine.com/harder": ("hard_blacklisted", "harder"),
    "http://fine.com/soft/soft": None,
    "http://fine.com/soft/softer": ("soft_blacklisted", "soft softer"),
    "http://fine.com/both/soft": ("hard_blacklisted", "both"),
    "http://fine.com/S-u-b_W.ord2": ("blacklisted_subword", "subword"),
    "http://fine.com/soft-softest-subword": ("soft_blacklisted", "soft softest"),
    "http://fine.com/soft-subword": ("blacklisted_subword", "subword"),
    "http://bad.com/hard/subword": ("domain", "bad.com"),
    "nothing at all": None,
}


def test_each_reason_is_reached_in_order(step: Url) -> None:
    measured, decision = judge(step, [*CASES, None, ""])
    expected = [case and case[0] for case in CASES.values()]
    assert decision.reason.to_pylist() == [*expected, None, None]
    for row, (case, reason) in enumerate(zip(CASES.values(), expected, strict=True)):
        measure = "soft_match" if reason == "soft_blacklisted" else "match"
        if case:
            assert measured.measures[measure][row].as_py() == case[1]
    soft = [reason == "soft_blacklisted" for reason in decision.reason.to_pylist()]
    assert decision.value.to_pylist() == [2.0 if yes else None for yes in soft]
    assert decision.threshold.to_pylist() == [2.0 if yes else None for yes in soft]
    assert measured.measures["list"].to_pylist()[-2:] == ["no_url", "no_url"]
    assert measured.measures["soft_words"].to_pylist()[-2:] == [None, None]


def test_another_threshold_is_tried_on_stored_measures(step: Url) -> None:
    urls = [
        "http://fine.com/soft",
        "http://fine.com/soft-subword",
        "http://fine.com/hard/soft",
        "http://x.com",
        None,
    ]
    measured, _ = judge(step, urls)
    one = Url(words=step.words, soft_threshold=1, missing="drop").decide(measured.measures)
    assert one.reason.to_pylist() == [
        "soft_blacklisted",
        "soft_blacklisted",
        "hard_blacklisted",
        None,
        "no_url",
    ]
    many = Url(words=step.words, soft_threshold=9).decide(measured.measures)
    assert many.reason.to_pylist() == [None, "blacklisted_subword", "hard_blacklisted", None, None]
    assert Url.thresholds == {"soft_threshold", "missing"}


def test_only_allowed_domains_are_kept(write: Callable[..., list[str]]) -> None:
    step = Url(
        allow_domains=write("allow", "Good.org\ngov\nbücher.de\n127.0.0.1\n"), missing="drop"
    )
    kept = [
        "http://good.org/",
        "http://www.GOOD.org",
        "https://a.b.gov:1/x",
        "http://x.bücher.de",
        "http://127.0.0.1/",
    ]
    dropped = [
        "http://notgood.org",
        "http://good.org.evil.com",
        "http://evil.com/good.org",
        "http://xbücher.de",
        "x",
    ]
    measured, decision = judge(step, [*kept, *dropped, None])
    assert decision.reason.to_pylist() == [None] * len(kept) + ["not_allowed"] * len(dropped) + [
        "no_url"
    ]
    assert set(measured.measures["match"].to_pylist()) == {None}


def test_batches_without_rows_and_slices(step: Url) -> None:
    measured, decision = judge(step, [])
    assert len(decision.reason) == len(measured.measures["list"]) == 0
    measure = step.load(inputs_of(step))
    whole = pa.RecordBatch.from_pydict(
        {"url": pa.array(["http://x.com", None, *CASES], pa.string())}
    )
    part = step.decide(measure(whole.slice(2)).measures)
    assert part.reason.to_pylist() == [case and case[0] for case in CASES.values()]


def test_what_it_wants_is_named_once() -> None:
    step = Url(domains=["a.tar.gz", "more"], urls=["a.tar.gz"], words=["w"])
    assert step.inputs() == {
        "url.domains.0": "a.tar.gz",
        "url.domains.1": "more",
        "url.words.0": "w",
        "url.suffixes": SUFFIXES,
    }
    with pytest.raises(ValueError, match="drops nothing"):
        Url()


# Lists


def archive(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("ads/domains")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return file.getvalue()


PLAIN = b"# comment\r\nA.com\n b.org \n"
FORMS = {
    "plain": PLAIN,
    "mark": b"\xef\xbb\xbf" + PLAIN,
    "gz": gzip.compress(PLAIN),
    "xz": lzma.compress(PLAIN),
    "zst": zstd.compress(PLAIN),
    "tar": archive(
        {"adult/domains": b"A.com", "adult/urls": b"x", "malware/domains": b"b.org\n"}, "w"
    ),
    "tar.gz": archive({"./domains": PLAIN, "other/domains.bak": b"c"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_read_as_they_come(form: str, write: Callable[..., list[str]]) -> None:
    given = Input("list", write("list", FORMS[form])[0], "")
    assert lists.read("url.domains.0", given, member="domains").all() == [b"A.com", b"b.org"]
    assert lists.read("x", given, member="domains", form=LOWER_CASE).all() == [b"a.com", b"b.org"]
    assert lists.read("x", given, member="domains", form=WORD).all() == [b"acom", b"borg"]


BROKEN = {
    "binary": (b"\x7fELF\0\0\1\n\0", "binary"),
    "latin": ("é\nü\nabc\n".encode("latin-1"), "not UTF-8"),
    "page": (b"\n <!DOCTYPE html><html>", "web page"),
    "empty": (b"", "no entry"),
    "comments": (b"# a\n\n# b", "no entry"),
    "cut": (gzip.compress(os.urandom(5000))[:-900], "truncated at byte 0"),
    "member": (
        archive({"adult/urls": b"x", "README": b"y"}),
        "without a member 'domains'; it holds adult/urls, README",
    ),
    "cut.tar": (archive({"domains": b"a.com\n" * 9999}, "w")[:20_000], "damaged archive"),
    "garbled.tar": (
        archive({"domains": b"a.com\n"}, "w")[:300].ljust(512, b"\xff") + b"x" * 9999,
        "damaged archive",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_list_is_refused(broken: str, write: Callable[..., list[str]]) -> None:
    data, complaint = BROKEN[broken]
    with pytest.raises(RecipeError, match=f"url.domains.0: {broken}: .*{re.escape(complaint)}"):
        judge(Url(domains=write(broken, data)), [])


def test_what_cannot_be_a_list(
    write: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RecipeError, match="url.words.0: .*: cannot be read: Is a directory"):
        judge(Url(words=[str(tmp_path)]), [])
    with pytest.raises(RecipeError, match="url.words.0: .*: cannot be read: No such file"):
        judge(Url(words=[str(tmp_path / "gone")]), [])
    with pytest.raises(RecipeError, match="url.words.0: .*plain list is expected"):
        judge(Url(words=write("a.tar.gz", FORMS["tar.gz"])), [])
    with pytest.raises(RecipeError, match="url.subwords.0: .*no entry"):
        judge(Url(subwords=write("signs", "---\n中文\n")), [])
    monkeypatch.setattr(lists, "MOST_BYTES", 20)
    with pytest.raises(RecipeError, match="more than 20 bytes"):
        judge(Url(words=write("long", "x" * 21)), [])
    with pytest.raises(RecipeError, match="bomb at byte 0"):
        judge(Url(words=write("bomb", gzip.compress(b"x" * 99))), [])
    two = write("one", "x" * 11) + write("two", "y" * 11)
    with pytest.raises(RecipeError, match=r"url\.words: the lists hold 22 bytes in all"):
        judge(Url(words=two), [])


# Hosts and registered domains


def parts() -> list[str]:
    """Pieces of URLs, public suffixes and what is nearly one among them."""
    rules = [
        line
        for line in SNAPSHOT.read_text("utf-8").splitlines()
        if line and not line.startswith("//")
    ]
    odd = [rule for rule in rules if not rule.isascii() or rule.startswith(("*", "!"))]
    punycode = [rule.encode("idna").decode() for rule in odd if not rule.isascii()]
    return [
        *rules[::97],
        *odd,
        *punycode,
        *("." + rule.lstrip("*!.") for rule in odd),
        ".ck",
        "www.ck",
        "!www.ck",
        "*.ck",
        ".com",
        ".COM",
        ".co.uk",
        "a",
        "xn--",
        "xn--a-",
        "XN--P1AI",
        ".xn--p1ai",
        "xn--" + "a" * 300,
        "example",
        "blogspot.com",
        "github.io",
        "。",
        "．",
    ]


SIGNS = (
    "http://",
    "//",
    "/",
    "a://",
    "1+.-://",
    "é://",
    ":",
    "@",
    ".",
    "..",
    "[",
    "]",
    "[::1]",
    "[::1].com",
    ":80",
    "?",
    "#",
    " ",
    "\u3000",
    "\x85",
    "127.0.0.1",
    "256.1.1.1",
    "1.2.3.4.com",
    "é",
    "İ",
    "\n",
    "\x1f",
    "",
)


@strategies.fuzz(400)
@given(st.data())
def test_fuzz_registered_domain(drawn: st.DataObject) -> None:
    """The same as tldextract with the same list."""
    piece = st.one_of(st.sampled_from(PARTS), st.sampled_from(PARTS), st.sampled_from(SIGNS))
    url = drawn.draw(st.sampled_from(("", "http://", "https://a."))) + "".join(
        drawn.draw(st.lists(piece, max_size=6))
    )
    found, expected = OURS.split(url), THEIRS(url)
    assert found.registered == expected.top_domain_under_public_suffix
    if expected.domain:
        assert found.host == expected.fqdn
    if not expected.ipv6:
        assert written_host(url).endswith(expected.suffix)


PARTS = parts()
OURS = Suffixes(SNAPSHOT.read_text("utf-8"))
THEIRS = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())


def test_every_suffix() -> None:
    """Each rule of the list, alone and with one and two labels before it."""
    for line in SNAPSHOT.read_text("utf-8").splitlines():
        rule = line.strip()
        if not rule or rule.startswith("//"):
            continue
        bare = rule.lstrip("*!.")
        for url in (
            rule,
            bare,
            f"a.{bare}",
            f"b.a.{bare}/",
            f"http://c.b.A.{bare.upper()}:1",
            f"x.{bare.encode('idna').decode()}",
        ):
            expected = THEIRS(url)
            assert OURS.split(url) == (expected.top_domain_under_public_suffix, expected.fqdn)


# datatrove


def real_urls(data: Path) -> list[str]:
    found = []
    for path in sorted(
        [*(data / "A_warc").rglob("*arc*.gz"), *(data / "J_debian_docs").rglob("*.warc.gz")]
    ):
        try:
            content = gzip.decompress(path.read_bytes())
        except (OSError, EOFError):
            continue
        found += re.findall(rb"^WARC-Target-URI: *<?([^\s>]+)", content, re.MULTILINE)
        found += re.findall(rb"^(https?://\S+) ", content, re.MULTILINE)
    return sorted({url.decode("utf-8", "replace") for url in found})


def planted(step: Url, pick: random.Random) -> Iterator[str]:
    """URLs made of the lists' entries."""
    member = {"domains": "domains", "urls": "urls"}
    entries = {
        key: lists.read(key, Input(key, getattr(step, key)[0], ""), member=member.get(key))
        for key in ("domains", "urls", "words", "soft_words", "subwords")
    }

    def some(key: str, most: int) -> list[str]:
        count = len(entries[key].offsets) - 1
        return [entries[key].text(number) for number in pick.sample(range(count), min(count, most))]

    for domain in some("domains", 1500):
        yield f"http://{domain}/"
        yield f"https://www.{domain}:8080/index.html"
        yield f"http://user@sub.{domain}?q={domain}"
        yield f"http://{domain.title()}./x"
        yield f"http://example.com/{domain}"
        yield domain
    for domain in some("domains", 10_000):
        if domain.count(".") > 2 and not re.fullmatch("[0-9.]+", domain):
            yield f"http://{domain}/a"  # often a host under a registered domain that is not listed
    for url in some("urls", 300):
        yield from (url, f"http://{url}", url + "/")
    hard, soft, inside = (some(key, 400) for key in ("words", "soft_words", "subwords"))
    for word in (*hard, *soft, *inside):
        small = re.sub("[^a-zA-Z0-9]", "", word).lower()
        for spelled in (word, small, small.upper(), small.title(), "-".join(small), f"x{small}y"):
            yield f"https://example.org/{spelled}/page"
            yield f"https://example.org/{spelled}.{pick.choice(soft)}_{pick.choice(soft)}"
            query = pick.choice(inside).replace(" ", "+")
            yield f"http://{spelled}.example.net/{pick.choice(soft)}?{query}"


def test_verdicts_are_datatroves(data: Path, tmp_path: Path) -> None:
    python = os.environ.get("GRISTMILL_PEERS", "")
    if not python:
        missing("peers", "GRISTMILL_PEERS names no Python that has datatrove")
    assets = subprocess.run(
        [python, "-c", "from datatrove.utils._import_utils import ASSETS_PATH; print(ASSETS_PATH)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    packed, words = f"{assets}/url_filterblacklistsv0_3_0.tar.gz", f"{assets}/banned_words.txt"
    step = Url(
        domains=[packed],
        urls=[packed],
        words=[words],
        soft_words=[f"{assets}/soft_banned_words.txt"],
        subwords=[f"{assets}/banned_subwords.txt"],
    )
    start = time.perf_counter()
    measure = step.load(inputs_of(step))
    load = time.perf_counter() - start
    urls = [*real_urls(data), *dict.fromkeys(planted(step, random.Random(1)))]
    (tmp_path / "urls.json").write_text(json.dumps(urls))
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path / "hf"),
        "TLDEXTRACT_CACHE": str(tmp_path / "tld"),
        "TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS": "",
        "PYTHONPATH": "",
    }
    peer = ROOT / "tests/support/peer_url.py"
    subprocess.run(
        [python, str(peer), "urls.json", "said.json"], cwd=tmp_path, env=environment, check=True
    )
    said = json.loads((tmp_path / "said.json").read_text())
    batch = pa.RecordBatch.from_pydict({"url": urls})
    measure(batch.slice(0, 1))
    start = time.perf_counter()
    reasons = step.decide(measure(batch).measures).reason.to_pylist()
    took = time.perf_counter() - start
    differ = [
        (url, *pair)
        for url, *pair in zip(urls, reasons, said["reasons"], strict=True)
        if pair[0] != pair[1]
    ]
    assert not differ
    counts = {reason: reasons.count(reason) for reason in {*reasons}}
    print(f"{len(urls)} URLs: {counts}")
    print(
        f"load {load:.2f} s, {took / len(urls) * 1e6:.2f} us a URL; datatrove "
        f"{said['load']:.2f} s, "
        f"{said['judge'] / len(urls) * 1e6:.2f} us a URL, {said['memory'] >> 10} MiB"
    )
    assert all(
        counts[reason] >= 50
        for reason in (
            "domain",
            "subdomain",
            "url",
            "hard_blacklisted",
            "soft_blacklisted",
            "blacklisted_subword",
            None,
        )
    ), counts
