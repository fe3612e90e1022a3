"""Transfer: whatever a server does, a file that has its name is whole, and an error names the URL and no secret."""

import gc
import gzip
import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gristmill.demonstration.server import serving
from gristmill.errors import SourceError
from gristmill.store import transfer
from gristmill.store.transfer import fetch, is_url, shown

BODY = bytes(range(256)) * 5_000
SHA256 = hashlib.sha256(BODY).hexdigest()

# Of a server that hangs up, the client's side of the socket is left to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Faulty:
    """A server whose answers to a path are played one after the other; the last one again and again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def play(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return self.address + path


@contextmanager
def faulty_server() -> Iterator[Faulty]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            faulty.asked.append((self.path, dict(self.headers)))
            answers = faulty.answers[path]
            (answers.pop(0) if len(answers) > 1 else answers[0])(self)

        def log_message(self, *told: object) -> None:
            """Say nothing."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that go away are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    faulty = Faulty(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield faulty
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_connection_outlives_a_test() -> Iterator[None]:
    """Else a socket that nobody closed is a warning in some later test."""
    yield
    for pool in transfer._pools:
        pool.clear()
    gc.collect()


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    with faulty_server() as server:
        yield server


def answer(
    status: int = 200, body: bytes = BODY, *, length: str | None = None, sent: int | None = None, **headers: str
) -> Answer:
    """An answer; `length` is what it promises, `sent` how many bytes come before the connection is cut."""

    def give(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)) if length is None else length)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body[:sent])
        if sent is not None or length is not None:
            handler.close_connection = True

    return give


def hang_up(handler: http.server.BaseHTTPRequestHandler) -> None:
    """No answer at all."""
    handler.close_connection = True


def objects(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "objects").iterdir()) if (cache / "objects").exists() else []


def test_a_file_comes_in_whole_and_is_named_by_its_sha256(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "a.bin").write_bytes(BODY)
    (folder / "empty").write_bytes(b"")
    told: list[int] = []
    with serving(folder) as address:
        got = fetch(f"{address}/a.bin", cache, progress=told.append)
        assert fetch(f"{address}/empty", cache).size == 0
    assert (got.sha256, got.size, got.path) == (SHA256, len(BODY), cache / "objects" / SHA256)
    assert got.path.read_bytes() == BODY
    assert sum(told) == len(BODY)
    assert len(objects(cache)) == 2


def test_what_the_cache_holds_is_asked_for_with_its_etag_and_not_sent_again(cache: Path, faulty: Faulty) -> None:
    url = faulty.play("/a", answer(ETag='"one"'), answer(304, b""))
    assert fetch(url, cache) == fetch(url, cache)
    assert faulty.asked[1][1]["If-None-Match"] == '"one"'
    # Pinned, it is not even asked for.
    assert fetch(url, cache, sha256=SHA256).sha256 == SHA256
    assert len(faulty.asked) == 2


def test_a_file_that_changed_at_the_server_is_fetched_again(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    with serving(folder) as address:
        for body in (b"one", b"two", b"three"):
            (folder / "a").write_bytes(body)
            assert fetch(f"{address}/a", cache).path.read_bytes() == body
    assert len(objects(cache)) == 3


def test_a_cached_object_that_is_gone_or_short_is_fetched_again(cache: Path, faulty: Faulty) -> None:
    url = faulty.play("/a", answer(ETag='"one"'))
    got = fetch(url, cache)
    for harm in (got.path.unlink, lambda: got.path.write_bytes(b"short")):
        harm()
        assert fetch(url, cache).path.read_bytes() == BODY
        assert "If-None-Match" not in faulty.asked[-1][1]


def test_a_note_of_the_cache_that_is_none_is_not_believed(cache: Path, faulty: Faulty) -> None:
    url = faulty.play("/a", answer(ETag='"one"'))
    fetch(url, cache)
    (note,) = (cache / "urls").iterdir()
    for data in (b"", b"{", b"[]", b'{"url": 1}', b"\xff"):
        note.write_bytes(data)
        assert fetch(url, cache).sha256 == SHA256


@pytest.mark.parametrize(
    "first",
    [
        answer(sent=len(BODY) // 2),
        answer(sent=0),
        hang_up,
        answer(500, b"oops"),
        answer(503, b"x" * 100_000),
        answer(429, b"slow down"),
    ],
    ids=["cut in the middle", "cut at the start", "no answer", "500", "503 with a long body", "429"],
)
def test_a_fault_that_passes_is_tried_again(cache: Path, faulty: Faulty, first: Answer) -> None:
    url = faulty.play("/a", first, answer())
    assert fetch(url, cache).path.read_bytes() == BODY
    assert objects(cache) == [SHA256]


@pytest.mark.parametrize(
    "always", [answer(sent=len(BODY) // 2), answer(sent=0), hang_up, answer(length=str(len(BODY) + 1))]
)
def test_a_fault_that_stays_is_an_error_that_names_the_url_and_nothing_is_kept(
    cache: Path, faulty: Faulty, always: Answer
) -> None:
    url = faulty.play("/deep/a.wet.gz", always)
    with pytest.raises(SourceError) as error:
        fetch(url, cache)
    assert url in str(error.value)
    assert "could not be fetched in 4 tries" in str(error.value)
    assert objects(cache) == []
    assert not list(cache.rglob("*.json"))
    assert 4 <= len(faulty.asked) <= 25


def test_a_length_that_is_no_number_does_no_harm(cache: Path, faulty: Faulty) -> None:
    try:
        assert fetch(faulty.play("/a", answer(length="many")), cache).sha256 == SHA256
    except SourceError as error:
        assert faulty.address in str(error)


def test_a_promise_that_is_shorter_than_what_comes_is_kept_to(cache: Path, faulty: Faulty) -> None:
    assert fetch(faulty.play("/a", answer(length="1000")), cache).path.read_bytes() == BODY[:1000]


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (410, 1), (401, 1), (204, 1)])
def test_a_refusal_is_told_with_its_number(cache: Path, faulty: Faulty, status: int, tries: int) -> None:
    url = faulty.play("/a", answer(status, b"" if status == 204 else b"a page about it"))
    with pytest.raises(SourceError, match=f"{url}: the server answered {status}"):
        fetch(url, cache)
    assert len(faulty.asked) == tries
    assert objects(cache) == []
    # The connection is still good for another file.
    assert fetch(faulty.play("/b", answer()), cache).sha256 == SHA256


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_cannot_is_asked_four_times(cache: Path, faulty: Faulty, status: int) -> None:
    url = faulty.play("/a", answer(status, b"a page about it"))
    with pytest.raises(SourceError, match=f"{url}: the server answered {status}"):
        fetch(url, cache)
    assert len(faulty.asked) == 4


def test_a_server_that_is_not_there_is_told(cache: Path) -> None:
    with faulty_server() as gone:
        url = gone.address + "/a"
    with pytest.raises(SourceError, match=f"{url}: could not be fetched"):
        fetch(url, cache)


def test_a_content_encoding_laid_on_top_is_refused(cache: Path, faulty: Faulty) -> None:
    url = faulty.play("/a", answer(body=gzip.compress(BODY), Content_Encoding="gzip"))
    with pytest.raises(SourceError, match=f"{url}: sent with a Content-Encoding that was not asked for"):
        fetch(url, cache)
    assert faulty.asked[0][1]["Accept-Encoding"] == "identity"
    assert objects(cache) == []
    assert fetch(faulty.play("/b", answer(Content_Encoding="identity")), cache).sha256 == SHA256


def test_redirects_are_followed_but_not_for_ever(cache: Path, faulty: Faulty) -> None:
    faulty.play("/there", answer())
    assert fetch(faulty.play("/here", answer(302, b"", Location="/there")), cache).sha256 == SHA256
    with pytest.raises(SourceError, match="/round"):
        fetch(faulty.play("/round", answer(302, b"", Location="/round")), cache)
    with pytest.raises(SourceError):
        fetch(faulty.play("/out", answer(302, b"", Location="file:///etc/passwd")), cache)
    assert objects(cache) == [SHA256]


def test_bytes_that_are_not_the_pinned_ones_are_refused(cache: Path, faulty: Faulty) -> None:
    url = faulty.play("/a", answer())
    with pytest.raises(SourceError, match="changed since it was pinned") as error:
        fetch(url, cache, sha256="0" * 64)
    assert SHA256 in str(error.value)
    assert url in str(error.value)


def test_local_files_are_read_in_place(cache: Path, tmp_path: Path) -> None:
    for name in ("plain", "with space", "hash#mark?.x", "per%20cent", "ünï"):
        path = tmp_path / name
        path.write_bytes(BODY)
        assert fetch(path.as_uri(), cache) == (path, len(BODY), SHA256)
    assert not cache.exists()
    with pytest.raises(SourceError, match="changed since it was pinned"):
        fetch(path.as_uri(), cache, sha256="0" * 64)
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        fetch((tmp_path / "none").as_uri(), cache)
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        fetch(tmp_path.as_uri(), cache)


def test_what_is_shown_of_a_url_holds_no_secret() -> None:
    assert shown("http://user:pw@host.example:8080/a/b.gz?token=secret&x=1#part") == "http://host.example:8080/a/b.gz"
    assert shown("https://host.example/a@b?c") == "https://host.example/a@b"
    assert is_url("https://a")
    assert not is_url("raw/http.gz")


SECRETS = ("user:pw", "pw@", "secret", "token=")


def with_secrets(url: str) -> str:
    return url.replace("http://", "http://user:pw@") + "?token=secret"


def no_secret_in(cache: Path, message: str = "") -> None:
    texts = [message, *(path.read_text("latin-1") + path.name for path in cache.rglob("*") if path.is_file())]
    assert not [secret for text in texts for secret in SECRETS if secret in text]


def test_credentials_and_query_reach_no_file_of_the_cache(cache: Path, faulty: Faulty) -> None:
    fetch(with_secrets(faulty.play("/a", answer(body=b"text", ETag='"one"'))), cache)
    assert faulty.asked[0][0] == "/a?token=secret"
    assert len(list(cache.rglob("*"))) == 4
    no_secret_in(cache)


@pytest.mark.parametrize(
    "always", [answer(404, b""), answer(500, b""), answer(sent=100), answer(Content_Encoding="gzip")]
)
def test_credentials_and_query_are_in_no_message(cache: Path, faulty: Faulty, always: Answer) -> None:
    url = faulty.play("/a", always)
    with pytest.raises(SourceError) as error:
        fetch(with_secrets(url), cache)
    assert url in str(error.value)
    no_secret_in(cache, str(error.value))


@pytest.mark.parametrize(
    "always",
    [hang_up, answer(302, b"", Location="/a?token=secret&again"), None],
    ids=["no answer", "a circle", "no server"],
)
def test_credentials_and_query_are_in_no_message_of_a_connection_that_failed(
    cache: Path, faulty: Faulty, always: Answer | None
) -> None:
    url = faulty.play("/a", always) if always else "http://127.0.0.1:9/a"
    with pytest.raises(SourceError) as error:
        fetch(with_secrets(url), cache)
    no_secret_in(cache, str(error.value))


@pytest.mark.parametrize("url", ["http://[::1/a", "http://[nonsense]/a"])
def test_what_is_no_url_is_told(cache: Path, url: str) -> None:
    with pytest.raises(SourceError):
        fetch(url, cache)


@pytest.mark.parametrize("url", ["http://", "http:///a", "http://host.invalid:99999/a", "http://127.0.0.1:port/a"])
def test_a_url_without_a_host_is_told(cache: Path, url: str) -> None:
    with pytest.raises(SourceError, match="could not be fetched"):
        fetch(url, cache)


def test_tries_are_bounded() -> None:
    assert transfer.RETRIES <= 5
    assert transfer.TIMEOUT <= 120
