"""One download: attempts over HTTP until the bytes are here, whole and what they must be.

    206 that fits       continues where the file ends
    206 that does not   another start, length or ETag than asked for: starts at byte zero
    200                 starts at byte zero, also where a range was asked for
    416                 starts at byte zero
    cut, stall, 5xx     waits, with backoff and jitter or as Retry-After says, and continues

What is appended is what the server promised (Content-Length, Content-Range) or it is an error: a
file gets its name only when its length and every digest that is known of it agree. What never ends
is given up: after a number of tries, starts from byte zero, slow attempts or bytes as Settings and
the promise say. RFC 9110: ranges 14, validators 8.8, If-Range 13.1.5.
"""

import re
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from gristmill.errors import SourceError
from gristmill.store.http.answers import (
    Again,
    Answer,
    Stopped,
    body_length,
    header_digest,
    strong_validators,
)
from gristmill.store.http.causes import brief
from gristmill.store.http.client import Client
from gristmill.store.http.partial import BLOCK, Partial
from gristmill.store.http.remotes import Remote

# Where the name says that the file itself is packed, servers give its packing as a
# Content-Encoding: no layer on top.
OWN_CODING = {"gzip": (".gz", ".tgz"), "x-gzip": (".gz", ".tgz"), "zstd": (".zst",)}


class Whole(NamedTuple):
    """A whole download, in its partial file."""

    size: int
    sha256: str
    etag: str | None
    last_modified: str | None


class Promise(NamedTuple):
    """What is known of the bytes before they come."""

    sha256: str | None = None
    size: int | None = None
    by: str = "the plan"  # who says so
    most: int | None = None  # bytes; None: Settings.largest
    limit: str = "a file here may have"  # whose limit that is


OnProgress = Callable[[int, int | None, int], None]  # bytes here, in all, of them resumed


class Download:
    """One download under way."""

    def __init__(
        self,
        remote: Remote,
        partial: Partial,
        client: Client,
        promise: Promise,
        on_progress: OnProgress,
    ) -> None:
        """`partial` is where the bytes go; `on_progress` is called after each block."""
        self._remote, self._partial, self._client = remote, partial, client
        self._promise, self._on_progress = promise, on_progress
        self._promised: str | None = None  # the digest that the server promises
        self._joined = False  # whether the bytes came in more than one piece
        self._misfits = 0  # answers in a row that do not fit
        self._doubted = False  # whether the server gave another length than the pinned one before
        self._restarts = self._wasted = 0  # times that bytes were here and are not, and how many

    def run(self) -> Whole:
        """Get the bytes. Raises SourceError, which names the shard; Stopped if the run ends."""
        self._joined = self._partial.resume()
        if self._joined and (
            self._partial.validator is None or (self._is_whole() and not self._is_current())
        ):
            self._partial.discard()
            self._joined = False
        while True:
            whole = self._bring()
            wrong = self._wrong(whole)
            if wrong is None:
                return whole
            self._throw_away()
            # A validator that lied looks like this: once more, from the start, before the server is
            # blamed.
            if not self._joined:
                raise SourceError(wrong, "digest")
            self._joined = False

    def _is_current(self) -> bool:
        """Return whether a whole file of an earlier run, which has no name yet, is still what the
        server has; learns its digest.
        """
        if self._promise.sha256 is not None:
            return True  # the digest decides

        def ask() -> bool:
            with self._client.open(self._remote.request("HEAD")) as answer:
                self._promised = header_digest(answer)
                etag, last_modified = strong_validators(answer.headers)
                partial = self._partial
                return answer.status == 200 and (
                    etag == partial.etag if partial.etag else last_modified == partial.last_modified
                )

        try:
            return self._client.retrying(self._name, ask)
        except SourceError:
            return False  # the next request says what is wrong

    def _bring(self) -> Whole:
        """Make attempts until all bytes are here."""
        failures, tries, best = 0, 0, self._partial.written
        while not self._is_whole():
            begun, before, tries = time.monotonic(), self._partial.written, tries + 1
            try:
                self._attempt()
            except Again as error:
                slow = self._was_slow(time.monotonic() - begun, before)
                failures = 1 if self._partial.written > best and not slow else failures + 1
                why = self._why_no_more(failures, tries)
                if why is not None:
                    self._keep()
                    raise SourceError(f"{self._name}: {why}: {error}", "unreachable") from error
                try:
                    self._client.rest(self._name, error, failures)
                except Stopped:
                    self._keep()
                    raise
            best = max(best, self._partial.written)
        partial = self._partial
        return Whole(partial.written, partial.checkpoint(), partial.etag, partial.last_modified)

    def _was_slow(self, seconds: float, before: int) -> bool:
        """Return whether an attempt that started with `before` bytes took its time and brought less
        than the least rate.
        """
        settings, here = self._client.settings, self._partial.written
        came = here - before if here >= before else here
        return seconds > settings.timeout and came < settings.slowest * seconds

    def _why_no_more(self, failures: int, tries: int) -> str | None:
        """Return why there is no further attempt: attempts bring nothing, or never end; None if
        there is one.
        """
        settings = self._client.settings
        if failures > settings.retries:
            return f"could not be fetched in {failures} tries"
        if self._restarts > settings.restarts:
            return (
                f"started over {self._restarts} times, {self._wasted:,} bytes in vain: the "
                "server gives another file each time"
            )
        if tries >= settings.tries + (self._partial.written >> 20):
            return f"could not be fetched in {tries} tries that each brought a little"
        return None

    def _throw_away(self) -> None:
        """Start over: the bytes here do not fit what the server gives."""
        self._note_waste()
        self._partial.discard()

    def _note_waste(self) -> None:
        if self._partial.written:
            self._restarts += 1
            self._wasted += self._partial.written

    def _most(self) -> int:
        """Return the most bytes that the file may have."""
        return self._client.settings.largest if self._promise.most is None else self._promise.most

    def _check_most(self, size: int | None, most: int | None = None) -> None:
        """Refuse a file that is larger than allowed, and keep nothing of it. Raises SourceError."""
        most = self._most() if most is None else most
        if size is not None and size > most:
            self._partial.discard()
            whose = (
                self._promise.limit if most == self._most() else "a body of unknown length may have"
            )
            raise SourceError(
                (
                    f"{self._name}: more than {most:,} bytes, the most that {whose}: nothing of "
                    "it is kept"
                ),
                "too-large",
            )

    @property
    def _name(self) -> str:
        return self._remote.shown

    @property
    def _path(self) -> str:
        return self._remote.shown.lower()

    def _is_whole(self) -> bool:
        return (
            self._partial.expected_size is not None
            and self._partial.written == self._partial.expected_size
        )

    def _keep(self) -> None:
        """Write a checkpoint, if a later run can continue from it."""
        if self._partial.written > self._partial.verified and self._partial.validator is not None:
            self._partial.checkpoint()

    def _wrong(self, whole: Whole) -> str | None:
        """Return what is wrong with the bytes, by every known digest."""
        for digest, by in (
            (self._promise.sha256, self._promise.by),
            (self._promised, "the server"),
        ):
            if digest is not None and digest != whole.sha256:
                return (
                    f"{self._name}: {by} promises sha256 {digest}, but the {whole.size:,} "
                    f"bytes that came have {whole.sha256}. "
                    "They are refused: bring the promised bytes back, or start a new corpus "
                    "for the new ones"
                )
        return None

    # -- one attempt

    def _attempt(self) -> None:
        partial = self._partial
        self._client.wait(0)
        headers = {}
        if partial.written:
            if partial.validator is None:
                self._note_waste()
                partial.begin(None, None, None)
            else:
                headers = {"Range": f"bytes={partial.written}-", "If-Range": partial.validator}
        with self._client.open(
            self._remote.request(headers=headers)._replace(begun=partial.written > 0)
        ) as answer:
            self._check_coding(answer)
            if answer.status == 206 and headers:
                end: int | None = self._go_on(answer)
            elif answer.status == 200:
                end = self._start(answer)
            else:
                self._misfit(
                    f"the server answered {answer.status} to "
                    f"{'a range' if headers else 'a plain request'}"
                )
            self._misfits = 0
            self._promised = header_digest(answer) or (
                self._promised if answer.status == 206 else None
            )
            self._take(answer, end)

    def _check_coding(self, answer: Answer) -> None:
        coding = answer.headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity") and not self._path.endswith(OWN_CODING.get(coding, ())):
            raise SourceError(
                f"{self._name}: sent with Content-Encoding {brief(coding)}, which was not "
                "asked for: the server or proxy that added it makes other bytes "
                "another time. Ask the server's keeper for the plain file",
                "refused",
            )

    def _go_on(self, answer: Answer) -> int:
        """Check that a 206 continues where the file ends; returns where it will end."""
        partial = self._partial
        match = re.fullmatch(
            r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", answer.headers.get("Content-Range", "")
        )
        if match is None:
            self._misfit("the server answered 206 without a Content-Range")
        first, last = int(match[1]), int(match[2])
        total = None if match[3] == "*" else int(match[3])
        length = body_length(answer)
        if (
            first != partial.written
            or last < first
            or (length is not None and length != last - first + 1)
        ):
            self._misfit(f"asked for bytes from {partial.written:,}, the server gave {match[0]!r}")
        if total is not None and (last >= total or partial.expected_size not in (None, total)):
            self._misfit(f"its length changed between two attempts, to {total:,} bytes")
        if partial.etag is not None and answer.headers.get("ETag") != partial.etag:
            self._misfit("its ETag changed between two attempts")
        if (
            partial.etag is None
            and answer.headers.get("Last-Modified", partial.last_modified) != partial.last_modified
        ):
            self._misfit("its date changed between two attempts")
        self._check_most(total)
        partial.expected_size = total if total is not None else partial.expected_size
        self._joined = True
        return last + 1

    def _misfit(self, reason: str) -> NoReturn:
        """An answer that does not fit the bytes here: the second in a row starts over. The first
        may be a head that was cut.
        """
        self._misfits += 1
        if self._misfits > 1:
            self._throw_away()
        raise Again(reason)

    def _start(self, answer: Answer) -> int | None:
        """Begin at byte zero with a 200; returns the length, None if only the transfer coding shows
        the end.
        """
        length = body_length(answer)
        if length is None and not answer.response.chunked and self._promise.sha256 is None:
            raise Again(
                "the server sends no length, so a cut would look like the end "
                "(give its sha256: `sha256sums`)"
            )
        if self._promise.size is not None and length not in (None, self._promise.size):
            if not self._doubted:  # a head that was cut may hold half a number
                self._doubted = True
                raise Again(
                    f"{length:,} bytes by the server, not the {self._promise.size:,} that "
                    "were pinned"
                )
            raise SourceError(
                f"{self._name}: changed since {self._promise.by} pinned it: "
                f"{self._promise.size:,} bytes then, {length:,} now. "
                "Bring the old bytes back, or start a new corpus for the new ones",
                "changed",
            )
        self._check_most(length)
        self._note_waste()
        self._partial.begin(length, *strong_validators(answer.headers))
        return length

    def _take(self, answer: Answer, end: int | None) -> None:
        """Append the body, up to where it was promised to end."""
        partial = self._partial
        begun = partial.written == 0
        gathered: list[bytes] = []

        def put() -> None:
            whole = gathered[0] if len(gathered) == 1 else b"".join(gathered)
            gathered.clear()
            self._append(whole, end)

        size, enough = 0, min(BLOCK, partial.every)
        try:
            for block in answer.blocks():
                if begun:
                    self._check_double(answer, block)
                    begun = False
                gathered.append(block)
                size += len(block)
                if size >= enough:
                    size = 0
                    put()
        finally:
            if gathered:
                put()
        if end is None:
            if not answer.response.chunked and partial.checkpoint() != self._promise.sha256:
                partial.discard()
                raise Again(
                    "the body of unknown length ended, and its sha256 is not the promised one"
                )
            partial.expected_size = partial.written
        elif partial.written < end:
            raise Again(f"the body ended after {partial.written:,} of {end:,} bytes")

    def _append(self, block: bytes, end: int | None) -> None:
        partial = self._partial
        if end is not None and partial.written + len(block) > end:
            self._throw_away()
            raise Again(f"more came than the {end:,} bytes that were promised")
        coming = partial.written + len(block)
        self._check_most(coming)
        if end is None:
            self._check_most(coming, min(self._most(), self._client.settings.largest))
        partial.append(block)
        self._on_progress(partial.written, partial.expected_size, partial.resumed)
        if self._client.stop.is_set():
            self._keep()
            raise Stopped

    def _check_double(self, answer: Answer, head: bytes) -> None:
        """A .gz with gzip laid on top decodes to another gzip."""
        if answer.headers.get("Content-Encoding") and self._path.endswith(OWN_CODING["gzip"]):
            with suppress(zlib.error):
                if zlib.decompressobj(31).decompress(head, 16).startswith(b"\x1f\x8b\x08"):
                    raise SourceError(
                        f"{self._name}: sent with a second gzip laid on top of its own", "refused"
                    )
