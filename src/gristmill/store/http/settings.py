"""How a run fetches."""

from collections.abc import Collection
from typing import NamedTuple

from gristmill.store.http.secrets import host_names


class Settings(NamedTuple):
    """How a run fetches. No setting changes a byte of the corpus."""

    connections: int = 8  # downloads at once
    per_host: int = 4  # of them from one host
    contact: str | None = None  # an address or URL, for the servers' logs
    timeout: float = 60.0  # seconds without a byte until a connection counts as stalled
    slowest: float = 1024.0  # bytes a second, over `timeout` seconds; slower is stalled too
    retries: int = 5  # tries one after another that bring nothing, or bring it slower than that
    tries: int = 100  # of one download in all, and one more for each MiB of it that is here
    # times that a download starts again at byte zero, when an answer does not fit what is here
    restarts: int = 10
    # seconds for a host that has never answered: name, connection, all tries together
    first_answer: float = 4.0
    retry: bool = False  # as patient with such a host as with one that has answered
    # environment variables that a recipe may send to its hosts: store/http/secrets.py
    allow_env: frozenset[str] = frozenset()
    # hosts that what a recipe reads here may be sent to: store/http/secrets.py
    allow_hosts: frozenset[str] = frozenset()
    # bytes of a file that has no other limit, and of a body of unknown length
    largest: int = 64 << 30
    # seconds before the second try; doubled with every further one, with jitter
    backoff: float = 1.0
    patience: float = 600.0  # seconds, the longest that a Retry-After is obeyed
    checkpoint_bytes: int = 64 << 20  # between two checkpoints of a download


def merge_settings(
    connections: int | None,
    checkpoint_bytes: int | None,
    retry: bool = False,
    allow_env: Collection[str] = (),
    allow_hosts: Collection[str] = (),
) -> Settings:
    """Return the settings, with what the command line asks for. Raises RecipeError."""
    settings = Settings(
        retry=retry,
        allow_env=frozenset([allow_env] if isinstance(allow_env, str) else allow_env),
        allow_hosts=host_names([allow_hosts] if isinstance(allow_hosts, str) else allow_hosts),
    )
    if connections is not None:
        settings = settings._replace(
            connections=connections, per_host=min(connections, settings.per_host)
        )
    return settings._replace(checkpoint_bytes=checkpoint_bytes or settings.checkpoint_bytes)
