"""The verbs `publish` and `release`: thin, as cli.py."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gristmill.arguments import EXIT_CODES, Json
from gristmill.terminal import handle_ctrl_c, print_result, warn

if TYPE_CHECKING:
    from gristmill.network.trust import RoleChange

release_app = typer.Typer(
    help="Sign the releases of a published corpus, and withdraw documents from it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str, typer.Argument(help="s3://BUCKET/PREFIX, gs://, az://, file:// or a folder.")
]
HubTarget = Annotated[
    str,
    typer.Argument(
        help="s3://BUCKET/PREFIX, gs://, az://, file:// or a folder; or hf://datasets/OWNER/NAME."
    ),
]
Keys = Annotated[
    list[Path] | None,
    typer.Option("--key", help="A key of `release key`; repeat the option for several."),
]
Days = Annotated[
    list[str] | None,
    typer.Option(
        help="ROLE=N: signatures of root, targets, snapshot or timestamp expire after N days "
        "(365, 90, 7, 1)."
    ),
]
CloudFrontId = Annotated[
    str | None, typer.Option("--cloudfront", help="Invalidate this distribution's copies.")
]
CloudFrontPath = Annotated[
    str | None,
    typer.Option(help="Where the target is below the distribution's address (default: its top)."),
]


def publish(
    corpus: Annotated[Path, typer.Argument(help="The folder of the corpus.")],
    target: HubTarget,
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Also publish these folders of the corpus: text,verdicts,samples,documents ... or "
            "all; state: all, and what the next run needs (`pull`).",
        ),
    ] = None,
    key: Keys = None,
    days: Days = None,
    connections: Annotated[int, typer.Option(min=1, help="The number of uploads at once.")] = 4,
    max_age: Annotated[
        int, typer.Option(min=0, help="Seconds that caches may show an old pointer.")
    ] = 10,
    read_back: Annotated[
        bool, typer.Option(help="Read what was uploaded, and compare it with its sha256.")
    ] = True,
    check_all: Annotated[
        bool, typer.Option("--check-all", help="Read and compare what the target had as well.")
    ] = False,
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    private: Annotated[
        bool, typer.Option("--private", help="On the hub: make a new data set private.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a finished corpus the newest release of an object store or a folder; or a data set of
    the Hugging Face hub: its tokens, or with --with text its texts.

    Run it again after any failure: it continues.
    """
    if target.startswith("hf://"):
        folders = [name for given in with_ or () for name in given.split(",") if name]
        _publish_on_hub(corpus, target, folders, bool(key or cloudfront), private, as_json)
        return
    from gristmill.network.cdn import cloudfront_of
    from gristmill.network.publish import publish as write
    from gristmill.network.publisher import UploadSettings

    handle_ctrl_c()
    lines: list[str] = []
    result = write(
        corpus,
        target,
        with_=[name for given in with_ or () for name in given.split(",") if name],
        keys=key or (),
        passphrase=_passphrase(key),
        settings=UploadSettings(connections, read_back, check_all, max_age, _days(days)),
        cdn=cloudfront_of(cloudfront, cloudfront_path),
        on_line=lines.append,
    )
    what = "" if result["new"] else " is this corpus already"
    lines = [
        f"{result['target']}: release {result['release']}{what}",
        (
            f"{result['objects']} objects, {result['bytes'] / 1e6:,.1f} MB uploaded; "
            f"{result['present']} were there"
        ),
        f"manifest {result['manifest']}",
        *lines,
    ]
    if "root" in result:
        lines.append(f"signed; readers pin trust/root.json, sha256 {result['root']}")
    print_result(result, as_json, lines)


def _publish_on_hub(
    corpus: Path, target: str, folders: list[str], others: bool, private: bool, as_json: bool
) -> None:
    from gristmill.errors import RecipeError
    from gristmill.network.hub import publish_to_hub

    if set(folders) - {"text"} or others:
        raise RecipeError(
            f"{target}: the hub takes tokens, or texts (--with text); --key and --cloudfront are "
            "for object stores"
        )
    handle_ctrl_c()
    result = publish_to_hub(
        corpus, target, kind="text" if folders else "tokens", private=private, on_line=warn
    )
    lines = [
        f"{result['url']}: commit {result['commit']}",
        (
            f"{result['files']} files, {result['bytes'] / 1e6:,.1f} MB; {result['uploaded']} were "
            f"new, {result['removed']} of the release before are removed"
        ),
    ]
    print_result(result, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def withdraw(
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOCUMENT...", help="shard:row, a document's number, or its URL."),
    ],
    corpus: Annotated[Path, typer.Option(help="The folder of the corpus.")],
    target: Annotated[
        str | None, typer.Option(help="Where the corpus is published (default: nowhere).")
    ] = None,
    key: Keys = None,
    days: Days = None,
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="The cache from which raw shards are removed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take documents and their copies out of a corpus, and of all its releases.

    Shards keep their lengths; the documents' tokens become end-of-text tokens.
    """
    from gristmill.network.cdn import cloudfront_of
    from gristmill.network.publisher import UploadSettings
    from gristmill.network.withdraw import withdraw as take_out
    from gristmill.network.withdraw_release import withdraw_release

    handle_ctrl_c()
    if target is None:
        result = take_out(corpus, documents, cache_dir=cache_dir, on_line=warn)
    else:
        result = withdraw_release(
            corpus,
            target,
            documents,
            keys=key or (),
            passphrase=_passphrase(key),
            settings=UploadSettings(days=_days(days)),
            cdn=cloudfront_of(cloudfront, cloudfront_path),
            cache_dir=cache_dir,
            on_line=warn,
        )
    lines = [
        (
            f"{corpus}: {result['documents']:,} documents withdrawn with their copies, "
            f"{result['withdrawn']:,} so far; {result['tokens']:,} tokens in {result['shards']} "
            "shards are end-of-text tokens"
        ),
        f"manifest {result['manifest']}",
    ]
    if target is not None:
        lines.append(
            f"{result['target']}: release {result['release']}; readers refuse releases below "
            f"{result['minimum']}; {result['deleted']} old objects deleted"
        )
    lines += [f"still holds them: {name}" for name in result["raw_shards"]]
    step = f'[[step]] use = "withdrawn", list = "{corpus / "withdrawn.txt"}"'
    lines.append(f"put this before the other steps of the recipe: {step}")
    print_result(result, as_json, lines)


def pull(
    urls: Annotated[
        list[str], typer.Argument(help="Addresses of the published corpus, asked in turn.")
    ],
    folder: Annotated[Path, typer.Argument(help="The folder for the corpus.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Only these folders of the corpus: tokens,tokenizer.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The pinned trust/root.json: unsigned releases are refused.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="The number of downloads at once.")] = 4,
    as_json: Json = False,
) -> None:
    """Bring a published corpus into a folder, verified. A run goes on with it.

    Run it again after any failure: it continues. In a folder with an earlier release it brings what
    is new.
    """
    from gristmill.network.pull import pull as bring

    handle_ctrl_c()
    names = [name for given in only or () for name in given.split(",") if name]
    found = bring(urls, folder, only=names, root=root, connections=connections)
    state = f", and {found['state']} files of the run's state" if found["state"] else ""
    parts = f"{found['parts']} of {found['of']} parts"
    lines = [
        f"{found['folder']}: release {found['release']}, {parts}{state}",
        f"{found['bytes'] / 1e6:,.1f} MB fetched",
        f"manifest {found['manifest']}",
    ]
    print_result(found, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def key(
    path: Annotated[Path, typer.Argument(help="The file to write; .pub beside it is public.")],
    as_json: Json = False,
) -> None:
    """Make a key that signs releases (ed25519). A passphrase encrypts it: from the environment
    (GRISTMILL_KEY_PASSPHRASE), or typed.
    """
    from gristmill.network.keys import new_key

    made = new_key(path, _passphrase([path], confirm=True) or "")
    lines = [f"{made['private']}: keep it secret", f"{made['public']}: key {made['keyid']}"]
    print_result(made, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def sign(
    target: Target,
    key: Keys = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Sign targets and snapshot as well, though they are young."),
    ] = False,
    days: Days = None,
    max_age: Annotated[
        int, typer.Option(min=0, help="Seconds that caches may show an old timestamp.")
    ] = 10,
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    as_json: Json = False,
) -> None:
    """Renew the signatures of the newest release before they expire: run it daily."""
    from gristmill.network.cdn import cloudfront_of
    from gristmill.network.signing import sign as renew

    result = renew(
        target,
        key or (),
        _passphrase(key),
        everything=everything,
        days=_days(days),
        max_age=max_age,
        cdn=cloudfront_of(cloudfront, cloudfront_path),
    )
    lines = [
        f"{role}: version {has['version']}, expires {has['expires']}"
        for role, has in result["roles"].items()
    ]
    print_result(result, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def rotate(
    target: Target,
    key: Keys = None,
    add: Annotated[
        list[str] | None,
        typer.Option(help="ROLE=FILE.pub: this key may sign the role from now on."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=KEYID: this key may not sign the role any more (8 digits or more)."
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(help="ROLE=N: the role needs signatures of N keys.")
    ] = None,
    days: Days = None,
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    as_json: Json = False,
) -> None:
    """Write a new root: change the keys and thresholds of root, targets, snapshot and timestamp.

    On a target without a root it makes the first one; roles without --add get every --key. Give the
    keys that the root needs before and after, and those of the roles that change.
    """
    from gristmill.network.cdn import cloudfront_of
    from gristmill.network.signing import rotate as write

    result = write(
        target,
        key or (),
        _passphrase(key),
        changes=_changes(add, remove, threshold),
        days=_days(days),
        cdn=cloudfront_of(cloudfront, cloudfront_path),
    )
    lines = [f"{result['target']}: root version {result['version']}, sha256 {result['sha256']}"]
    lines += [
        f"{role}: {has['threshold']} of {', '.join(keyid[:12] for keyid in has['keys'])}"
        for role, has in result["roles"].items()
    ]
    print_result(result, as_json, lines)


def _passphrase(keys: list[Path] | None, *, confirm: bool = False) -> str | None:
    """The passphrase of keys: from the environment, else typed; None if there are no keys."""
    from gristmill.network.keys import PASSPHRASE

    if not keys:
        return None
    found = os.environ.get(PASSPHRASE, "")
    if not found and sys.stdin.isatty():
        found = str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm))
    return found


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    """(role, value) of ROLE=VALUE options. Raises RecipeError."""
    from gristmill.errors import RecipeError
    from gristmill.network.trust import ROLES

    found = []
    for text in given or []:
        role, _, value = text.partition("=")
        if role not in ROLES or not value:
            raise RecipeError(
                f"{option} {text}: write ROLE=...; a role is one of {', '.join(ROLES)}"
            )
        found.append((role, value))
    return found


def _numbers(option: str, given: list[str] | None) -> dict[str, int]:
    from gristmill.errors import RecipeError

    found = {}
    for role, value in _pairs(option, given):
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:6]) <= 36_500):
            raise RecipeError(f"{option} {role}={value}: write a number from 1 to 36500")
        found[role] = int(value)
    return found


def _days(given: list[str] | None) -> dict[str, int]:
    return _numbers("--days", given)


def _changes(
    add: list[str] | None, remove: list[str] | None, threshold: list[str] | None
) -> "Mapping[str, RoleChange]":
    from gristmill.network.keys import load_public
    from gristmill.network.trust import ROLES, RoleChange

    added, removed = _pairs("--add", add), _pairs("--remove", remove)
    thresholds = _numbers("--threshold", threshold)
    changes: dict[str, Any] = {
        role: RoleChange(
            [load_public(Path(file)) for name, file in added if name == role],
            [keyid for name, keyid in removed if name == role],
            thresholds.get(role),
        )
        for role in ROLES
    }
    return {role: change for role, change in changes.items() if change != RoleChange([], [])}
