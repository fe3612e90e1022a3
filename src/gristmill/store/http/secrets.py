"""Which secrets of the environment go where.

A recipe may be somebody else's: it must not be able to send any variable to any host.

GRISTMILL_AUTH_*    to the hosts that the recipe names beside it
HF_TOKEN            to the hub alone: huggingface.co and its subdomains, hf.co, and where
                    HF_ENDPOINT points
AWS_*               never sent: they sign requests to an object store, and never become a header
any other           to the hosts that the recipe names beside it, once the command line says
                    --allow-env NAME

All of them, and user:password in a URL, only over https; this machine (127.0.0.0/8, ::1, localhost)
excepted.

Neither can it send what it reads here: to which hosts that may go says --allow-host (SECURITY.md).
"""

import os
import re
from collections.abc import Collection

from gristmill.errors import RecipeError
from gristmill.store.http.urls import WEB, is_loopback, origin, shown, split

HUB_HOST = "huggingface.co"
OURS = "GRISTMILL_AUTH_"
HUB_TOKEN = "HF_TOKEN"  # noqa: S105 (a variable's name)
NEVER = "AWS_"


def header(name: str, hosts: Collection[str], allowed: Collection[str], where: str) -> str:
    """Return an Authorization header from the environment: unchanged if it names a scheme, else a
    bearer token.

    `hosts` are the URLs that it would be sent to, `allowed` the names that the command line allows.
    Raises RecipeError.
    """
    said = f"{where}: authorization = {name!r}"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", name):
        raise RecipeError(f"{said}: name an environment variable, never the secret itself")
    if name.startswith(NEVER):
        raise RecipeError(
            f"{said}: the variables {NEVER}* sign what is asked of object stores, and are "
            "never sent"
        )
    if name == HUB_TOKEN and name not in allowed:
        for url in hosts:
            if not _is_hub(url):
                raise RecipeError(
                    f"{said} goes to {HUB_HOST} only, and not to {shown(url)}. If it should, "
                    f"say --allow-env {name}"
                )
    elif not name.startswith(OURS) and name not in allowed:
        raise RecipeError(
            f"{said}: a recipe may name {OURS}* and {HUB_TOKEN}. Read where it would be sent "
            f"to, then say --allow-env {name}, or rename "
            f"the variable to {OURS}..."
        )
    value = os.environ.get(name, "").strip()
    if not value:
        raise RecipeError(f"authorization = {name!r}: the environment holds no such variable")
    if not value.isprintable():
        raise RecipeError(
            f"authorization = {name!r}: its value holds control characters: it can be no header"
        )
    for url in hosts:
        check(url, f"authorization = {name!r}")
    return value if " " in value else f"Bearer {value}"


def host_names(names: Collection[str]) -> frozenset[str]:
    """Return the hosts that --allow-host names: HOST, HOST:PORT, or a bucket. Raises
    RecipeError.
    """
    for name in names:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", name):
            raise RecipeError(
                f"--allow-host {name}: name a host or a bucket as it stands in a URL after ://, "
                "such as mirror.example or mirror.example:8080"
            )
    return frozenset(name.lower() for name in names)


def is_allowed(host: str, allowed: Collection[str]) -> bool:
    """Return whether what a recipe reads here may be sent to a host, `host` or `host:port`."""
    return host in allowed or re.sub(r":[0-9]+$", "", host) in allowed


def refuse_bucket(url: str, allowed: Collection[str]) -> None:
    """Raise RecipeError unless the texts of a corpus may go where its recipe alone says."""
    bucket = origin(url)[1]
    if not is_allowed(bucket, allowed):
        raise RecipeError(
            f'output = "{shown(url)}": the recipe says that what it reads goes to this bucket. If '
            f"that is right, name the place with --out, or say --allow-host {bucket}"
        )


def check(url: str, what: str) -> None:
    """Refuse to send a secret without encryption. Raises RecipeError."""
    if split(url)[0] == "http" and not is_loopback(url):
        raise RecipeError(
            f"{shown(url)}: a secret ({what}) goes only over https, or to this machine: "
            "write https://, or leave it out"
        )


def _is_hub(url: str) -> bool:
    endpoint = os.environ.get("HF_ENDPOINT", "")
    host = origin(url)[1].rpartition("]")[2].partition(":")[0]
    own = endpoint.startswith(WEB) and origin(endpoint) == origin(url)
    return own or host in (HUB_HOST, "hf.co") or host.endswith("." + HUB_HOST)
