"""The verbs `publish` and `release`: thin, as app.py."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gristmill.cli.arguments import Json
from gristmill.cli.completion import corpora
from gristmill.progress.terminal import Display, print_result
from gristmill.system.interrupts import handle_ctrl_c

HubTarget = Annotated[
    str,
    Argument(
        help="s3://BUCKET/PREFIX, gs://, az://, file:// or a folder; or hf://datasets/OWNER/NAME."
    ),
]
Keys = Annotated[
    list[Path] | None,
    Option("--key", help="A key of `release key`; repeat the option for several."),
]
Days = Annotated[
    list[str] | None,
    Option(
        help="ROLE=N: signatures of root, targets, snapshot or timestamp expire after N days "
        "(365, 90, 7, 1)."
    ),
]
DraftFile = Annotated[
    Path | None,
    Option("--draft", help="Write this file for the holders of other keys to sign, and stop."),
]
SignedFile = Annotated[
    Path | None, Option("--signed", help="A draft of targets that has enough signatures.")
]
CloudFrontId = Annotated[
    str | None, Option("--cloudfront", help="Invalidate this distribution's copies.")
]
CloudFrontPath = Annotated[
    str | None,
    Option(help="Where the target is below the distribution's address (default: its top)."),
]


def publish(
    corpus: Annotated[Path, Argument(help="The folder of the corpus.", autocompletion=corpora)],
    target: HubTarget,
    with_: list[str] | None = Option(
        None,
        "--with",
        help="Also publish these folders of the corpus: text,verdicts,samples,documents ... or "
        "all; state: all, and what the next run needs (`pull`).",
    ),
    key: Keys = None,
    days: Days = None,
    draft: DraftFile = None,
    signed: SignedFile = None,
    connections: int = Option(4, min=1, help="The number of uploads at once."),
    max_age: int = Option(10, min=0, help="Seconds that caches may show an old pointer."),
    read_back: bool = Option(True, help="Read what was uploaded, and compare it with its sha256."),
    check_all: bool = Option(
        False, "--check-all", help="Read and compare what the target had as well."
    ),
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    private: bool = Option(False, "--private", help="On the hub: make a new data set private."),
    as_json: Json = False,
) -> None:
    """Make a finished corpus the newest release of an object store or a folder; or a data set of
    the Hugging Face hub: its tokens, or with --with text its texts.

    Run it again after any failure: it continues.
    """
    from gristmill.network.releases.cdn import open_cloudfront
    from gristmill.network.releases.publish import publish as write
    from gristmill.network.releases.publisher import UploadSettings

    handle_ctrl_c()
    secret = ask_passphrase(key)
    with Display(as_json) as display:
        result = write(
            corpus,
            target,
            with_=[name for given in with_ or () for name in given.split(",") if name],
            keys=key or (),
            passphrase=secret,
            settings=UploadSettings(
                connections, read_back, check_all, max_age, parse_days(days), draft, signed
            ),
            cdn=open_cloudfront(cloudfront, cloudfront_path),
            private=private,
            on_upload=display.transfer("publish"),
            on_line=display.line,
        )
    shown = _hub_lines(result) if "commit" in result else _release_lines(result)
    print_result({"event": "published", **result}, as_json, shown)


def _release_lines(result: dict[str, Any]) -> list[str]:
    what = "" if result["new"] else " is this corpus already"
    what = " waits for signatures" if result["waiting"] else what
    lines = [
        f"{result['target']}: release {result['release']}{what}",
        (
            f"{result['objects']} objects, {result['bytes'] / 1e6:,.1f} MB uploaded; "
            f"{result['present']} were there"
        ),
        f"manifest {result['manifest']}",
    ]
    if "root" in result:
        lines.append(f"signed; readers pin trust/root.json, sha256 {result['root']}")
    return lines + draft_lines_of(result)


def _hub_lines(result: dict[str, Any]) -> list[str]:
    return [
        f"{result['url']}: commit {result['commit']}",
        (
            f"{result['files']} files, {result['bytes'] / 1e6:,.1f} MB; {result['uploaded']} were "
            f"new, {result['removed']} of the release before are removed"
        ),
    ]


def pull(
    urls: list[str] = Argument(
        ..., help="Addresses of the published corpus, asked in turn; or the store of `run --out`."
    ),
    folder: Path = Argument(..., help="The folder for the corpus."),
    only: list[str] | None = Option(
        None, help="Only these folders of the corpus: tokens,tokenizer."
    ),
    root: Path | None = Option(
        None, help="The pinned trust/root.json: unsigned releases are refused."
    ),
    connections: int = Option(4, min=1, help="The number of downloads at once."),
    as_json: Json = False,
) -> None:
    """Bring a published corpus into a folder, verified. A run goes on with it.

    Run it again after any failure: it continues. In a folder with an earlier release it brings what
    is new.
    """
    from gristmill.network.releases.pull import pull as bring

    handle_ctrl_c()
    names = [name for given in only or () for name in given.split(",") if name]
    with Display(as_json) as display:
        result = bring(
            urls,
            folder,
            only=names,
            root=root,
            connections=connections,
            on_bytes=display.transfer("pull"),
        )
    state = f", and {result['state']} files of the run's state" if result["state"] else ""
    parts = f"{result['parts']} of {result['of']} parts"
    release = "" if result["release"] is None else f"release {result['release']}, "
    lines = [
        f"{result['folder']}: {release}{parts}{state}",
        f"{result['bytes'] / 1e6:,.1f} MB fetched",
        f"manifest {result['manifest']}",
    ]
    print_result({"event": "pulled", **result}, as_json, lines)


def draft_lines_of(result: dict[str, Any]) -> list[str]:
    """Return what is said of a draft that waits for signatures."""
    from gristmill.network.trust.drafts import draft_lines

    return draft_lines(result["waiting"]) if result["waiting"] else []


def ask_passphrase(keys: list[Path] | None, *, confirm: bool = False) -> str | None:
    """Return the passphrase of keys: from the environment, else typed; None if there are no
    keys.
    """
    from gristmill.network.trust.keys import PASSPHRASE

    if not keys:
        return None
    passphrase = os.environ.get(PASSPHRASE, "")
    if not passphrase and sys.stdin.isatty():
        passphrase = str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm))
    return passphrase


def roles_given(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    """Return (role, value) of ROLE=VALUE options. Raises RecipeError."""
    from gristmill.errors import RecipeError
    from gristmill.network.trust.trust_metadata import ROLES

    pairs = []
    for text in given or []:
        role, _, value = text.partition("=")
        if role not in ROLES or not value:
            raise RecipeError(
                f"{option} {text}: write ROLE=...; a role is one of {', '.join(ROLES)}"
            )
        pairs.append((role, value))
    return pairs


def parse_numbers(option: str, given: list[str] | None) -> dict[str, int]:
    """Return numbers of ROLE=N options. Raises RecipeError."""
    from gristmill.errors import RecipeError

    numbers = {}
    for role, value in roles_given(option, given):
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:6]) <= 36_500):
            raise RecipeError(f"{option} {role}={value}: write a number from 1 to 36500")
        numbers[role] = int(value)
    return numbers


def parse_days(given: list[str] | None) -> dict[str, int]:
    """Return what --days says, by role. Raises RecipeError."""
    return parse_numbers("--days", given)
