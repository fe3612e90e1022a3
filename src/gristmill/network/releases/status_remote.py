"""The status of a published corpus, read from its address; and watching a status for changes."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from gristmill.corpus import summary
from gristmill.errors import GristmillError
from gristmill.network.releases.release import ReleaseReader
from gristmill.network.trust.trust_metadata import expiry_lines

# What grows: its rate is shown.
GROWING = ("documents", "tokens", "token_shards", "bytes")


def status_of_release(reader: ReleaseReader) -> dict[str, Any]:
    """Return the newest release: `release`, `minimum`, `signed`, `manifest`, `included`, `url`,
    when its signatures expire (`expires`, by role: checked where a root is pinned, else as the
    address says; empty where nothing is signed) and `warnings` of that, and the figures of its
    manifest (corpus/summary.py).

    Raises SourceError if no address can be read, VerificationError if what is there must not be
    used.
    """
    release = reader.newest()
    expires = reader.expires(release)
    return {
        "url": release.url,
        "release": release.release.number,
        "minimum": release.release.minimum,
        "signed": release.signed,
        "manifest": release.release.manifest,
        "included": release.release.included,
        "expires": {role: time.isoformat() for role, time in expires.items()},
        "warnings": expiry_lines(expires),
        **summary.summary(release.manifest),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """For people."""
    signed = "signed" if found["signed"] else "not checked against a pinned root"
    older = f"; releases below {found['minimum']} are refused" if found["minimum"] else ""
    return [
        f"{found['url']}: release {found['release']}, {signed}{older}",
        f"manifest {found['manifest']}",
        *summary.lines(found),
        *found["warnings"],
    ]


def watched(
    ask: Callable[[], dict[str, Any]],
    interval: float,
    looks: int | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Yield statuses, one each `interval` seconds, without end or `looks` times.

    Each has `event` ("status"), `time` (UTC), `rate` (what grew since the look before, a second;
    null at first) and `errors` (how many looks failed so far). A look that fails has `event`
    "error" and `error` in place of the figures, and the next one is made all the same.
    """
    before: tuple[float, dict[str, Any]] | None = None
    errors = made = 0
    while looks is None or made < looks:
        if made:
            sleep(interval)
        made += 1
        now = datetime.now(UTC).isoformat(timespec="seconds")
        at = clock()
        try:
            status = ask()
        except GristmillError as error:
            errors += 1
            yield {"event": "error", "time": now, "error": str(error), "errors": errors}
            continue
        rate = None
        if before is not None and at > before[0]:
            rate = {
                name: round((status[name] - before[1][name]) / (at - before[0]), 3)
                for name in GROWING
                if name in status and name in before[1]
            }
        before = (at, status)
        yield {"event": "status", "time": now, "rate": rate, "errors": errors, **status}


def rate_line(found: dict[str, Any]) -> str:
    """Return what grew since the look before, for people."""
    rate = found["rate"] or {}
    grew = ", ".join(f"{count:+,.1f} {name}" for name, count in rate.items() if count)
    failed = f"; {found['errors']} looks failed" if found["errors"] else ""
    return f"{found['time']}: {grew + ' a second' if grew else 'no change'}{failed}"
