"""Where remote files are: how each kind of URL becomes a request over HTTP.

https://, http://                       unchanged
s3://, gs://, az:// and the like        signed by obstore for an hour, with the credentials in the
                                        environment
hf://datasets/OWNER/NAME[@REVISION]/F   the hub's resolve URL, with HF_TOKEN and HF_ENDPOINT
"""

import base64
import fnmatch
import os
import re
import threading
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from gristmill.errors import NO_JSON, SourceError
from gristmill.store.http.answers import Request
from gristmill.store.http.client import Client
from gristmill.store.http.secrets import HUB_HOST, HUB_TOKEN, check
from gristmill.store.http.urls import HUB, STORES, shown, split, stored, url_user, without_user

SIGNED_FOR = timedelta(hours=1)
HUB_ENDPOINT = f"https://{HUB_HOST}"
LONGEST_PAGE = 64 << 20  # bytes of one page of a list of files
MOST_PAGES = 20_000
MAGIC = re.compile(r"[*?\[]")


class Remote(NamedTuple):
    """A remote file: `url` as it was given, with its secrets; `authorization` is a header for its
    origin; `public`: it may not lie on this machine or in its network.
    """

    url: str
    authorization: str | None = None
    public: bool = False

    @property
    def stored(self) -> str:
        """Return its name in plan, manifest, checkpoint and cache."""
        return stored(self.url)

    @property
    def shown(self) -> str:
        """Return its name in messages."""
        return shown(self.url)

    @property
    def in_store(self) -> bool:
        """Return whether it lies in an object store."""
        return self.url.startswith(STORES)

    def request(
        self, method: Literal["GET", "HEAD"] = "GET", headers: dict[str, str] | None = None
    ) -> Request:
        """Return the HTTP request for the file, signed again each time.

        Raises SourceError, and RecipeError if a secret would travel without encryption.
        """
        url, authorization, what = self.url, self.authorization, "an authorization"
        if self.in_store:
            url = _sign(self.url, method)
        elif url.startswith(HUB):
            url, token = _hub(self.url), os.environ.get(HUB_TOKEN)
            if token and not authorization:
                authorization, what = f"Bearer {token}", HUB_TOKEN
        elif user := url_user(url):
            what = "user and password"
            authorization = "Basic " + base64.b64encode(user.encode()).decode()
        if authorization:
            check(without_user(url), what)
        return Request(
            self.shown, without_user(url), headers or {}, authorization, method, public=self.public
        )


# -- object stores

_stores: dict[tuple[str, bool], Any] = {}  # by scheme and bucket, and whether patient
_stores_lock = threading.Lock()


def open_store(url: str, *, patient: bool = True) -> tuple[Any, str]:
    """Return (obstore's store of the bucket, the key). If not `patient`, give up a server that does
    not answer within seconds.
    """
    scheme, bucket, path, _ = split(url)
    try:
        import obstore.store
    except ImportError:
        raise SourceError(
            f"{shown(url)}: object stores need an extra: pip install 'gristmill[stores]'"
        ) from None
    if not bucket:
        raise SourceError(f"{url}: names no bucket")
    name = f"{scheme}://{bucket}"
    with _stores_lock:
        if (name, patient) not in _stores:
            options: Any = {"allow_http": True} if _plain_http(scheme) else {}
            limits: Any = {}
            if not patient:
                options["connect_timeout"] = "5s"
                limits["retry_config"] = {"max_retries": 1, "retry_timeout": timedelta(seconds=5)}
            try:
                store = obstore.store.from_url(name, client_options=options, **limits)
            except Exception as error:
                raise SourceError(
                    f"{shown(url)}: no such store ({type(error).__name__}): is its account "
                    "or region in the environment?"
                ) from error
            _stores[name, patient] = store
        return _stores[name, patient], _key(path.lstrip("/"))


# By scheme, the variables of obstore that name an address, and allow plain http to it.
PLAIN_HTTP = {
    "s3": ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
}


def _plain_http(scheme: str) -> bool:
    """Return whether the environment allows a store over plain http: for emulators, and stores in
    the own network.
    """
    azure = scheme in ("az", "azure", "abfs", "abfss")
    address, allowed = PLAIN_HTTP["az" if azure else "s3"]
    default = "true" if os.environ.get(address, "").startswith("http://") else "false"
    return os.environ.get(allowed, default) in ("true", "1")


def _sign(url: str, method: Literal["GET", "HEAD"]) -> str:
    """Return the HTTPS URL of the object; its signature is obstore's (docs/adr/0014)."""
    store, key = open_store(url)
    import obstore

    try:
        return str(obstore.sign(store, method, key, SIGNED_FOR))
    except Exception as error:
        # obstore's own messages may quote keys and headers.
        raise SourceError(
            f"{shown(url)}: cannot be signed ({type(error).__name__}): are there credentials "
            "for it in the environment?"
        ) from error


def _key(path: str) -> str:
    """Return the key that a path names: unchanged but for the characters that would end a URL's
    path.
    """
    return path.replace("%23", "#").replace("%3F", "?").replace("%25", "%")


def _spelled(key: str) -> str:
    """Return a key as `_key` reads it from a URL."""
    return key.replace("%", "%25").replace("#", "%23").replace("?", "%3F")


def _list_store(url: str, *, patient: bool) -> list[str]:
    store, pattern = open_store(url, patient=patient)
    scheme, bucket, _, _ = split(url)
    base = f"{scheme}://{bucket}/"
    prefix = MAGIC.split(pattern, maxsplit=1)[0].rpartition("/")[0]
    urls = []
    try:
        for page in store.list(prefix or None):
            urls += [
                base + _spelled(entry["path"]) for entry in page if _matches(entry["path"], pattern)
            ]
    except Exception as error:
        raise SourceError(
            f"{shown(url)}: cannot be listed ({type(error).__name__})", "unreachable"
        ) from error
    return urls


# -- the Hugging Face hub

_HUB = re.compile(r"hf://(datasets|models|spaces)/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)")


def _hub_parts(url: str) -> tuple[str, str, str, str]:
    match = _HUB.fullmatch(url)
    if match is None:
        raise SourceError(
            f"{url}: write hf://datasets/OWNER/NAME/FILE, or hf://datasets/OWNER/NAME@REVISION/FILE"
        )
    return match[1], match[2], match[3] or "main", _key(match[4])


def hub_endpoint() -> str:
    """Return the address of the hub, without a slash at its end."""
    return os.environ.get("HF_ENDPOINT", HUB_ENDPOINT).rstrip("/")


def _hub(url: str) -> str:
    kind, name, revision, path = _hub_parts(url)
    folder = "" if kind == "models" else f"{kind}/"
    return f"{hub_endpoint()}/{folder}{name}/resolve/{quote(revision, safe='')}/{quote(path)}"


def _list_hub(remote: Remote, client: Client) -> list[str]:
    """Return the files of a dataset that match, from the hub's tree API, a page after another."""
    url = remote.url
    kind, name, revision, pattern = _hub_parts(url)
    prefix = MAGIC.split(pattern, maxsplit=1)[0].rpartition("/")[0]
    page: str | None = (
        f"{hub_endpoint()}/api/{kind}/{name}/tree/{quote(revision, safe='')}/{quote(prefix)}"
        "?recursive=true&expand=false"
    )
    base = url[: len(url) - len(pattern)]
    urls: list[str] = []
    for _ in range(MOST_PAGES):
        if page is None:
            return urls
        entries, following = client.retrying(shown(page), partial(_page, remote, page, client))
        urls += [base + _spelled(path) for path in entries if _matches(path, pattern)]
        page = following
        if page is not None and not page.startswith(hub_endpoint() + "/"):
            raise SourceError(f"{shown(page)}: the hub's next page lies elsewhere")
    raise SourceError(f"{shown(url)}: more than {MOST_PAGES:,} pages of files", "too-large")


def _page(remote: Remote, page: str, client: Client) -> tuple[list[str], str | None]:
    """Return (the files of one page of a tree, the next page)."""
    with client.open(remote.request()._replace(url=page, name=shown(page))) as answer:
        data = b""
        for block in answer.blocks():
            data += block
            if len(data) > LONGEST_PAGE:
                raise SourceError(
                    f"{shown(page)}: more than {LONGEST_PAGE:,} bytes in one page of a list",
                    "too-large",
                )
        following = re.search(r'<([^>]+)>\s*;\s*rel="next"', answer.headers.get("Link", ""))
    try:
        files = [entry["path"] for entry in msgspec.json.decode(data) if entry["type"] == "file"]
    except (KeyError, TypeError, *NO_JSON) as error:
        raise SourceError(f"{shown(page)}: the hub's answer is not a list of files") from error
    return files, following[1] if following else None


def _matches(path: str, pattern: str) -> bool:
    """Return a glob as a shell reads it: `*` matches within a folder, `**` across folders."""
    if "**" not in pattern and path.count("/") != pattern.count("/"):
        return False
    return fnmatch.fnmatchcase(path, pattern.replace("**/", "*"))


def is_pattern(url: str) -> bool:
    """Return whether a URL is a glob over an object store or the hub."""
    return url.startswith((*STORES, HUB)) and bool(MAGIC.search(split(url)[2]))


def expand(remote: Remote, client: Client) -> list[str]:
    """Return the URLs that match a pattern in an object store or on the hub, sorted by their bytes;
    any other URL alone.
    """
    url = remote.url
    if not is_pattern(url):
        return [url]
    urls = (
        _list_store(url, patient=client.settings.retry)
        if url.startswith(STORES)
        else _list_hub(remote, client)
    )
    return sorted(urls, key=str.encode)
