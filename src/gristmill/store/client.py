"""The HTTP client: polite, patient, and careful with credentials.

What it is for is told in docs/adr/0007.

    Client.open(request) -> Answer      follows redirects by itself, so that it sees every hop
    Again                               what another try may mend: a cut, a stall, 408, 425, 429,
                                        5xx
    SourceError                         what another try would not mend

Credentials go to the origin (scheme, host, port) that they were given for, and to no other: RFC
9110, 15.4.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from gristmill import __version__
from gristmill.errors import SourceError
from gristmill.store.causes import UNKNOWN, brief, cause, certificate, innermost, retry_after
from gristmill.store.hosts import NO_HOST, Hosts, Place, addresses
from gristmill.store.urls import WEB, is_loopback, origin, shown, user_of

# Its own messages quote whole URLs, and with them signatures and tokens.
for _name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

T = TypeVar("T")

BLOCK = 1 << 18  # bytes, the most that is taken from the network at a time
REDIRECTS = 10
TOLD = 0.9  # seconds of waiting from which people are told
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
NOT_ALLOWED = {
    401: (
        "credentials are asked for; name the environment variable that holds them in the "
        "source's `authorization`"
    ),
    403: "it is forbidden, or a signed URL has expired",
}
NO_ANSWER = (
    "The host has not answered at all: is its name right? With --retry it is asked for longer"
)
REFUSALS = {
    401: "forbidden",
    403: "forbidden",
    404: "not-found",
    410: "not-found",
}  # other refusals: `refused`


class Settings(NamedTuple):
    """How a run fetches; nothing of it changes a byte of what is made."""

    connections: int = 8  # downloads at once
    per_host: int = 4  # of them from one host
    contact: str | None = None  # an address or URL, told to the servers
    timeout: float = 60.0  # seconds without a byte until a connection counts as stalled
    slowest: float = 1024.0  # bytes a second, over `timeout` seconds; slower is stalled too
    retries: int = 5  # tries one after another that bring nothing, or bring it slower than that
    tries: int = 100  # of one download in all, and one more for each MiB of it that is here
    # times that a download starts at byte zero: the server gives what does not fit what is here
    restarts: int = 10
    # seconds for a host that has never answered: name, connection, all tries together
    first_answer: float = 4.0
    retry: bool = False  # as patient with such a host as with one that has answered
    allow_env: frozenset[str] = (
        frozenset()
    )  # variables that a recipe may send to its hosts: store/secrets.py
    largest: int = (
        64 << 30
    )  # bytes of a file that has no other limit, and of a body whose length nobody tells
    # seconds before the second try; doubled with every further one, with jitter
    backoff: float = 1.0
    patience: float = 600.0  # seconds, the longest that a Retry-After is obeyed
    checkpoint_bytes: int = 64 << 20  # between two checkpoints of a download


def asked_of(
    connections: int | None,
    checkpoint_bytes: int | None,
    retry: bool = False,
    allow_env: Collection[str] = (),
) -> Settings:
    """The settings, with what the command line asks for."""
    settings = Settings(
        retry=retry, allow_env=frozenset([allow_env] if isinstance(allow_env, str) else allow_env)
    )
    if connections is not None:
        settings = settings._replace(
            connections=connections, per_host=min(connections, settings.per_host)
        )
    return settings._replace(checkpoint_bytes=checkpoint_bytes or settings.checkpoint_bytes)


class Request(NamedTuple):
    """What is asked of a server, with the credentials that go to its origin only."""

    name: str  # what messages call it
    url: str
    headers: dict[str, str]
    authorization: str | None = None
    method: str = "GET"
    begun: bool = False  # some of it is here: its host was there before


class Stopped(Exception):
    """The run is ending."""


class Again(Exception):
    """Another try may mend this.

    `after`: seconds that the server asked for; `host`: one that has never answered.
    """

    def __init__(self, reason: str, after: float | None = None, host: Place | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.host = host


class Answer(NamedTuple):
    """A server's answer; the body has not been read."""

    status: int
    headers: Any  # case-insensitive mapping
    linked: dict[str, str]  # X-Linked-* of the first origin's own answers, in lower case
    response: Any
    settings: Settings

    def blocks(self) -> Iterator[bytes]:
        """The body as it is on the wire.

        Raises Again where it ends early, stalls, or is chunked wrongly.
        """
        import urllib3

        from gristmill.store.watch import cut_after

        waited, came = 0.0, 0  # for the network only: a slow disk is not the server's
        try:
            while True:
                begun = time.monotonic()
                # Within one read a chunk's length may drip; a plain body's bytes are seen as they
                # come.
                with cut_after(
                    2 * self.settings.timeout if self.response.chunked else None,
                    self.response.shutdown,
                ):
                    block = self.response.read1(BLOCK, decode_content=False)
                waited += time.monotonic() - begun
                if not block:
                    return
                came += len(block)
                if waited > self.settings.timeout:
                    if came < self.settings.slowest * waited:
                        least = f"{self.settings.slowest:,.0f} bytes a second are the least"
                        raise Again(f"stalled: {came:,} bytes in {waited:.0f} s ({least})")
                    waited, came = 0.0, 0
                yield block
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Again(cause(error)) from error


class Client:
    """One run's connections, reused and limited; safe for threads."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is opened before the first request."""
        self.settings = settings
        contact = f" (+{settings.contact})" if settings.contact else ""
        self._agent = f"gristmill/{__version__}{contact}"
        self._lock = threading.Lock()
        self._pools: dict[str, Any] = {}
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._hosts = Hosts(None if settings.retry else settings.first_answer)
        self._open: set[Any] = set()  # answers under way
        self.stop = threading.Event()
        # What people should hear of waiting, for whoever shows it.
        self.told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(self, seconds: float) -> None:
        """Sleep, unless the run ends. Raises Stopped."""
        if self.stop.wait(seconds):
            raise Stopped

    def end(self) -> None:
        """Have every thread that fetches leave: no new request, and what is under way ends with its
        next byte.
        """
        self.stop.set()
        with self._lock:
            for response in self._open:
                with suppress(Exception):
                    response.shutdown()

    def retrying(self, name: str, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, a few times.

        Raises SourceError, which names what was asked for.
        """
        for failures in range(1, self.settings.retries + 2):
            try:
                return ask()
            except Again as error:
                if failures > self.settings.retries:
                    raise SourceError(
                        f"{name}: could not be asked for in {failures} tries: {error}",
                        "unreachable",
                    ) from error
                self.rest(name, error, failures)
        raise AssertionError

    def rest(self, name: str, error: Again, failures: int) -> None:
        """Wait before the next try: exponential with jitter, and no less than the server asks for.

        Raises Stopped; SourceError where a host that has never answered has had its time.
        """
        longest = min(self.settings.backoff * 2.0 ** (failures - 1), 60.0)
        backoff = longest * random.uniform(0.5, 1.0)  # noqa: S311 - not cryptography
        seconds = max(backoff, error.after or 0.0)
        if error.host is not None and seconds >= (self._hosts.left(error.host) or 0.0):
            self._hosts.give_up(error.host)
            raise SourceError(f"{name}: {error}. {NO_ANSWER}", "unreachable")
        if seconds >= TOLD:
            self.told.put(f"{name}: {error}; trying again in {seconds:.0f} s")
        self.wait(seconds)

    @contextmanager
    def open(self, request: Request) -> Iterator[Answer]:
        """Ask, and follow redirects; the connection is given back when the body was read, and
        closed otherwise.
        """
        first = origin(request.url)
        with self._slot(first[1]):
            answer = self._ask(request, first)
            with self._lock:
                self._open.add(answer.response)
            try:
                yield answer
                if answer.response.length_remaining == 0 or request.method == "HEAD":
                    answer.response.release_conn()
            finally:
                # What was not read to its end would stand before the next answer.
                with self._lock:
                    self._open.discard(answer.response)
                answer.response.close()

    @contextmanager
    def _slot(self, host: str) -> Iterator[None]:
        """One of a host's connections; waits for it unless the run ends."""
        slot = self._host(host)
        while not slot.acquire(timeout=0.2):
            self.wait(0)
        try:
            self.wait(0)
            yield
        finally:
            slot.release()

    def _host(self, host: str) -> threading.BoundedSemaphore:
        with self._lock:
            return self._slots.setdefault(host, threading.BoundedSemaphore(self.settings.per_host))

    def _ask(self, request: Request, first: tuple[str, str]) -> Answer:
        import urllib3

        url = request.url
        linked: dict[str, str] = {}
        for _ in range(REDIRECTS + 1):
            if not _same_host(url):
                raise SourceError(f"{request.name}: no URL that can be asked for")
            headers = {"User-Agent": self._agent, "Accept-Encoding": "identity", **request.headers}
            if request.authorization and origin(url) == first:
                headers["Authorization"] = request.authorization
            left = None if request.begun else self._hosts.left(origin(url))
            try:
                response = self._pool(url).request(
                    request.method,
                    url,
                    headers=headers,
                    preload_content=False,
                    decode_content=False,
                    redirect=False,
                    retries=False,
                    timeout=urllib3.Timeout(
                        self._connect(request, url, left), self.settings.timeout
                    ),
                )
            except urllib3.exceptions.LocationValueError as error:
                raise SourceError(f"{request.name}: no URL that can be asked for") from error
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                if certificate(error):
                    raise SourceError(
                        f"{request.name}: its certificate is not trusted: {certificate(error)}",
                        "unreachable",
                    ) from error
                absent = innermost(error) in NO_HOST
                if not absent:
                    self._hosts.came(origin(url))
                raise Again(
                    cause(error), host=origin(url) if absent and left is not None else None
                ) from error
            self._hosts.came(origin(url))
            if origin(url) == first:
                linked |= {
                    name.lower(): value
                    for name, value in response.headers.items()
                    if name.lower().startswith("x-linked-")
                }
            if (
                response.status not in (301, 302, 303, 307, 308)
                or "Location" not in response.headers
            ):
                return self._checked(
                    request.name,
                    Answer(response.status, response.headers, linked, response, self.settings),
                )
            response.close()
            try:
                target = urljoin(url, response.headers["Location"])
            except ValueError:
                raise SourceError(
                    f"{request.name}: redirected to what is no URL", "redirected"
                ) from None
            if not target.startswith(WEB):
                raise SourceError(
                    f"{request.name}: redirected to {brief(shown(target))}, which is not on the web",
                    "redirected",
                )
            if url.startswith("https://") and not target.startswith("https://"):
                raise SourceError(
                    f"{request.name}: redirected from https to plain http ({brief(shown(target))})",
                    "redirected",
                )
            url = target
        raise SourceError(f"{request.name}: more than {REDIRECTS} redirects", "redirected")

    def _connect(self, request: Request, url: str, left: float | None) -> float:
        """Seconds for a connection to one of a host's addresses.

        Raises Again, SourceError where a new host is not there.
        """
        usual = min(30.0, self.settings.timeout)
        if left is None:
            return usual
        if left <= 0.0:
            raise SourceError(f"{request.name}: no connection. {NO_ANSWER}", "unreachable")
        if self._proxy(url):
            return min(usual, left)
        parts = urlsplit(url)
        count = addresses(parts.hostname or "", parts.port or 0, left)
        if not count:
            raise Again(
                UNKNOWN if count == 0 else "nobody tells the host's address", host=origin(url)
            )
        return min(usual, max(0.1, (self._hosts.left(origin(url)) or left) / count))

    def _checked(self, name: str, answer: Answer) -> Answer:
        """The answer, if its status means that there is something to read, or that nothing
        changed.
        """
        status = answer.status
        if status in (200, 206, 304, 416):
            return answer
        answer.response.close()
        said = f"the server answered {status} {brief(answer.response.reason or '')}".rstrip()
        if status in TRY_AGAIN:
            after = retry_after(answer.headers)
            if after is not None and after > self.settings.patience:
                raise SourceError(
                    f"{name}: {said}, and asks to come back in {after:,.0f} seconds", "unreachable"
                )
            raise Again(said, after)
        why = f": {NOT_ALLOWED[status]}" if status in NOT_ALLOWED else ""
        raise SourceError(f"{name}: {said}{why}", REFUSALS.get(status, "refused"))

    def _pool(self, url: str) -> Any:
        """A pool of connections: direct, or through the proxy that the environment names."""
        import urllib3

        from gristmill.store.watch import POOLS

        proxy = self._proxy(url)
        with self._lock:
            if proxy not in self._pools:
                size: dict[str, Any] = {"maxsize": self.settings.connections, "num_pools": 64}
                if proxy:
                    user = user_of(proxy)
                    size["proxy_headers"] = (
                        urllib3.util.make_headers(proxy_basic_auth=user) if user else None
                    )
                made = urllib3.ProxyManager(proxy, **size) if proxy else urllib3.PoolManager(**size)
                made.pool_classes_by_scheme = POOLS
                self._pools[proxy] = made
            return self._pools[proxy]

    def _proxy(self, url: str) -> str:
        """The proxy that the environment names for a URL; loopback is nobody else's business."""
        scheme, host = origin(url)
        return "" if is_loopback(url) or proxy_bypass(host) else getproxies().get(scheme, "")

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.clear()


def _same_host(url: str) -> bool:
    """Whether the two parsers of URLs, ours and urllib3's, agree on the host: credentials go by
    ours, the connection by theirs.
    """
    import urllib3

    try:
        theirs = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        return False
    port = f":{theirs.port}" if theirs.port is not None else ""
    return origin(f"{theirs.scheme}://{theirs.host or ''}{port}/") == origin(url)
