"""What a remote file is called: the URL that is asked for, and the name that may be stored and
printed.

    https://key:secret@host/a.gz?X-Amz-Signature=...     asked for
    https://host/a.gz                                    stored (plan, manifest, checkpoint, cache)
    https://host/a.gz                                    printed; never with a query

A query that carries a signature names nothing: tomorrow's is another. It goes whole, as do user and
password. Any other query names the file (`?part=3`) and is stored, but for the parameters that are
secrets by their name.
"""

import ipaddress
import re
from urllib.parse import unquote, unquote_to_bytes, urlsplit, urlunsplit

from gristmill.errors import SourceError
from gristmill.user_input import STORE_SCHEMES

WEB = ("http://", "https://")
STORES = tuple(f"{scheme}://" for scheme in STORE_SCHEMES)
HUB = "hf://"
SCHEMES = (*WEB, *STORES, HUB, "file://")

# One of these makes a query a signature: S3 (v4 and v2), Google, CloudFront, Tencent, Akamai,
# Azure's SAS.
SIGNED = re.compile(
    r"(?:^|&)(?:x-amz-[^=&]*|x-goog-[^=&]*|awsaccesskeyid|googleaccessid|[a-z-]*signature"
    r"|policy|key-pair-id|sig|hdn[a-z]+)=",
    re.IGNORECASE,
)
SECRET = re.compile(
    r"token|secret|passw|pwd|credential|(?:api|access|subscription)[-_]?key|signature|jwt|hmac"
    r"|^auth|^key$",
    re.IGNORECASE,
)
# What two parsers of URLs may read as two hosts: a credential would go astray.
UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")


def is_url(name: str) -> bool:
    """Return whether a name is a URL that can be fetched."""
    return name.startswith(SCHEMES)


def split(url: str) -> tuple[str, str, str, str]:
    """Return (scheme, host with user and port, path, query). Raises SourceError if it is not a
    URL.
    """
    try:
        if url.startswith(WEB) and UNSAFE.search(url):
            raise ValueError(
                "a space, control character or backslash in it must be percent-encoded"
            )
        parts = urlsplit(url)
        _ = parts.port  # raises if it is not a number
    except ValueError as error:
        raise SourceError(
            f"{url.partition('?')[0].rpartition('@')[2]!r} is no URL: {error}"
        ) from error
    return parts.scheme, parts.netloc, parts.path, parts.query


def stored(url: str) -> str:
    """Return a URL as plan, manifest and checkpoint store it: without user, password, signature,
    secrets and fragment.
    """
    scheme, host, path, query = split(url)
    if SIGNED.search(query):
        query = ""
    kept = [
        pair
        for pair in query.split("&")
        if pair and not SECRET.search(unquote(pair.partition("=")[0]))
    ]
    return urlunsplit((scheme, host.rpartition("@")[2], path, "&".join(kept), ""))


def shown(url: str) -> str:
    """Return a URL as messages show it: without query altogether."""
    scheme, host, path, _ = split(url)
    return urlunsplit((scheme, host.rpartition("@")[2], path, "", ""))


def url_user(url: str) -> str | None:
    """Return `user:password` of a URL, percent-decoded; None if it names no user."""
    user, at, _ = split(url)[1].rpartition("@")
    return unquote(user) if at else None


def without_user(url: str) -> str:
    """Return a URL as it stands in a request, where user and password go into a header."""
    scheme, host, path, query = split(url)
    return urlunsplit((scheme, host.rpartition("@")[2], path, query, ""))


def origin(url: str) -> tuple[str, str]:
    """Return (scheme, host and port): what credentials belong to."""
    scheme, host, _, _ = split(url)
    host = host.rpartition("@")[2].lower()
    default = {"http": ":80", "https": ":443"}.get(scheme, "")
    return scheme, host.removesuffix(default) if default else host


def is_loopback(url: str) -> bool:
    """Return whether the host of a URL is this machine by name: 127.0.0.0/8, ::1, localhost."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_path(url: str) -> bytes:
    """Return the path of a `file://` URL. Raises SourceError if it names another host."""
    _, host, path, _ = split(url)
    if host not in ("", "localhost"):
        raise SourceError(f"{url}: a file URL of another host cannot be read here")
    return unquote_to_bytes(path)
