"""Metadata that several people sign, each on a machine of their own: a root, or the targets of a
release, in a file that goes from one to the next.

    --draft FILE           writes it, with the signatures of the keys at hand; publishes nothing
    release sign FILE      adds a signature; needs no network
    --signed FILE          publishes what it says, when it has enough signatures

The file is TUF metadata as they are published (docs/publishing.md).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.errors import MachineError, RecipeError
from gristmill.network.trust.keys import load_signers
from gristmill.network.trust.trust_metadata import LARGEST, ROLES, decoded, signatures, signers_for
from gristmill.network.trust.trust_reader import EXTRA, release_number
from gristmill.store.manifest import LOCK
from gristmill.store.parts import machine_errors, write_bytes

if TYPE_CHECKING:
    from securesystemslib.signer import Signer
    from tuf.api.metadata import Metadata, Root


def refuse_existing(path: Path | None) -> None:
    """Raise RecipeError where a draft would be written over a file."""
    if path is not None and os.path.lexists(path):
        raise RecipeError(
            f"{path}: is there: collect its signatures (`gristmill release sign {path}`) and "
            "publish it with --signed, or remove it"
        )


def write_draft(
    path: Path,
    draft: "Metadata[Any]",
    signers: "Sequence[Signer]",
    roots: "Sequence[Metadata[Root]]",
) -> dict[str, Any]:
    """Write metadata that wait for signatures, with those of the keys at hand; see `described`.

    `roots`: those whose keys must sign. Raises RecipeError if the file is there.
    """
    refuse_existing(path)
    for signer in signers_for(signers, draft.signed.type, *roots):
        draft.sign(signer, append=True)
    _write(path, draft)
    return described(path, draft, roots)


def read_draft(path: Path, role: str | None = None) -> "Metadata[Any]":
    """Return the metadata of a file. Raises RecipeError, VerificationError."""
    try:
        import tuf.api.metadata  # noqa: F401
    except ImportError:
        raise MachineError(EXTRA.format(what=path)) from None
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST)
    except OSError as error:
        raise RecipeError(f"{path}: the draft cannot be read: {error.strerror}") from error
    return decoded(data, role, str(path))


def sign_draft(
    path: Path | str, keys: Sequence[Path | str], passphrase: str | None = None
) -> dict[str, Any]:
    """Add the signatures of keys to a draft; see `described`. Opens no connection.

    Raises RecipeError if no key is given, VerificationError if the file is no draft.
    """
    file = Path(path)
    draft = read_draft(file)
    signers = load_signers(keys, passphrase)
    if not signers:
        raise RecipeError(f"{file}: name the key that signs it: --key")
    for signer in signers:
        draft.sign(signer, append=True)
    _write(file, draft)
    return described(file, draft, [draft] if draft.signed.type == "root" else [])


def described(
    path: Path, draft: "Metadata[Any]", roots: "Sequence[Metadata[Root]]"
) -> dict[str, Any]:
    """Return what a draft says, for those who sign it: `file`, `role`, `version`, `expires`, `keys`
    (that signed); of a root `roles`, of targets `release`. `needed`: for each root that is known,
    how many signatures its keys gave, and how many they must give.
    """
    signed = draft.signed
    facts: dict[str, Any] = {
        "file": str(path),
        "role": signed.type,
        "version": signed.version,
        "expires": signed.expires.isoformat(),
        "keys": sorted(draft.signatures),
        "needed": [
            {"signed": len(by.keys), "of": by.threshold, "missing": by.others}
            for by in (signatures(root, draft) for root in roots)
        ],
    }
    if signed.type == "root":
        facts["roles"] = read_roles(draft)
    elif signed.type == "targets" and LOCK in signed.targets:
        facts["release"] = release_number(signed.targets[LOCK])
    return facts


def read_roles(root: "Metadata[Root]") -> dict[str, Any]:
    """Threshold and keys of each role."""
    return {
        role: {
            "threshold": root.signed.roles[role].threshold,
            "keys": sorted(root.signed.roles[role].keyids),
        }
        for role in ROLES
    }


def draft_lines(found: dict[str, Any]) -> list[str]:
    """For people."""
    what = f"{found['role']} version {found['version']}, expires {found['expires']}"
    lines = [f"{found['file']}: {what}"]
    if found.get("release"):
        lines.append(f"names release {found['release']} as the newest")
    lines += [
        f"{role}: {has['threshold']} of {', '.join(keyid[:12] for keyid in has['keys'])}"
        for role, has in found.get("roles", {}).items()
    ]
    lines.append(f"signed by {', '.join(keyid[:12] for keyid in found['keys']) or 'nobody yet'}")
    for needed in found["needed"]:
        missing = ", ".join(keyid[:12] for keyid in needed["missing"])
        lines.append(
            f"{needed['signed']} of {needed['of']} signatures"
            + (f"; these may sign: {missing}" if needed["signed"] < needed["of"] else ": enough")
        )
    return lines


def _write(path: Path, draft: "Metadata[Any]") -> None:
    folder = path.absolute().parent
    with machine_errors(path, every=True):
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder, path.name, draft.to_bytes())
