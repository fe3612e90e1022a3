"""Raw shards fetched by the nodes of a cluster, into the cache that all of them share.

The driver decides what is fetched, how many at once (`--connections`), and pins it. A download that
a node's end cut off goes on elsewhere from its last checkpoint, which is in the shared cache. What
needs a secret that the driver has (an authorization, a password in a URL, the hub's token) stays
with the driver: secrets are not sent over a cluster's network. Object stores are read with the
credentials that a node has itself.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gristmill.engine.engine import Job, OtherMachines
from gristmill.store.cache import Cache
from gristmill.store.download import Promise
from gristmill.store.remotes import Remote
from gristmill.store.secrets import HUB_TOKEN
from gristmill.store.settings import Settings
from gristmill.store.transfer import Fetched, Transfer
from gristmill.store.urls import HUB, user_of


class FetchTask(NamedTuple):
    """A file for a node to fetch."""

    cache: Path
    settings: Settings
    remote: Remote
    promise: Promise


class FetchOnNodes:
    """What Fetch asks for the shards that nodes may fetch."""

    def __init__(self, machines: OtherMachines, transfer: Transfer) -> None:
        """`transfer` is the driver's: its cache and settings are the nodes' as well."""
        self._machines, self._transfer = machines, transfer

    def may(self, remote: Remote) -> bool:
        """Whether nodes may fetch a file: no secret of the driver is needed for it."""
        secret = remote.authorization or (user_of(remote.url) if "://" in remote.url else None)
        token = os.environ.get(HUB_TOKEN) if remote.url.startswith(HUB) else None
        return not (secret or token or self._transfer.resume_only)

    def fetch(self, remote: Remote, promise: Promise) -> Fetched:
        """Have a file fetched by a node; waits for it. Raises as Transfer.fetch."""
        settings = self._transfer.client.settings
        task = FetchTask(self._transfer.cache.root, settings, remote, promise)
        found: Fetched = self._machines.run(Job(remote.shown, fetch_here, task))
        return found

    def stop(self) -> None:
        """Leave no node at a download."""
        self._machines.stop()


def fetch_here(task: FetchTask, on_progress: Callable[[int], None]) -> Fetched:
    """Fetch a file on this machine, into the shared cache."""
    del on_progress  # the driver counts what is here when it is whole
    transfer = Transfer(Cache(task.cache), task.settings)
    try:
        return transfer.fetch(task.remote, task.promise)
    finally:
        transfer.close()
