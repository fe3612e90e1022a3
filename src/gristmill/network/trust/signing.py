"""Renewing signatures and changing who may sign: the library side of `release sign` and `release
rotate`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError
from gristmill.network.releases import layout
from gristmill.network.releases.cdn import CloudFront
from gristmill.network.releases.publisher import UploadSettings
from gristmill.network.releases.targets import open_target
from gristmill.network.trust.drafts import read_draft, read_roles, refuse_existing, write_draft
from gristmill.network.trust.keys import load_signers
from gristmill.network.trust.trust import Trust
from gristmill.network.trust.trust_metadata import TIMESTAMP, RoleChange
from gristmill.user_input import one_or_more

CHANGING = (TIMESTAMP, f"{layout.TRUST}/root.json")


@one_or_more("keys")
def sign(
    target: Path | str,
    keys: Sequence[Path | str],
    passphrase: str | None = None,
    *,
    everything: bool = False,
    settings: UploadSettings | None = None,
    cdn: CloudFront | None = None,
) -> dict[str, Any]:
    """Renew the timestamp, and targets and snapshot where half of their time is over or
    `everything` is asked.

    Of `settings`, `days` and `max_age` count; with `draft` the targets with a new expiry are
    written there, for others to sign (network/trust/drafts.py), and with `signed` such a draft is
    published.

    Returns versions and expiry of the roles, `warnings` and `waiting`. Raises RecipeError if
    nothing is signed there or keys are missing; TargetChangedError, MachineError.
    """
    asked = settings or UploadSettings()
    refuse_existing(asked.draft)
    signers = load_signers(keys, passphrase)
    opened = open_target(target)
    try:
        trust = Trust(opened, signers, days=asked.days, max_age=asked.max_age)
        waiting, renewed = None, list[str]()
        if asked.draft is not None:
            draft = trust.draft_renewal()
            waiting = write_draft(asked.draft, draft, signers, trust.roots[-1:])
        else:
            if asked.signed is not None:
                trust.take(read_draft(asked.signed, "targets"))
            renewed = trust.renew(everything=everything)
        return {
            "target": opened.url,
            "renewed": renewed,
            "roles": trust.versions(),
            "warnings": trust.warnings(),
            "waiting": waiting,
            "invalidations": cdn.invalidate(CHANGING) if cdn and renewed else [],
        }
    finally:
        opened.close()


@one_or_more("keys", "signed")
def rotate(
    target: Path | str,
    keys: Sequence[Path | str],
    passphrase: str | None = None,
    *,
    changes: Mapping[str, RoleChange],
    draft: Path | None = None,
    signed: Sequence[Path] = (),
    settings: UploadSettings | None = None,
    cdn: CloudFront | None = None,
) -> dict[str, Any]:
    """Write a new root, or the first one.

    `draft`: write it there, for others to sign, and publish nothing. `signed`: the draft of a root
    that has enough signatures; and one of targets, if those that are there lose theirs.

    Returns its version, sha256, roles and `waiting`. Raises RecipeError if keys are missing;
    TargetChangedError, MachineError.
    """
    asked = settings or UploadSettings()
    refuse_existing(draft)
    drafts = {metadata.signed.type: metadata for metadata in map(read_draft, signed)}
    if signed and ("root" not in drafts or len(drafts) != len(signed) or changes or draft):
        raise RecipeError(
            "--signed: name one draft of a root, and at most one of targets; what it changes is in "
            "it"
        )
    signers = load_signers(keys, passphrase)
    opened = open_target(target)
    try:
        trust = Trust(opened, signers, days=asked.days, max_age=asked.max_age)
        waiting = None
        if draft is not None:
            made = trust.draft_root(changes)
            waiting = write_draft(draft, made, signers, [*trust.roots[-1:], made])
        else:
            trust.rotate(changes, drafts.get("root"), drafts.get("targets"))
            made = trust.root
        return {
            "target": opened.url,
            "version": made.signed.version,
            "sha256": hashlib.sha256(made.to_bytes()).hexdigest(),
            "roles": read_roles(made),
            "waiting": waiting,
            "invalidations": cdn.invalidate(CHANGING) if cdn and waiting is None else [],
        }
    finally:
        opened.close()
