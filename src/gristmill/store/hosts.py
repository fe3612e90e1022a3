"""Which hosts are there.

One that has never answered in this run gets a few seconds, all its downloads together; one that
has, the usual patience: an unknown name is a typing error, and a connection that is lost
in the middle is the weather.
"""

import socket
import threading
import time
from contextlib import suppress

Place = tuple[str, str]  # scheme, host with port: store.urls.origin

# urllib3's errors that say that there was no connection at all.
NO_HOST = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"})


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
        """Seconds that a host has left for its first answer, from the first call on; None: it is
        known, or there is no hurry.
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
    """How many addresses a host has; 0: its name is unknown; None: no answer in time."""
    found: list[int] = []

    def ask() -> None:
        try:
            found.append(
                len({entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
            )
        except OSError:
            found.append(0)

    thread = threading.Thread(target=ask, name="gristmill-resolve", daemon=True)
    with suppress(UnicodeError):  # no name that could be asked for: the connection says so
        thread.start()
        thread.join(seconds)
    return found[0] if found else None
