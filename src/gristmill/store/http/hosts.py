"""Which hosts are there.

One that has never answered in this run gets a few seconds, all its downloads together; one that
has, the usual patience: an unknown name is a typing error, and a connection that is lost
in the middle is the weather.
"""

import ipaddress
import socket
import threading
import time
from contextlib import suppress

NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
Place = tuple[str, str]  # scheme, host with port: store.urls.origin

# urllib3's errors that say that there was no connection at all.
NO_HOST = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"})

# How near an address is: on the internet, in this machine's network, on this machine or its link.
PUBLIC, PRIVATE, HERE = range(3)


def nearness(address: str) -> int:
    """Return how near an IP address is: PUBLIC, PRIVATE or HERE; one inside another (IPv4 in IPv6)
    counts as itself. Raises ValueError for what is no address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inside = ip.ipv4_mapped or ip.sixtofour
        if ip in NAT64:
            inside = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inside is not None:
            return nearness(str(inside))
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
        return HERE
    return PUBLIC if ip.is_global and not ip.is_multicast else PRIVATE


def nearest_address(host: str) -> int:
    """Return how near the nearest address of a host is, as this machine resolves its name; PUBLIC
    where it cannot.
    """
    try:
        return nearness(host.strip("[]"))
    except ValueError:
        pass
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return max((nearness(str(entry[4][0])) for entry in entries), default=PUBLIC)
    except (OSError, UnicodeError, ValueError):
        return PUBLIC


class Hosts:
    """What is known of hosts; safe for threads."""

    def __init__(self, seconds: float | None) -> None:
        """`seconds` for a host's first answer; None: as patient with new hosts as with known
        ones.
        """
        self._seconds = seconds
        self._lock = threading.Lock()
        self._there: set[Place] = set()
        self._asked: dict[Place, float] = {}  # when a host was asked for first
        self._gone: set[Place] = set()

    def left(self, place: Place) -> float | None:
        """Return seconds that a host has left for its first answer, from the first call on; None:
        it is known, or there is no hurry.
        """
        with self._lock:
            if self._seconds is None or place in self._there:
                return None
            if place in self._gone:
                return 0.0
            return max(
                0.0,
                self._seconds
                - (time.monotonic() - self._asked.setdefault(place, time.monotonic())),
            )

    def came(self, place: Place) -> None:
        """A host answered."""
        with self._lock:
            self._there.add(place)
            self._gone.discard(place)

    def give_up(self, place: Place) -> None:
        """End every wait for a host."""
        with self._lock:
            self._gone.add(place)


def addresses(host: str, port: int, seconds: float) -> int | None:
    """Return how many addresses a host has; 0: its name is unknown; None: no answer in time."""
    counts: list[int] = []

    def ask() -> None:
        try:
            counts.append(
                len({entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
            )
        except OSError:
            counts.append(0)

    thread = threading.Thread(target=ask, name="gristmill-resolve", daemon=True)
    with suppress(UnicodeError):  # no name that could be asked for: the connection says so
        thread.start()
        thread.join(seconds)
    return counts[0] if counts else None
