"""Content codings of HTTP (RFC 9110, 8.4.1) taken off a body: gzip, deflate, br, zstd, also one in
the other.

What is declared need not be so. Archives store bodies decoded and keep the header, so a body that
is plain text is left as it is; and a body that is gzip without a word of it is decoded. `deflate`
comes with the zlib wrapper and, from some servers, without it.

Every coding is decoded up to a limit of bytes and not further. A body that ends early gives what
was there: archives cut long ones.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import brotli  # type: ignore[import-untyped]
from isal import igzip_lib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_CODINGS = 4  # one in the other
MOST_MEMBERS = 1000  # of gzip, behind each other in one body
ZSTD_WINDOW_LOG = 23  # 8 MiB, the most that RFC 9659 allows for HTTP
_FEED = 1 << 14
_GZIP = b"\x1f\x8b\x08"
_NONE = frozenset({"", "identity", "none", "plain", "chunked"})
_CONTROL = bytes({*range(0x20), 0x7F} - set(b"\t\n\f\r\x1b"))

_BROKEN: tuple[Any, ...] = (igzip_lib.error, brotli.error, zstd.ZstdError, EOFError)


class Undecodable(Exception):
    """A body that cannot be decoded; the argument is the reason in the verdict: bad_encoding or
    bomb.
    """


def decode(body: bytes, declared: Sequence[str], most: int) -> bytes:
    """Return the body without its codings, which are declared in the order in which they were
    applied; at most `most` bytes.

    Raises Undecodable: `bomb` if there is more, `bad_encoding` if a coding is unknown, does not
    decode, or is more than four deep.
    """
    depth = 0
    for name in reversed([name for name in declared if name not in _NONE]):
        if _is_plain(body):
            break
        depth += 1
        if depth > MOST_CODINGS:
            raise Undecodable("bad_encoding")
        body = _decode(name, body, most)
    # Coded once more than declared: a server behind a server.
    while body.startswith(_GZIP):
        depth += 1
        if depth > MOST_CODINGS:
            raise Undecodable("bad_encoding")
        body = _members(body, _gzip, most)
    return body


def _is_plain(body: bytes) -> bool:
    """Return whether a body is text, without a coding: among 256 coded bytes there is practically
    always a control character.
    """
    head = body[:1024]
    if len(head.translate(None, _CONTROL)) < len(head):
        return False
    return len(head) >= 256 or head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def _decode(name: str, body: bytes, most: int) -> bytes:
    if not body:
        return body
    decoders = _DECODERS.get(name, ())
    for fits, make in decoders:
        if fits(body):
            try:
                return _members(body, make, most)
            except Undecodable as error:
                if error.args[0] == "bomb":
                    raise
    # No sign of the coding that is declared: a short text is what it is.
    if len(body[:256].translate(None, _CONTROL)) == len(body[:256]) or (
        name in _MAGIC and not body.startswith(_MAGIC[name])
    ):
        return body
    raise Undecodable("bad_encoding")


def _members(body: bytes, make: Callable[[], Any], most: int) -> bytes:
    """Decode a body; of gzip and zstd also further members of the same coding."""
    if make is _brotli:
        return _unbrotli(body, most)
    out: list[bytes] = []
    size = at = 0
    for _ in range(MOST_MEMBERS):
        decoder = make()
        while not decoder.eof:
            # Little at a time: what a decoder has not used it copies back, for every member.
            fed = body[at : at + _FEED] if decoder.needs_input else b""
            if decoder.needs_input and not fed:
                return _cut(out)
            at += len(fed)
            try:
                piece = decoder.decompress(fed, most + 1 - size)
            except _BROKEN as error:
                raise Undecodable("bad_encoding") from error
            out.append(piece)
            size += len(piece)
            if size > most:
                raise Undecodable("bomb")
        at -= len(decoder.unused_data)
        if not (make is _gzip and body.startswith(_GZIP, at)) and not (
            make is _zstd and _is_zstd(body[at : at + 4])
        ):
            return b"".join(out)  # the bytes behind it are not part of it
    raise Undecodable("bad_encoding")


def _cut(out: list[bytes]) -> bytes:
    """Return the output of a coding that was cut off; nothing if it was cut before its first
    byte.
    """
    whole = b"".join(out)
    if not whole:
        raise Undecodable("bad_encoding")
    return whole


def _unbrotli(body: bytes, most: int) -> bytes:
    decoder = brotli.Decompressor()
    try:
        out = [decoder.process(body, output_buffer_limit=most + 1)]
        size = len(out[0])
        # It stops short of its limit too, as its buffer grows in blocks, and says that it wants
        # more input while it holds output.
        while (
            size <= most
            and not decoder.is_finished()
            and (out[-1] or not decoder.can_accept_more_data())
        ):
            out.append(decoder.process(b"", output_buffer_limit=most + 1 - size))
            size += len(out[-1])
    except _BROKEN as error:
        raise Undecodable("bad_encoding") from error
    if size > most:
        raise Undecodable("bomb")
    return b"".join(out) if decoder.is_finished() else _cut(out)


def _is_zlib(body: bytes) -> bool:
    """RFC 1950, 2.2: the method is 8, and the first two bytes are a multiple of 31."""
    return len(body) > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0


def _is_zstd(body: bytes) -> bool:
    return body.startswith(b"\x28\xb5\x2f\xfd") or (
        len(body) > 3 and body[0] >> 4 == 5 and body[1:4] == b"\x2a\x4d\x18"
    )


def _gzip() -> Any:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _zlib() -> Any:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_ZLIB)


def _raw() -> Any:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)


def _zstd() -> Any:
    options: dict[Any, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    return zstd.ZstdDecompressor(options=options)


def _brotli() -> Any:
    return brotli.Decompressor()


def _always(body: bytes) -> bool:
    return True


def _is_gzip(body: bytes) -> bool:
    return body.startswith(_GZIP)


# What a body in these codings always begins with.
_MAGIC = {"gzip": b"\x1f\x8b", "x-gzip": b"\x1f\x8b"}
_GZIPS = ((_is_gzip, _gzip),)
# By name, what to try in this order: (whether it can be, its decoder).
_DECODERS: dict[str, tuple[tuple[Callable[[bytes], bool], Callable[[], Any]], ...]] = {
    "gzip": _GZIPS,
    "x-gzip": _GZIPS,
    "deflate": (*_GZIPS, (_is_zlib, _zlib), (_always, _raw)),
    "br": (*_GZIPS, (_always, _brotli)),
    "zstd": (*_GZIPS, (_is_zstd, _zstd)),
}
