"""The HTTP client: polite, patient, and careful with credentials. Why it is our own: ADR 7.

    Client.open(request) -> Answer    follows redirects by itself, so that it sees every hop
    Again                             another try may succeed: a cut, a stall, 408, 425, 429, 5xx
    SourceError                       another try would not

Credentials go to the origin (scheme, host, port) that they were given for, and to no other: RFC
9110, 15.4. A redirect never leads nearer (store/http/hosts.py): from the internet neither into this
machine's network nor to this machine, whatever a name server says.
"""

import logging
import queue
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from gristmill import __version__
from gristmill.errors import SourceError
from gristmill.store.http.answers import Again, Answer, Request, Stopped
from gristmill.store.http.causes import UNKNOWN, brief, cause, certificate, innermost, retry_after
from gristmill.store.http.hosts import HERE, NO_HOST, PUBLIC, Hosts, addresses, nearest_address
from gristmill.store.http.settings import Settings
from gristmill.store.http.urls import WEB, is_loopback, origin, shown, url_user

# Its own messages quote whole URLs, and with them signatures and tokens.
for _name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

T = TypeVar("T")

REDIRECTS = 10
MESSAGE_AFTER = 0.9  # seconds of waiting from which there is a message
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


class Client:
    """One run's connections, reused and limited; safe for threads."""

    def __init__(self, settings: Settings) -> None:
        """Open nothing before the first request."""
        self.settings = settings
        contact = f" (+{settings.contact})" if settings.contact else ""
        self._agent = f"gristmill/{__version__}{contact}"
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, int], Any] = {}
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._hosts = Hosts(None if settings.retry else settings.first_answer)
        self._open: set[Any] = set()  # answers under way
        self.stop = threading.Event()
        # Messages about waiting, for progress to show.
        self.messages: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(self, seconds: float) -> None:
        """Sleep, unless the run ends. Raises Stopped."""
        if self.stop.wait(seconds):
            raise Stopped

    def end(self) -> None:
        """Stop every thread that fetches: no new request, and current ones end with their next
        byte.
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
        """Wait before the next try: exponential with jitter, and at least as long as the server
        asks for.

        Raises Stopped; SourceError if the time of a host that has never answered is over.
        """
        longest = min(self.settings.backoff * 2.0 ** (failures - 1), 60.0)
        backoff = longest * random.uniform(0.5, 1.0)  # noqa: S311 - not cryptography
        seconds = max(backoff, error.after or 0.0)
        if error.host is not None and seconds >= (self._hosts.left(error.host) or 0.0):
            self._hosts.give_up(error.host)
            raise SourceError(f"{name}: {error}. {NO_ANSWER}", "unreachable")
        if seconds >= MESSAGE_AFTER:
            self.messages.put(f"{name}: {error}; trying again in {seconds:.0f} s")
        self.wait(seconds)

    @contextmanager
    def open(self, request: Request) -> Iterator[Answer]:
        """Send a request and follow redirects. The connection is reused if the body was read to its
        end, and closed otherwise.
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
        """Return the answer at the end of all redirects; `first` is the origin of the request."""
        url = request.url
        linked: dict[str, str] = {}
        nearest = PUBLIC if request.public else HERE
        for _ in range(REDIRECTS + 1):
            response = self._send(request, url, nearest, with_credentials=origin(url) == first)
            nearest = min(nearest, response.nearness)
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
            url = _redirect(request.name, url, response.headers["Location"])
        raise SourceError(f"{request.name}: more than {REDIRECTS} redirects", "redirected")

    def _send(self, request: Request, url: str, nearest: int, *, with_credentials: bool) -> Any:
        """Return the response of one hop, which goes at most so near; its body has not been read.

        Raises Again, SourceError.
        """
        import urllib3

        from gristmill.store.http.watch import NearerError

        if not _same_host(url):
            raise SourceError(f"{request.name}: no URL that can be asked for")
        headers = {"User-Agent": self._agent, "Accept-Encoding": "identity", **request.headers}
        if request.authorization and with_credentials:
            headers["Authorization"] = request.authorization
        left = None if request.begun else self._hosts.left(origin(url))
        proxy = self._proxy(url)
        by_name = nearest_address(urlsplit(url).hostname or "") if proxy else PUBLIC
        if by_name > nearest:
            raise _nearer(request, url)
        try:
            response = self._pool(proxy, nearest).request(
                request.method,
                url,
                headers=headers,
                preload_content=False,
                decode_content=False,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(self._connect(request, url, left), self.settings.timeout),
            )
        except urllib3.exceptions.LocationValueError as error:
            raise SourceError(f"{request.name}: no URL that can be asked for") from error
        except NearerError:
            self._hosts.came(origin(url))
            raise _nearer(request, url) from None
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
        if proxy:
            response.nearness = by_name
        return response

    def _connect(self, request: Request, url: str, left: float | None) -> float:
        """Return seconds for a connection to one of the addresses of a host.

        Raises Again; SourceError if a new host does not exist.
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
                UNKNOWN if count == 0 else "no name server gives the host's address",
                host=origin(url),
            )
        return min(usual, max(0.1, (self._hosts.left(origin(url)) or left) / count))

    def _checked(self, name: str, answer: Answer) -> Answer:
        """Return the answer, if its status means that there is a body to read or that nothing
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

    def _pool(self, proxy: str, nearest: int) -> Any:
        """Return a pool of connections that go at most so near: direct, or through a proxy."""
        import urllib3

        from gristmill.store.http.watch import POOLS

        with self._lock:
            if (proxy, nearest) not in self._pools:
                size: dict[str, Any] = {"maxsize": self.settings.connections, "num_pools": 64}
                if proxy:
                    user = url_user(proxy)
                    size["proxy_headers"] = (
                        urllib3.util.make_headers(proxy_basic_auth=user) if user else None
                    )
                made = urllib3.ProxyManager(proxy, **size) if proxy else urllib3.PoolManager(**size)
                made.pool_classes_by_scheme = POOLS[nearest]
                self._pools[proxy, nearest] = made
            return self._pools[proxy, nearest]

    def _proxy(self, url: str) -> str:
        """Return the proxy for a URL by the environment; never one for this machine."""
        scheme, host = origin(url)
        return "" if is_loopback(url) or proxy_bypass(host) else getproxies().get(scheme, "")

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.clear()


def _nearer(request: Request, url: str) -> SourceError:
    """Return the error for a host whose address is nearer than the request may go."""
    host = origin(url)[1]
    if url != request.url:
        return SourceError(
            f"{request.name}: redirected to {brief(shown(url))}, which is on this machine or in "
            "its network: no server outside may lead there",
            "redirected",
        )
    return SourceError(
        f"{request.name}: {host} is on this machine or in its network, where neither a list may "
        "lead nor lie whose lines are sent on, unless the command line says "
        f"--allow-host {host}",
        "refused",
    )


def _redirect(name: str, url: str, location: str) -> str:
    """Return the URL that a redirect from `url` leads to. Raises SourceError if it may not be
    followed.
    """
    try:
        target = urljoin(url, location)
    except ValueError:
        raise SourceError(f"{name}: redirected to a text that is not a URL", "redirected") from None
    if not target.startswith(WEB):
        raise SourceError(
            f"{name}: redirected to {brief(shown(target))}, which is not on the web", "redirected"
        )
    if url.startswith("https://") and not target.startswith("https://"):
        raise SourceError(
            f"{name}: redirected from https to plain http ({brief(shown(target))})", "redirected"
        )
    return target


def _same_host(url: str) -> bool:
    """Return whether our parser of URLs and that of urllib3 agree on the host: credentials go by
    ours, the connection by theirs.
    """
    import urllib3

    try:
        theirs = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        return False
    port = f":{theirs.port}" if theirs.port is not None else ""
    return origin(f"{theirs.scheme}://{theirs.host or ''}{port}/") == origin(url)
