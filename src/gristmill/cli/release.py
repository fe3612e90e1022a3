"""The verbs `release ...`: thin, as app.py."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from gristmill.cli.arguments import EXIT_CODES, Json
from gristmill.cli.network import (
    CloudFrontId,
    CloudFrontPath,
    Days,
    DraftFile,
    Keys,
    SignedFile,
    ask_passphrase,
    draft_lines_of,
    parse_days,
    parse_numbers,
    roles_given,
)
from gristmill.progress.terminal import print_result, warn
from gristmill.system.interrupts import handle_ctrl_c

if TYPE_CHECKING:
    from gristmill.network.trust.trust_metadata import RoleChange

release_app = typer.Typer(
    help="Sign the releases of a published corpus, and withdraw documents from it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[str, Argument(help="s3://BUCKET/PREFIX, gs://, az://, file:// or a folder.")]


@release_app.command(epilog=EXIT_CODES)
def withdraw(
    documents: list[str] = Argument(
        ..., metavar="DOCUMENT...", help="shard:row, a document's number, or its URL."
    ),
    corpus: Path = Option(..., help="The folder of the corpus."),
    target: str | None = Option(None, help="Where the corpus is published (default: nowhere)."),
    key: Keys = None,
    days: Days = None,
    draft: DraftFile = None,
    signed: SignedFile = None,
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    cache_dir: Path | None = Option(None, help="The cache from which raw shards are removed."),
    as_json: Json = False,
) -> None:
    """Take documents and their copies out of a corpus, and of all its releases.

    Shards keep their lengths; the documents' tokens become end-of-text tokens.
    """
    from gristmill.network.releases.cdn import open_cloudfront
    from gristmill.network.releases.publisher import UploadSettings
    from gristmill.network.withdrawal.withdraw import withdraw as take_out
    from gristmill.network.withdrawal.withdraw_release import withdraw_release

    handle_ctrl_c()
    if target is None:
        result = take_out(corpus, documents, cache_dir=cache_dir, on_line=warn)
    else:
        result = withdraw_release(
            corpus,
            target,
            documents,
            keys=key or (),
            passphrase=ask_passphrase(key),
            settings=UploadSettings(days=parse_days(days), draft=draft, signed=signed),
            cdn=open_cloudfront(cloudfront, cloudfront_path),
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
        lines += draft_lines_of(result)
    lines += [f"still holds them: {name}" for name in result["raw_shards"]]
    step = f'[[step]] use = "withdrawn", list = "{corpus / "withdrawn.txt"}"'
    lines.append(f"put this before the other steps of the recipe: {step}")
    print_result(result, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def key(
    path: Path = Argument(..., help="The file to write; .pub beside it is public."),
    as_json: Json = False,
) -> None:
    """Make a key that signs releases (ed25519). A passphrase encrypts it: from the environment
    (GRISTMILL_KEY_PASSPHRASE), or typed.
    """
    from gristmill.network.trust.keys import new_key

    made = new_key(path, ask_passphrase([path], confirm=True) or "")
    lines = [f"{made['private']}: keep it secret", f"{made['public']}: key {made['keyid']}"]
    print_result(made, as_json, lines)


@release_app.command(epilog=EXIT_CODES)
def sign(
    target: str = Argument(
        ..., help="s3://BUCKET/PREFIX, gs://, az://, file:// or a folder; or a draft."
    ),
    key: Keys = None,
    everything: bool = Option(
        False, "--all", help="Sign targets and snapshot as well, though they are young."
    ),
    days: Days = None,
    draft: DraftFile = None,
    signed: SignedFile = None,
    max_age: int = Option(10, min=0, help="Seconds that caches may show an old timestamp."),
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    as_json: Json = False,
) -> None:
    """Renew the signatures of the newest release before they expire: run it daily.

    Of a draft (the file of --draft): add a signature, without any network.
    """
    from gristmill.errors import RecipeError
    from gristmill.network.releases.cdn import open_cloudfront
    from gristmill.network.releases.publisher import UploadSettings
    from gristmill.network.trust.drafts import draft_lines, sign_draft
    from gristmill.network.trust.signing import sign as renew

    if Path(target).is_file():
        if everything or days or draft or signed or cloudfront:
            raise RecipeError(f"{target}: a draft: it takes --key alone")
        described = sign_draft(target, key or (), ask_passphrase(key))
        print_result(described, as_json, draft_lines(described))
        return
    result = renew(
        target,
        key or (),
        ask_passphrase(key),
        everything=everything,
        settings=UploadSettings(max_age=max_age, days=parse_days(days), draft=draft, signed=signed),
        cdn=open_cloudfront(cloudfront, cloudfront_path),
    )
    lines = [
        f"{role}: version {has['version']}, expires {has['expires']}"
        for role, has in result["roles"].items()
    ]
    print_result(result, as_json, [*lines, *result["warnings"], *draft_lines_of(result)])


@release_app.command(epilog=EXIT_CODES)
def rotate(
    target: Target,
    key: Keys = None,
    add: list[str] | None = Option(
        None, help="ROLE=FILE.pub: this key may sign the role from now on."
    ),
    remove: list[str] | None = Option(
        None, help="ROLE=KEYID: this key may not sign the role any more (8 digits or more)."
    ),
    threshold: list[str] | None = Option(None, help="ROLE=N: the role needs signatures of N keys."),
    days: Days = None,
    draft: DraftFile = None,
    signed: list[Path] | None = Option(
        None,
        "--signed",
        help="A draft of a root that has enough signatures; also one of targets, if they lose "
        "theirs.",
    ),
    cloudfront: CloudFrontId = None,
    cloudfront_path: CloudFrontPath = None,
    as_json: Json = False,
) -> None:
    """Write a new root: change the keys and thresholds of root, targets, snapshot and timestamp.

    On a target without a root it makes the first one; roles without --add get every --key. Give the
    keys that the root needs before and after, and those of the roles that change.
    """
    from gristmill.network.releases.cdn import open_cloudfront
    from gristmill.network.releases.publisher import UploadSettings
    from gristmill.network.trust.signing import rotate as write

    result = write(
        target,
        key or (),
        ask_passphrase(key),
        changes=_changes(add, remove, threshold),
        draft=draft,
        signed=signed or (),
        settings=UploadSettings(days=parse_days(days)),
        cdn=open_cloudfront(cloudfront, cloudfront_path),
    )
    lines = [f"{result['target']}: root version {result['version']}, sha256 {result['sha256']}"]
    lines += [
        f"{role}: {has['threshold']} of {', '.join(keyid[:12] for keyid in has['keys'])}"
        for role, has in result["roles"].items()
    ]
    print_result(result, as_json, draft_lines_of(result) or lines)


def _changes(
    add: list[str] | None, remove: list[str] | None, threshold: list[str] | None
) -> "Mapping[str, RoleChange]":
    from gristmill.network.trust.keys import load_public
    from gristmill.network.trust.trust_metadata import ROLES, RoleChange

    added, removed = roles_given("--add", add), roles_given("--remove", remove)
    thresholds = parse_numbers("--threshold", threshold)
    changes: dict[str, Any] = {
        role: RoleChange(
            [load_public(Path(file)) for name, file in added if name == role],
            [keyid for name, keyid in removed if name == role],
            thresholds.get(role),
        )
        for role in ROLES
    }
    return {role: change for role, change in changes.items() if change != RoleChange([], [])}
