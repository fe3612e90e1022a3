"""One download against each fault: the right bytes, or an error that names the shard; never a file
that looks whole and is not.
"""

import base64
import gzip
import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import SourceError
from gristmill.store.cache import Cache
from gristmill.store.http.answers import Stopped
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Fetched, Transfer
from gristmill.system.ownership import MARKER
from tests.support import faults
from tests.support.faults import Site, site

BODY = bytes(range(256)) * 5_000
SHA256 = hashlib.sha256(BODY).hexdigest()
QUICK = Settings(backoff=0.0, retries=3, timeout=5.0, checkpoint_bytes=100_000)


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as here:
        yield here


@pytest.fixture
def transfer(cache: Path) -> Iterator[Transfer]:
    made = Transfer(Cache(cache), QUICK)
    yield made
    made.close()


def get(
    transfer: Transfer, url: str, promise: Promise | None = None, authorization: str | None = None
) -> bytes:
    got = transfer.fetch(Remote(url, authorization), promise)
    data = got.path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == got.sha256 == got.path.name
    return data


def left(cache: Path) -> list[str]:
    """What lies in the cache, but for its marker, notes of URLs and empty folders."""
    return sorted(
        path.name
        for path in cache.rglob("*")
        if path.is_file() and path.parent.name not in ("urls", "runs") and path.name != MARKER
    )


# -- the main way


def test_a_file_comes_in_whole_and_is_named_by_its_sha256(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    assert get(transfer, server.put("/a", BODY)) == BODY
    assert get(transfer, server.put("/empty", b"")) == b""
    assert get(transfer, server.put("/chunked", BODY, chunked=True)) == BODY
    assert left(cache) == sorted([SHA256, hashlib.sha256(b"").hexdigest()])
    assert server.connections <= 2  # connections are reused, but for what has no length


def test_what_the_cache_holds_is_asked_for_with_its_validator(
    server: Site, transfer: Transfer
) -> None:
    for path, more in (
        ("/e", {"etag": '"one"'}),
        ("/l", {"etag": None, "last_modified": faults.LONG_AGO}),
    ):
        url = server.put(path, BODY, **more)
        assert get(transfer, url) == get(transfer, url) == BODY
        server.files[path].body = b"new"
        server.files[path].etag, server.files[path].last_modified = '"two"', None
        assert get(transfer, url) == b"new"
        count = len(server.asked)
        assert get(transfer, url, Promise(hashlib.sha256(b"new").hexdigest())) == b"new"
        assert len(server.asked) == count  # pinned and here: nobody is asked


@pytest.mark.parametrize("more", [{"etag": 'W/"weak"'}, {"etag": None}, {"etag": "no quotes"}])
def test_without_a_strong_validator_a_file_is_fetched_anew(
    server: Site, transfer: Transfer, more: dict[str, Any]
) -> None:
    url = server.put("/a", BODY, **more)
    assert get(transfer, url) == BODY
    assert get(transfer, url) == BODY
    assert not [
        headers
        for _, _, headers in server.asked
        if "if-none-match" in headers or "if-range" in headers
    ]


# -- resume


def crashed(transfer: Transfer, url: str, after: int) -> None:
    """A download that dies behind so many bytes, as by a kill."""

    class Kill(BaseException):
        pass

    def tell(here: int, size: int | None, resumed: int) -> None:
        if here >= after:
            raise Kill

    with pytest.raises(Kill):
        transfer.fetch(Remote(url), on_progress=tell)


def test_a_crash_costs_no_more_than_the_bytes_past_the_last_checkpoint(
    cache: Path, server: Site
) -> None:
    body = BODY * 4
    url = server.put("/a.wet.gz", body)
    crashed(Transfer(Cache(cache), QUICK), url, 3_000_000)
    told: list[tuple[int, int | None, int]] = []
    got = Transfer(Cache(cache), QUICK).fetch(
        Remote(url), on_progress=lambda *what: told.append(what)
    )
    assert got.path.read_bytes() == body
    (begun,) = [int(span.removeprefix("bytes=").rstrip("-")) for span in server.ranges() if span]
    assert server.asked[-1][2]["if-range"] == '"1"'
    assert 3_000_000 - QUICK.checkpoint_bytes - (1 << 18) <= begun
    assert told[0][2] == begun
    assert left(cache) == [got.sha256]


@pytest.mark.parametrize(
    "harm",
    ["byte", "short", "longer", "no note", "bad note", "another url", "no partial", "negative"],
)
def test_a_partial_that_is_not_what_its_checkpoint_says_is_discarded(
    cache: Path, server: Site, harm: str
) -> None:
    url = server.put("/a", BODY)
    crashed(Transfer(Cache(cache), QUICK), url, 700_000)
    (partial,) = (cache / "partial").glob("*.partial")
    note = partial.with_name(partial.name + ".json")
    data = partial.read_bytes()
    text = note.read_text()
    if harm == "byte":
        partial.write_bytes(b"\xff" + data[1:])
    elif harm == "short":
        partial.write_bytes(data[:1000])
    elif harm == "longer":
        partial.write_bytes(data + b"rubbish")
    elif harm == "no note":
        note.unlink()
    elif harm == "bad note":
        note.write_text(text[:50])
    elif harm == "another url":
        note.write_text(text.replace("/a", "/b"))
    elif harm == "negative":
        note.write_text(text.replace('"verified_bytes": ', '"verified_bytes": -'))
    else:
        partial.unlink()
    assert get(Transfer(Cache(cache), QUICK), url) == BODY
    assert bool(server.ranges()[-1]) == (
        harm == "longer"
    )  # what lies behind the checkpoint is cut off, and harmless
    assert left(cache) == [SHA256]


def test_a_stopped_run_checkpoints_what_it_has(cache: Path, server: Site) -> None:
    slow = Transfer(Cache(cache), QUICK._replace(checkpoint_bytes=1 << 40))

    def tell(here: int, size: int | None, resumed: int) -> None:
        slow.client.end()

    url = server.put("/a", BODY)
    with pytest.raises(Stopped):
        slow.fetch(Remote(url), on_progress=tell)
    assert get(Transfer(Cache(cache), QUICK), url) == BODY
    assert server.ranges()[-1] is not None


@pytest.mark.parametrize(
    "more", [{"etag": 'W/"weak"'}, {"etag": None}, {"etag": None, "last_modified": "today"}]
)
def test_without_a_strong_validator_a_download_starts_over(
    cache: Path, server: Site, more: dict[str, Any]
) -> None:
    if more.get("last_modified"):
        import email.utils

        more["last_modified"] = email.utils.formatdate(
            usegmt=True
        )  # too young to be one: RFC 9110, 8.8.2.2
    url = server.put("/a", BODY, **more)
    crashed(Transfer(Cache(cache), QUICK), url, 700_000)
    server.faults.append(faults.cut(0.5))
    assert get(Transfer(Cache(cache), QUICK), url) == BODY
    assert set(server.ranges()) == {None}


def test_an_old_date_is_a_validator(cache: Path, server: Site) -> None:
    url = server.put("/a", BODY, etag=None, last_modified=faults.LONG_AGO)
    crashed(Transfer(Cache(cache), QUICK), url, 700_000)
    assert get(Transfer(Cache(cache), QUICK), url) == BODY
    assert server.asked[-1][2]["if-range"] == faults.LONG_AGO
    assert server.ranges()[-1] is not None


# -- faults that pass

PASSING = {
    "no answer": faults.cut(0),
    "reset before the answer": faults.cut(0, reset=True),
    "cut in the head": faults.cut(0.00005),
    "cut in the middle": faults.cut(0.5),
    "reset in the middle": faults.cut(0.5, reset=True),
    "cut before the last byte": faults.cut(0.9999),
    "500": faults.status(500),
    "503, come back at once": faults.status(503, Retry_After="0"),
    "429": faults.status(429),
    "408": faults.status(408),
    "a wrong chunk": faults.bad_chunk,
    "bytes behind the end": faults.trailing(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize(
    "more",
    [{}, {"etag": None}, {"chunked": True}, {"ranges": False}],
    ids=["etag", "none", "chunked", "no ranges"],
)
def test_a_fault_that_passes_ends_in_the_right_bytes(
    cache: Path, server: Site, transfer: Transfer, fault: faults.Fault, more: dict[str, Any]
) -> None:
    url = server.put("/a", BODY, **more)
    server.faults.extend([fault, fault])
    assert get(transfer, url) == BODY
    assert get(transfer, server.put("/b", b"another")) == b"another"
    assert [name for name in left(cache) if not name.endswith(".lock")] == sorted(
        [SHA256, hashlib.sha256(b"another").hexdigest()]
    )


SECOND = {
    "200 to a Range": faults.whole,
    "an earlier range": faults.shifted(-1000),
    "a later range": faults.shifted(1000),
    "a range told wrongly": faults.told_range("bytes 0-9/10"),
    "another total": faults.told_range(f"bytes 600000-{len(BODY)}/{len(BODY) + 1}"),
    "no numbers": faults.told_range("bytes */*"),
    "no Content-Range": faults.without("Content-Range"),
    "no ETag": faults.without("ETag"),
    "several parts": faults.multipart,
    "416": faults.status(416),
    "more than promised": faults.longer_chunks(b"more"),
    "304 to a Range": faults.status(304),
}


@pytest.mark.parametrize("fault", SECOND.values(), ids=SECOND)
def test_a_range_that_does_not_fit_starts_over(
    server: Site, transfer: Transfer, fault: faults.Fault
) -> None:
    url = server.put("/a", BODY)
    server.faults.extend([faults.cut(0.5), fault, fault])
    assert get(transfer, url) == BODY
    assert server.ranges()[1] is not None


@pytest.mark.parametrize(
    "more",
    [{"etag": '"2"'}, {"etag": '"1"'}],
    ids=["another ETag", "the same ETag, another length"],
)
def test_a_file_that_changes_between_two_attempts_comes_whole(
    server: Site, transfer: Transfer, more: dict[str, Any]
) -> None:
    new = b"new" * 400_000
    url = server.put("/a", BODY)
    server.faults.append(faults.swapped(new, 0.5, **more))
    assert get(transfer, url) == new


def test_a_server_that_always_cuts_is_followed_to_the_end(server: Site, transfer: Transfer) -> None:
    url = server.put("/a", BODY)
    server.faults.extend([faults.cut(0.3)] * 40)
    assert get(transfer, url) == BODY
    assert len(server.asked) > 10  # more tries than are allowed without progress


def test_a_stall_is_noticed(cache: Path, server: Site) -> None:
    quick = Transfer(Cache(cache), QUICK._replace(timeout=0.3))
    url = server.put("/a", BODY)
    server.faults.append(faults.stall(0.5, 1.5))
    begun = time.monotonic()
    assert get(quick, url) == BODY
    assert time.monotonic() - begun < 1.4


def test_a_trickle_is_a_stall_too(cache: Path, server: Site) -> None:
    quick = Transfer(Cache(cache), QUICK._replace(timeout=0.3, slowest=1e6))
    url = server.put("/a", BODY)
    server.faults.append(faults.trickling)
    begun = time.monotonic()
    assert get(quick, url) == BODY
    assert time.monotonic() - begun < 5  # the whole would take minutes


def test_a_head_that_drips_is_a_stall_too(cache: Path, server: Site) -> None:
    quick = Transfer(Cache(cache), QUICK._replace(timeout=0.3))
    url = server.put("/a", BODY, headers={f"X-{number}": "x" * 100 for number in range(90)})
    server.faults.append(faults.trickling)
    begun = time.monotonic()
    assert get(quick, url) == BODY
    assert time.monotonic() - begun < 1.5  # the head alone would take two seconds


def test_a_server_that_asks_to_wait_is_obeyed(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    url = server.put("/a", b"text")
    server.faults.append(faults.status(503, Retry_After="1"))
    begun = time.monotonic()
    assert get(transfer, url) == b"text"
    assert time.monotonic() - begun >= 1.0
    impatient = Transfer(Cache(cache), QUICK._replace(patience=10))
    server.faults.append(faults.status(429, Retry_After="3600"))
    with pytest.raises(SourceError, match="answered 429 .*asks to come back in 3,600 seconds"):
        impatient.fetch(Remote(server.put("/b", b"text")))
    server.faults.append(faults.status(429, Retry_After="Wed, 21 Oct 2037 07:28:00 GMT"))
    with pytest.raises(SourceError, match="asks to come back in"):
        impatient.fetch(Remote(server.put("/b", b"text")))


# -- faults that stay


@pytest.mark.parametrize(
    "fault",
    [faults.cut(0), faults.cut(0.0001), faults.status(500), faults.status(503), faults.status(429)],
)
def test_a_fault_that_stays_is_an_error_that_names_the_shard(
    cache: Path, server: Site, transfer: Transfer, fault: faults.Fault
) -> None:
    url = server.put("/deep/a.wet.gz", BODY)
    server.faults.extend([fault] * 100)
    with pytest.raises(SourceError, match=f"{url}: could not be fetched in 4 tries: "):
        transfer.fetch(Remote(url))
    assert len(server.asked) == 4
    assert not (cache / "objects").exists()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204, 301])
def test_a_refusal_is_told_with_its_number_at_once(
    cache: Path, server: Site, transfer: Transfer, status: int
) -> None:
    url = server.put("/a", BODY)
    server.faults.append(faults.status(status))
    with pytest.raises(SourceError, match=f"{url}: the server answered {status}"):
        transfer.fetch(Remote(url))
    assert len(server.asked) == 1
    assert get(transfer, server.put("/b", b"text")) == b"text"


def test_a_server_that_is_not_there_is_told(transfer: Transfer) -> None:
    with site() as gone:
        url = gone.address + "/a"
    with pytest.raises(SourceError, match=f"{url}: could not be fetched in 4 tries: no connection"):
        transfer.fetch(Remote(url))


def test_without_a_length_nobody_can_tell_the_end(server: Site, transfer: Transfer) -> None:
    url = server.put("/a", BODY, length=False)
    with pytest.raises(
        SourceError, match=f"{url}: could not be fetched in 4 tries: the server sends no length"
    ):
        transfer.fetch(Remote(url))
    assert get(transfer, url, Promise(SHA256)) == BODY
    server.faults.append(faults.cut(0.5))
    assert get(
        transfer,
        server.put("/b", BODY + b"b", length=False),
        Promise(hashlib.sha256(BODY + b"b").hexdigest()),
    )
    with pytest.raises(
        SourceError,
        match="the body of unknown length ended, and its sha256 is not the promised one",
    ):
        get(transfer, server.put("/c", BODY, length=False), Promise("1" * 64))


def test_a_content_encoding_laid_on_top_is_refused(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    url = server.put("/a.jsonl", BODY)
    server.faults.append(faults.packed)
    with pytest.raises(
        SourceError, match=f"{url}: sent with Content-Encoding gzip, which was not asked for"
    ):
        transfer.fetch(Remote(url))
    assert server.asked[0][2]["accept-encoding"] == "identity"
    assert get(transfer, server.put("/c", BODY, headers={"Content-Encoding": "identity"})) == BODY
    # The file's own packing, told as a Content-Encoding, as many servers do.
    own = gzip.compress(BODY)
    assert (
        get(transfer, server.put("/a.jsonl.gz", own, headers={"Content-Encoding": "gzip"})) == own
    )
    # ... and a second one on top of it.
    server.faults.append(faults.packed)
    url = server.put("/b.jsonl.gz", own)
    with pytest.raises(SourceError, match=f"{url}: sent with a second gzip laid on top"):
        transfer.fetch(Remote(url))


# -- digests


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(b"other").digest()).decode()},
        {
            "Repr-Digest": (
                "sha-512=:AAAA:, "
                f"sha-256=:{base64.b64encode(hashlib.sha256(b'other').digest()).decode()}:"
            )
        },
        {"X-Linked-ETag": f'"{hashlib.sha256(b"other").hexdigest()}"'},
    ],
    ids=["S3", "RFC 9530", "hub"],
)
def test_a_digest_that_the_server_tells_must_hold(
    cache: Path, server: Site, transfer: Transfer, headers: dict[str, str]
) -> None:
    url = server.put("/a", BODY, headers=headers)
    with pytest.raises(
        SourceError,
        match=f"{url}: the server promises sha256 {hashlib.sha256(b'other').hexdigest()}",
    ):
        transfer.fetch(Remote(url))
    assert left(cache) == []
    server.files["/a"].body = b"other"
    assert get(transfer, url) == b"other"


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-checksum-sha256": base64.b64encode(b"1" * 32).decode() + "-4"},
        {
            "x-amz-checksum-sha256": base64.b64encode(b"1" * 32).decode(),
            "x-amz-checksum-type": "COMPOSITE",
        },
        {"x-amz-checksum-crc32": "AAAAAA=="},
        {"X-Linked-ETag": '"0123456789abcdef0123456789abcdef01234567"'},
        {"Repr-Digest": "sha-256=:nonsense:"},
        {"Content-MD5": "AAAA"},
    ],
)
def test_what_is_no_digest_of_the_file_is_none(
    server: Site, transfer: Transfer, headers: dict[str, str]
) -> None:
    assert (
        get(
            transfer,
            server.put("/a", BODY, etag='"9b2cf535f27731c974343645a3985328-4"', headers=headers),
        )
        == BODY
    )


def test_bytes_that_are_not_the_promised_ones_are_refused_and_not_kept(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    url = server.put("/a", BODY)
    with pytest.raises(
        SourceError,
        match=f"{url}: the plan promises sha256 {'0' * 64}, but .* have {SHA256}. They are refused",
    ):
        transfer.fetch(Remote(url), Promise("0" * 64))
    assert left(cache) == []
    with pytest.raises(
        SourceError, match=f"{url}: changed since the plan pinned it: 7 bytes then, 1,280,000 now"
    ):
        transfer.fetch(Remote(url), Promise("0" * 64, 7))


def test_a_validator_that_lied_is_found_by_the_digest_and_mended(
    server: Site, transfer: Transfer
) -> None:
    url = server.put("/a", b"x" * len(BODY))
    server.faults.append(faults.swapped(BODY, 0.5))  # the same ETag and length, other bytes
    assert get(transfer, url, Promise(SHA256)) == BODY
    assert server.ranges()[-2:] != [None, None]


# -- redirects and credentials


def test_redirects_are_followed_but_not_for_ever(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    server.put("/there", BODY)
    for number in (301, 302, 303, 307, 308):
        server.faults.append(faults.status(number, Location="/there"))
        assert get(transfer, server.address + f"/here{number}") == BODY
    server.faults.extend([faults.status(302, Location="/round")] * 50)
    with pytest.raises(SourceError, match=f"{server.address}/round: more than 10 redirects"):
        transfer.fetch(Remote(server.address + "/round"))
    server.faults.clear()
    server.faults.append(faults.status(302, Location="file:///etc/passwd"))
    with pytest.raises(
        SourceError, match="redirected to file:///etc/passwd, which is not on the web"
    ):
        transfer.fetch(Remote(server.address + "/out"))


def test_credentials_go_to_their_own_origin_only(
    cache: Path, server: Site, transfer: Transfer
) -> None:
    with site() as other:
        other.put("/there", BODY)
        server.faults.append(faults.status(302, Location=f"{other.address}/there"))
        assert get(transfer, server.address + "/here", authorization="Bearer secret") == BODY
        assert server.asked[-1][2]["authorization"] == "Bearer secret"
        assert "authorization" not in other.asked[-1][2]
        # Back again: it may know it.
        server.put("/back", b"back")
        server.faults.append(faults.status(302, Location=f"{other.address}/again"))
        other.faults.append(faults.status(302, Location=f"{server.address}/back"))
        assert get(transfer, server.address + "/here2", authorization="Bearer secret") == b"back"
        assert "authorization" not in other.asked[-1][2]


def test_user_and_password_of_a_url_become_a_header(server: Site, transfer: Transfer) -> None:
    server.put("/a", b"text")
    assert get(transfer, server.address.replace("http://", "http://me:p%40ss@") + "/a") == b"text"
    told = server.asked[-1][2]
    assert base64.b64decode(told["authorization"].removeprefix("Basic ")) == b"me:p@ss"
    assert "me" not in told["host"]


def test_the_user_agent_says_who_calls(cache: Path, server: Site) -> None:
    get(Transfer(Cache(cache), QUICK._replace(contact="crawl@example.org")), server.put("/a", b"x"))
    assert server.asked[-1][2]["user-agent"].startswith("gristmill/")
    assert "(+crawl@example.org)" in server.asked[-1][2]["user-agent"]


SECRETS = ("me:pw", "pw@", "s3cret", "X-Amz", "token=")


def with_secrets(url: str) -> str:
    return url.replace("http://", "http://me:pw@") + "?token=s3cret&X-Amz-Signature=s3cret"


def no_secret_in(cache: Path, message: str = "") -> None:
    texts = [
        message,
        *(path.read_text("latin-1") + path.name for path in cache.rglob("*") if path.is_file()),
    ]
    assert not [secret for text in texts for secret in SECRETS if secret in text]


def test_secrets_reach_no_file_of_the_cache(cache: Path, server: Site) -> None:
    url = with_secrets(server.put("/a", BODY))
    crashed(Transfer(Cache(cache), QUICK), url, 700_000)
    assert list((cache / "partial").glob("*.json"))
    no_secret_in(cache)
    # Tomorrow's signature finds what today's began.
    assert get(Transfer(Cache(cache), QUICK), url.replace("s3cret", "another")) == BODY
    assert server.asked[-1][1] == "/a?token=another&X-Amz-Signature=another"
    assert server.ranges()[-1] is not None
    no_secret_in(cache)


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(404),
        faults.status(500),
        faults.cut(0),
        faults.cut(0.0001),
        faults.packed,
        faults.status(302, Location="/a?token=s3cret&again"),
        faults.status(302, Location="ftp://me:pw@host/?token=s3cret"),
        faults.status(302, Location="http://me:pw@127.0.0.1:9/?token=s3cret"),
        faults.status(403),
    ],
)
def test_secrets_are_in_no_message(
    cache: Path, server: Site, transfer: Transfer, fault: faults.Fault
) -> None:
    url = server.put("/a", BODY)
    server.faults.extend([fault] * 100)
    with pytest.raises(SourceError) as error:
        transfer.fetch(Remote(with_secrets(url)))
    assert url in str(error.value) or "127.0.0.1:9" in str(error.value)
    no_secret_in(cache, str(error.value))


@pytest.mark.parametrize(
    "url",
    ["http://[::1/a", "http://[nonsense]/a", "http://", "http:///a", "http://127.0.0.1:port/a"],
)
def test_what_is_no_url_is_told(transfer: Transfer, url: str) -> None:
    with pytest.raises(SourceError):
        transfer.fetch(Remote(url))


# -- several at once


def test_several_who_want_the_same_file_fetch_it_once(cache: Path, server: Site) -> None:
    url = server.put("/a", BODY * 8)
    found: list[Fetched] = []
    transfers = [Transfer(Cache(cache), QUICK) for _ in range(6)]
    threads = [
        threading.Thread(target=lambda one=one: found.append(one.fetch(Remote(url))))
        for one in transfers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len([headers for _, _, headers in server.asked if "if-none-match" not in headers]) == 1


def test_one_host_gets_no_more_than_its_share(cache: Path, server: Site) -> None:
    shared = Transfer(Cache(cache), QUICK._replace(per_host=2))
    most, now, lock = 0, 0, threading.Lock()

    def slow(here: Site, path: str, reply: faults.Reply) -> faults.Reply:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        return reply

    server.faults.extend([slow] * 8)
    urls = [server.put(f"/{number}", b"%d" % number) for number in range(8)]
    threads = [threading.Thread(target=shared.fetch, args=(Remote(url),)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_local_files_are_read_in_place(cache: Path, tmp_path: Path, transfer: Transfer) -> None:
    for name in ("plain", "with space", "hash#mark?.x", "per%20cent", "ünï"):
        path = tmp_path / name
        path.write_bytes(BODY)
        assert transfer.fetch(Remote(path.as_uri())) == (path, len(BODY), SHA256)
    assert not cache.exists()
    with pytest.raises(SourceError, match="promises sha256"):
        transfer.fetch(Remote(path.as_uri()), Promise("0" * 64))
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        transfer.fetch(Remote((tmp_path / "none").as_uri()))
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        transfer.fetch(Remote(tmp_path.as_uri()))
    with pytest.raises(SourceError, match="of another host"):
        transfer.fetch(Remote("file://host/a"))


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.example\\@{own}/x",
        "http://evil.example\\.{own}/x",
        "http://evil.example/\\@{own}",
        "http://evil example/",
    ],
)
def test_a_redirect_that_two_parsers_read_as_two_hosts_is_refused(
    server: Site, transfer: Transfer, target: str
) -> None:
    own = server.address.removeprefix("http://")
    server.faults.append(faults.status(302, Location=target.format(own=own)))
    with pytest.raises(SourceError, match="is no URL|no URL that can be asked for"):
        transfer.fetch(Remote(server.address + "/a", "Bearer secret"))
    assert len(server.asked) == 1


def test_bytes_that_came_whole_but_were_never_checked_are_checked_by_the_next_run(
    cache: Path, server: Site
) -> None:
    """A kill between the last checkpoint and the comparison with the digest that the server
    tells.
    """
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    url = server.put("/a", BODY[:1000], headers={"Repr-Digest": f"sha-256=:{wrong}:"})
    crashed(Transfer(Cache(cache), QUICK._replace(checkpoint_bytes=1000)), url, 1000)
    assert list((cache / "partial").glob("*.json"))
    with pytest.raises(SourceError, match="the server promises sha256"):
        Transfer(Cache(cache), QUICK).fetch(Remote(url))
    assert left(cache) == []


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://me:pw@h/a?part=3", "https://h/a?part=3"),
        ("https://h/a?api-key=1&x-api-key=2&access-key=3&pwd=4&jwt=5&part=6", "https://h/a?part=6"),
        ("https://h/a?hdnts=exp=1~hmac=2&x=1", "https://h/a"),
        ("https://h/a?q-sign-algorithm=sha1&q-ak=2&q-signature=3", "https://h/a"),
        ("https://h/a?sv=2020&sig=abc", "https://h/a"),
        ("https://h/a?AWSAccessKeyId=1&Signature=2&Expires=3", "https://h/a"),
        ("https://h/a#part", "https://h/a"),
    ],
)
def test_what_is_stored_of_a_url(url: str, kept: str) -> None:
    assert Remote(url).stored == kept
