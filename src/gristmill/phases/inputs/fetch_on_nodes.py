"""Raw shards fetched by the nodes of a cluster, into the cache that all of them share.

The driver decides what is fetched, how many at once (`--connections`), and pins it. A download that
a node's end cut off goes on elsewhere from its last checkpoint, which is in the shared cache. What
needs a secret that the driver has (an authorization, a password in a URL, the hub's token) stays
with the driver: secrets are not sent over a cluster's network. Object stores are read with the
credentials that a node has itself.

A corpus in an object store shares no cache: there a node brings what it fetched to the store, from
which the node that processes it takes it.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.stored_corpus import OBJECTS, StoredCorpus
from gristmill.engine.engine import Engine, Job, OtherMachines
from gristmill.engine.nodes import scratch
from gristmill.store.bucket.bucket import Bucket
from gristmill.store.bucket.objects import Objects
from gristmill.store.cache import Cache, cache_key
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.secrets import HUB_TOKEN
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Fetched, Transfer
from gristmill.store.http.urls import HUB, url_user


class FetchTask(NamedTuple):
    """A file for a node to fetch."""

    cache: Path
    settings: Settings
    remote: Remote
    promise: Promise
    store: str = ""  # the URL of the corpus that it is brought to; "": the cache is shared


class FetchOnNodes:
    """What Fetch asks for the shards that nodes may fetch."""

    def __init__(
        self, machines: OtherMachines, transfer: Transfer, store: Objects | None = None
    ) -> None:
        """`transfer` is the driver's: its cache and settings are the nodes' as well. With `store`
        no cache is shared: nodes bring what they fetch there.
        """
        self._machines, self._transfer, self._store = machines, transfer, store

    def may(self, remote: Remote) -> bool:
        """Return whether nodes may fetch a file: no secret of the driver is needed for it."""
        secret = remote.authorization or (url_user(remote.url) if "://" in remote.url else None)
        token = os.environ.get(HUB_TOKEN) if remote.url.startswith(HUB) else None
        return not (secret or token or self._transfer.resume_only)

    def fetch(self, remote: Remote, promise: Promise) -> Fetched:
        """Have a file fetched by a node; waits for it. Raises as Transfer.fetch."""
        settings, cache = self._transfer.client.settings, self._transfer.cache
        if self._store is None:
            task = FetchTask(cache.root, settings, remote, promise)
            result: Fetched = self._machines.run(Job(remote.shown, fetch_here, task))
            return result
        if promise.sha256 is not None:
            size = self._store.size(promise.sha256)
            if size is not None and promise.size in (None, size):
                return Fetched(cache.object(promise.sha256), size, promise.sha256)
        into = FetchTask(Path(), settings, remote, promise, self._store.bucket.url)
        came: Fetched = self._machines.run(Job(remote.shown, fetch_into_store, into))
        self._store.note(came.sha256, came.size)
        return came._replace(path=cache.object(came.sha256))

    def stop(self) -> None:
        """Leave no node at a download."""
        self._machines.stop()


def make_node_fetcher(engine: Engine, transfer: Transfer, corpus: Corpus) -> FetchOnNodes | None:
    """Return what fetches on the nodes of an engine; None: all work is on this machine."""
    machines = engine.other_machines()
    store = corpus.objects if isinstance(corpus, StoredCorpus) else None
    return FetchOnNodes(machines, transfer, store) if machines is not None else None


def fetch_here(task: FetchTask, on_progress: Callable[[int], None]) -> Fetched:
    """Fetch a file on this machine, into the shared cache."""
    del on_progress  # the driver counts what is here when it is whole
    transfer = Transfer(Cache(task.cache), task.settings)
    try:
        return transfer.fetch(task.remote, task.promise)
    finally:
        transfer.close()


def fetch_into_store(task: FetchTask, on_progress: Callable[[int], None]) -> Fetched:
    """Fetch a file on this machine, bring it to the store, and keep nothing of it."""
    # A folder for each URL: two may have the same bytes.
    cache = scratch() / "gristmill-fetch" / cache_key(task.remote.url)
    result = fetch_here(task._replace(cache=cache), on_progress)
    Objects(Bucket(task.store), OBJECTS).put(result.path, result.sha256, result.size)
    shutil.rmtree(cache, ignore_errors=True)
    return result
