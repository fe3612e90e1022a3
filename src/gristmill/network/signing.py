"""Renewing signatures and changing who may sign: the library side of `release sign` and `release
rotate`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.network import layout
from gristmill.network.cdn import CloudFront
from gristmill.network.keys import load_signers
from gristmill.network.targets import open_target
from gristmill.network.trust import ROLES, TIMESTAMP, RoleChange, Trust

CHANGING = (TIMESTAMP, f"{layout.TRUST}/root.json")


def sign(
    target: Path | str,
    keys: Sequence[Path | str],
    passphrase: str | None = None,
    *,
    everything: bool = False,
    days: Mapping[str, int] | None = None,
    max_age: int = layout.MAX_AGE,
    cdn: CloudFront | None = None,
) -> dict[str, Any]:
    """Renew the timestamp, and targets and snapshot where half of their time is over or
    `everything` is asked.

    Returns versions and expiry of the roles. Raises RecipeError if nothing is signed there or keys
    are missing; TargetChangedError, MachineError.
    """
    signers = load_signers(keys, passphrase)
    opened = open_target(target)
    try:
        trust = Trust(opened, signers, days=days, max_age=max_age)
        renewed = trust.renew(everything=everything)
        result = {"target": opened.url, "renewed": renewed, "roles": trust.versions()}
        result["invalidations"] = cdn.invalidate(CHANGING) if cdn else []
        return result
    finally:
        opened.close()


def rotate(
    target: Path | str,
    keys: Sequence[Path | str],
    passphrase: str | None = None,
    *,
    changes: Mapping[str, RoleChange],
    days: Mapping[str, int] | None = None,
    max_age: int = layout.MAX_AGE,
    cdn: CloudFront | None = None,
) -> dict[str, Any]:
    """Write a new root, or the first one.

    Returns its version, sha256 and roles. Raises RecipeError if keys are missing;
    TargetChangedError, MachineError.
    """
    signers = load_signers(keys, passphrase)
    opened = open_target(target)
    try:
        trust = Trust(opened, signers, days=days, max_age=max_age)
        if trust.exists:
            trust.rotate(changes)
        else:
            trust.create(changes)
        root = trust.root.signed
        result = {
            "target": opened.url,
            "version": root.version,
            "sha256": hashlib.sha256(trust.root.to_bytes()).hexdigest(),
            "roles": {
                role: {
                    "threshold": root.roles[role].threshold,
                    "keys": sorted(root.roles[role].keyids),
                }
                for role in ROLES
            },
        }
        result["invalidations"] = cdn.invalidate(CHANGING) if cdn else []
        return result
    finally:
        opened.close()
