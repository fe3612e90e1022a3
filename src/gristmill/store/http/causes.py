"""Why a request failed, in words of ours, and how long a server asks to wait."""

import email.utils
import ssl
import time
from typing import Any

UNKNOWN = "the host's name is not known"


def retry_after(headers: Any) -> float | None:
    """Return seconds of a Retry-After header, which is a number or a date: RFC 9110, 10.2.3."""
    given = headers.get("Retry-After")
    if given is None:
        return None
    if given.strip().isdecimal():
        return float(given)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def certificate(error: BaseException) -> str:
    """Return why a certificate was refused; empty if something else went wrong."""
    seen: BaseException | None = error
    while seen is not None:
        for inner in (seen, *seen.args):
            if isinstance(inner, ssl.SSLCertVerificationError):
                return inner.verify_message
        seen = seen.__cause__ or seen.__context__
    return ""


def cause(error: BaseException) -> str:
    """Return the cause of an error, without the library's words: they may quote a URL with its
    secrets.
    """
    said = {
        "IncompleteRead": "the connection was cut before the promised end",
        "ProtocolError": "the connection was cut",
        "ReadTimeoutError": "stalled: the server sends nothing",
        "ConnectTimeoutError": "no connection in time",
        "NewConnectionError": "no connection",
        "NameResolutionError": UNKNOWN,
        "InvalidChunkLength": "the body is chunked wrongly",
        "SSLError": "TLS failed",
    }
    return said.get(innermost(error), innermost(error))


def innermost(error: BaseException) -> str:
    """Return the name of what the library wrapped."""
    for wrapped in ("reason", "original_error"):
        inner = getattr(error, wrapped, None)
        if isinstance(inner, BaseException):
            return type(inner).__name__
    return type(error).__name__


def brief(words: str, most: int = 300) -> str:
    """Return a server's words, shortened for a message."""
    return words if len(words) <= most else words[:most] + " ..."
