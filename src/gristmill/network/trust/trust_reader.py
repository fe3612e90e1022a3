"""The newest release by the keys of a pinned root: the client side of TUF, by python-tuf.

Root, timestamp, snapshot and targets are checked as the specification of The Update Framework says
(https://theupdateframework.github.io/specification/latest/#detailed-client-workflow): signatures
and thresholds, expiry, versions that never go back, and sizes. What was seen is remembered in a
folder. Here are only the fetching and the messages.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from gristmill.errors import MachineError, SourceError, VerificationError
from gristmill.network.releases import layout
from gristmill.store.manifest import LOCK

if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile
    from tuf.ngclient import FetcherInterface, Updater

EXTRA = (
    "{what}: releases that are signed need an extra: pip install 'gristmill[node]' to read, "
    "'gristmill[publish]' to sign"
)

# (name below trust/, the most bytes) -> bytes. Raises SourceError.
FetchMetadata = Callable[[str, int], bytes]


def newest_signed(
    fetch: FetchMetadata, root: bytes, state: Path, where: str, pinned: str = "the pinned root"
) -> tuple[int, str]:
    """Return (number, sha256) of the release that the keys of `root` say is the newest.

    `state` remembers the metadata. `where` begins messages; `pinned` is the file of `root`. Raises
    VerificationError if the metadata are missing, expired, older than what was seen, or not signed
    by enough keys; SourceError if they cannot be fetched.
    """
    try:
        from tuf.api import exceptions
        from tuf.ngclient import Updater
    except ImportError:
        raise MachineError(EXTRA.format(what=where)) from None
    state.mkdir(parents=True, exist_ok=True)
    base = "release:/trust/"
    fetcher = _Fetcher(fetch, base)
    try:
        updater = Updater(
            str(state), base, fetcher=cast("FetcherInterface", fetcher), bootstrap=root
        )
        updater.refresh()
        return _find_release(updater, where)
    except exceptions.DownloadHTTPError as error:
        raise VerificationError(
            f"{where}: {layout.TRUST}/{fetcher.last} is not there, and a root is pinned: an "
            "unsigned release is refused. Ask the publisher to sign (`gristmill publish --key`)"
        ) from error
    except exceptions.DownloadLengthMismatchError as error:
        raise VerificationError(
            f"{where}: {layout.TRUST}/{fetcher.last} is longer than it may be: refused"
        ) from error
    except exceptions.DownloadError as error:
        if isinstance(error.__cause__, SourceError):
            raise error.__cause__ from None
        raise SourceError(f"{where}: {error}", "unreachable") from error
    except (exceptions.RepositoryError, ValueError) as error:
        if not fetcher.last:  # nothing was asked for yet
            unsigned = isinstance(error, exceptions.UnsignedMetadataError)
            said = "not signed by enough keys" if unsigned else "no sound metadata"
            raise VerificationError(
                f"{pinned}: {said} ({error}): take it from the publisher again"
            ) from error
        raise VerificationError(_said(error, where, fetcher.last)) from error


def _find_release(updater: "Updater", where: str) -> tuple[int, str]:
    """Return the release among the targets."""
    lock = updater.get_targetinfo(LOCK)
    number = None if lock is None else release_number(lock)
    target = None if number is None else updater.get_targetinfo(layout.release_key(number))
    sha256 = None if target is None else target.hashes.get("sha256")
    if number is None or sha256 is None:
        raise VerificationError(
            f"{where}: its signed targets name no release with a sha256: not written by "
            "`gristmill publish --key`"
        )
    return number, sha256


def release_number(lock: "TargetFile") -> int | None:
    """Return the release's number, which the target `manifest.lock` carries."""
    custom = lock.unrecognized_fields.get("custom")
    number = custom.get("release") if isinstance(custom, dict) else None
    return number if type(number) is int and number > 0 else None


def _said(error: Exception, where: str, last: str) -> str:
    """Return what an error of python-tuf means, and what to do."""
    from tuf.api import exceptions

    file = f"{where}/{layout.TRUST}/{last}"
    if isinstance(error, exceptions.ExpiredMetadataError):
        return (
            f"{file}: expired ({error}). Somebody shows an old state, or the publisher has not "
            "renewed its signature (`gristmill release sign`), or this machine's clock is wrong"
        )
    if isinstance(error, exceptions.BadVersionNumberError):
        return f"{file}: older than what was seen before, or no successor of it ({error}): refused"
    if isinstance(error, exceptions.UnsignedMetadataError):
        return f"{file}: not signed by enough keys of the pinned root ({error}): refused"
    if isinstance(error, exceptions.LengthOrHashMismatchError):
        return f"{file}: not the file that the signed metadata name ({error}): refused"
    return f"{file}: no sound metadata ({error}): refused"


class _Fetcher:
    """What the Updater asks of a fetcher, over ours: redirects, retries and credentials are its
    concern.
    """

    def __init__(self, fetch: FetchMetadata, base: str) -> None:
        self._fetch, self._base = fetch, base
        self.last = ""  # the name of the last file that was asked for

    def download_bytes(self, url: str, max_length: int) -> bytes:
        """Return the bytes of a file of at most `max_length`. Raises DownloadError."""
        from tuf.api import exceptions

        name = url.removeprefix(self._base)
        try:
            data = self._fetch(name, max_length)
        except SourceError as error:
            if error.reason in ("not-found", "forbidden"):
                if not name.endswith(".root.json"):
                    self.last = name
                raise exceptions.DownloadHTTPError(str(error), 404) from error
            self.last = name
            if error.reason == "too-large":
                raise exceptions.DownloadLengthMismatchError(str(error)) from error
            raise exceptions.DownloadError(str(error)) from error
        self.last = name
        return data

    @contextmanager
    def download_file(self, url: str, max_length: int) -> Iterator[IO[bytes]]:
        """The same, as a file."""
        yield io.BytesIO(self.download_bytes(url, max_length))
