"""Downloads end: bodies, headers, trailers, redirects and bombs without end, servers that give
another file each time, hosts that are not there.
"""

import itertools
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gristmill.errors import SourceError
from gristmill.store.cache import Cache
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import faults
from tests.support.faults import Reply, Site, site

BODY = bytes(range(256)) * 2_000
QUICK = Settings(backoff=0.0, retries=3, timeout=5.0, checkpoint_bytes=100_000)
Talk = Callable[[socket.socket], None]


@contextmanager
def talking(talk: Talk) -> Iterator[str]:
    """A server that says what it likes on every connection, after the request; yields its
    address.
    """
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    open_ones: list[socket.socket] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while b"\r\n\r\n" not in connection.recv(1 << 16):
                pass
            talk(connection)

    def listen() -> None:
        with suppress(OSError):
            while True:
                open_ones.append(server.accept()[0])
                threading.Thread(target=one, args=(open_ones[-1],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a.jsonl"
    finally:
        server.close()
        for connection in open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def for_ever(connection: socket.socket, head: bytes, piece: bytes) -> None:
    """A head, and then the same piece until the other side has had enough."""
    connection.sendall(head)
    for _ in range(200_000):
        connection.sendall(piece)


def refused(
    cache: Path, url: str, settings: Settings = QUICK, promise: Promise | None = None
) -> SourceError:
    """The error of a download that does not end well, and nothing of it in the cache but notes."""
    transfer = Transfer(Cache(cache), settings)
    try:
        with pytest.raises(SourceError) as told:
            transfer.fetch(Remote(url), promise)
    finally:
        transfer.close()
    assert url in str(told.value)
    return told.value


def kept(cache: Path) -> int:
    """Bytes of partials and objects."""
    return sum(
        path.stat().st_size
        for name in ("partial", "objects")
        for path in (cache / name).rglob("*")
        if path.is_file()
    )


# -- bodies


ENDLESS = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: "1"\r\n\r\n'
CHUNK = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"


def test_an_endless_body_stops_at_its_limit_and_leaves_nothing(cache: Path) -> None:
    most = Promise(most=3_000_000, limit="its source's max_shard_bytes allows")
    with talking(lambda connection: for_ever(connection, ENDLESS, CHUNK)) as url:
        error = refused(cache, url, promise=most)
        assert str(error) == (
            f"{url}: more than 3,000,000 bytes, the most that its source's max_shard_bytes "
            "allows: nothing of it is kept"
        )
        assert error.reason == "too-large"
        assert kept(cache) == 0
        # Where nothing else is said, a body of unknown length has a limit all the same.
        error = refused(cache, url, QUICK._replace(largest=2_000_000), Promise(most=1 << 40))
        assert "more than 2,000,000 bytes, the most that a body of unknown length may have" in str(
            error
        )
        assert kept(cache) == 0


def test_a_length_beyond_the_limit_is_refused_before_a_byte_comes(cache: Path) -> None:
    with site() as server:
        url = server.put("/a", BODY)
        error = refused(cache, url, promise=Promise(most=len(BODY) - 1))
        assert "more than 511,999 bytes" in str(error)
        assert kept(cache) == 0
        server.faults.append(faults.cut(0.5))
        server.faults.append(faults.told_range(f"bytes 0-{10**17}/{10**17 + 1}"))
        Transfer(Cache(cache), QUICK).fetch(
            Remote(url), Promise(most=len(BODY))
        )  # exactly as much as may be


def test_what_was_begun_under_a_higher_limit_is_removed_too(cache: Path) -> None:
    with site() as server:
        url = server.put("/a", BODY)
        server.faults.extend([faults.cut(0.8)] + [faults.status(503)] * 3)
        refused(cache, url)
        assert kept(cache) > 100_000
        assert "more than 300,000 bytes" in str(refused(cache, url, promise=Promise(most=300_000)))
        assert kept(cache) == 0


def test_the_sources_max_shard_bytes_bounds_what_comes(tmp_path: Path) -> None:
    from gristmill.pipeline import ShardsFailed, run

    recipe = tmp_path / "recipe.toml"
    told: list[dict[str, object]] = []
    with talking(lambda connection: for_ever(connection, ENDLESS, CHUNK)) as url:
        recipe.write_text(
            f'[[source]]\nname = "web"\nurls = ["{url}"]\nmax_shard_bytes = 1000000\n'
        )
        with pytest.raises(ShardsFailed):
            run(
                recipe,
                out=tmp_path / "out",
                workers=1,
                cache_dir=tmp_path / "cache",
                show=told.append,
            )
    assert any(
        f"failed: {url}: more than 1,000,000 bytes" in str(line.get("text")) for line in told
    )
    assert kept(tmp_path / "cache") == 0


# -- servers that change their mind


def fickle(**change: object) -> faults.Fault:
    """A file that is another each time: it comes by half, under another validator or of another
    length.
    """
    number = itertools.count(2)

    def fault(here: Site, path: str, reply: Reply) -> Reply:
        count = next(number)
        body = BODY + b"y" * count if "length" in change else BODY
        head = {**reply.headers, "ETag": '"1"' if "length" in change else f'"{count}"'}
        return Reply(
            200,
            head,
            body,
            cut=int(len(body) * (0.3 + 0.01 * (count % 60))),
            reset="reset" in change,
        )

    return fault


@pytest.mark.parametrize(
    "change", [{}, {"length": True}, {"reset": True}], ids=["ETag", "length", "reset"]
)
def test_a_server_that_gives_another_file_each_time_is_given_up(
    cache: Path, change: dict[str, object]
) -> None:
    with site() as server:
        url = server.put("/a", BODY)
        server.faults.extend([fickle(**change)] * 1000)
        patient = QUICK._replace(retries=50)
        error = refused(cache, url, patient)
        assert "started over 11 times" in str(error)
        assert "the server gives another file each time" in str(error)
        assert len(server.asked) <= 13


def test_a_server_that_resets_after_every_few_bytes_is_given_up(cache: Path) -> None:
    with site() as server:
        url = server.put("/a", BODY)
        server.faults.extend([replace_cut(400)] * 1000)
        error = refused(cache, url, QUICK._replace(tries=20))
        assert "could not be fetched in 20 tries that each brought a little" in str(error)
        assert len(server.asked) == 20


def replace_cut(after: int) -> faults.Fault:
    """The connection is reset after this many bytes of head and body."""
    return lambda here, path, reply: replace(reply, cut=after, reset=True)


def test_a_server_that_drips_is_given_up(cache: Path) -> None:
    """Each attempt brings something, and each is slower than the least rate."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: "1"\r\n\r\n')
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)

    begun = time.monotonic()
    with talking(drip) as url:
        error = refused(cache, url, QUICK._replace(timeout=0.2))
    assert "in 4 tries: stalled: " in str(error)
    assert "(1,024 bytes a second are the least)" in str(error)
    assert time.monotonic() - begun < 5


# -- heads, trailers, redirects, bombs


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 10_000),
        (b"HTTP/1.1 200 ", b"O" * 10_000),
        (ENDLESS + b"5\r\nhello\r\n0\r\n", b"X-Trailer: and more\r\n"),
        (ENDLESS + b"5;", b"extension" * 1000),
    ],
    ids=["headers", "a header", "a reason", "trailers", "a chunk's extension"],
)
def test_what_stands_around_a_body_is_bounded(cache: Path, head: bytes, piece: bytes) -> None:
    begun = time.monotonic()
    with talking(lambda connection: for_ever(connection, head, piece)) as url:
        assert refused(cache, url, QUICK._replace(retries=1)).reason == "unreachable"
    assert time.monotonic() - begun < 4  # not the time out: the bytes tell
    assert kept(cache) < 1000


def test_interim_answers_without_end_meet_the_time_limit(cache: Path) -> None:
    begun = time.monotonic()
    with talking(
        lambda connection: for_ever(connection, b"", b"HTTP/1.1 100 Continue\r\n\r\n")
    ) as url:
        refused(cache, url, QUICK._replace(timeout=0.3, retries=1))
    assert time.monotonic() - begun < 4


def test_a_bomb_laid_on_top_is_not_unpacked(cache: Path) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = (
        b"".join(packer.compress(bytes(1 << 20)) for _ in range(50)) + packer.flush()
    )  # 50 MB in 50 kB
    with site() as server:
        url = server.put("/a.jsonl", bomb, headers={"Content-Encoding": "gzip"})
        assert refused(cache, url).reason == "refused"
        # As the file's own packing it stays what it is; who unpacks it has a limit of its own.
        own = server.put("/a.jsonl.gz", bomb, headers={"Content-Encoding": "gzip"})
        assert Transfer(Cache(cache), QUICK).fetch(Remote(own)).size == len(bomb)


# -- hosts that are not there


def test_a_missing_host_fails_soon_and_once_for_all(cache: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    hasty = Settings(first_answer=0.5, backoff=0.2)
    transfer = Transfer(Cache(cache), hasty)
    begun = time.monotonic()
    with pytest.raises(
        SourceError,
        match=r": no connection\. The host has not answered at all: "
        r"is its name right\? With --retry",
    ):
        transfer.fetch(Remote(f"{address}/a"))
    assert time.monotonic() - begun < 1.5
    begun = time.monotonic()
    for number in range(50):  # the others do not wait again
        with pytest.raises(SourceError, match=f"{address}/{number}: no connection") as error:
            transfer.fetch(Remote(f"{address}/{number}"))
    assert time.monotonic() - begun < 1.0
    assert error.value.reason == "unreachable"
    # With --retry: as patient as with any host.
    with pytest.raises(SourceError, match="could not be fetched in 3 tries: no connection"):
        Transfer(Cache(cache), hasty._replace(retry=True, retries=2)).fetch(Remote(f"{address}/a"))


def test_a_name_that_nobody_knows_is_told(cache: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(
        SourceError,
        match=r"http://nowhere\.invalid/a: "
        r"(the host's name is not known|no name server gives the host's address"
        r"|no connection\. The host has not answered at all: is its name right)",  # slow servers
    ):
        Transfer(Cache(cache), Settings(first_answer=0.5, backoff=0.2)).fetch(
            Remote("http://nowhere.invalid/a")
        )
    assert time.monotonic() - begun < 2.0


def test_a_black_hole_fails_soon(cache: Path) -> None:
    """A listener whose queue is full answers no further connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        begun = time.monotonic()
        with pytest.raises(
            SourceError, match=r": no connection in time\. The host has not answered at all"
        ):
            Transfer(Cache(cache), Settings(first_answer=0.5, backoff=0.2)).fetch(
                Remote(f"http://127.0.0.1:{port}/a")
            )
        assert time.monotonic() - begun < 2.0
        for filler in fillers:
            filler.close()


def test_a_host_that_was_there_before_keeps_its_patience(cache: Path) -> None:
    """What an earlier run began is waited for as before, and so is a host that answered in this
    run.
    """
    hasty = QUICK._replace(first_answer=0.0, retries=2)
    with site() as server:
        url = server.put("/a", BODY)
        server.faults.extend([faults.cut(0.8)] + [faults.status(503)] * 3)
        refused(cache, url)
        transfer = Transfer(Cache(cache), QUICK._replace(first_answer=0.5))
        other = server.put("/b", b"b")
        transfer.fetch(Remote(other))
    with pytest.raises(SourceError, match="could not be fetched in 3 tries: no connection"):
        Transfer(Cache(cache), hasty).fetch(Remote(url))
    with pytest.raises(SourceError, match="could not be asked for in 4 tries: no connection"):
        transfer.fetch(Remote(other))
