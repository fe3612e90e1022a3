"""The shards of a node's next rotation, fetched by a thread while the current ones are read."""

import threading
from collections.abc import Callable

from gristmill.errors import GristmillError
from gristmill.network.node.node_cache import CacheLimitError
from gristmill.network.node.node_loader import Held


class FetchAhead:
    """The shards of one rotation, fetched by a thread."""

    def __init__(
        self, rotation: int, hold: Callable[[], Held], on_event: Callable[[str], None]
    ) -> None:
        self._rotation, self._make, self._on_event = rotation, hold, on_event
        self._held: Held | None = None
        self._failed: BaseException | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        # A daemon: the interpreter may exit while a download stalls; it is resumed later.
        self._thread = threading.Thread(target=self._work, name="gristmill-node", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            held = self._make()
        except GristmillError as error:
            if not isinstance(error, CacheLimitError):
                self._on_event(f"rotation {self._rotation} could not be fetched ahead: {error}")
            return
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._failed = error
            return
        with self._lock:
            if self._cancelled:
                held.view.close()
            else:
                self._held = held

    def result(self, rotation: int) -> Held | None:
        """Wait for the shards; return them if they are of this rotation. None: try again."""
        if rotation != self._rotation:
            self.cancel()
            return None
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        held, self._held = self._held, None
        return held

    def cancel(self) -> None:
        """Nobody wants them any more."""
        with self._lock:
            self._cancelled = True
            if self._held is not None:
                self._held.view.close()
                self._held = None
