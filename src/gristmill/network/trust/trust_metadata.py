"""What network/trust/trust.py and network/trust/drafts.py know of TUF metadata: roles, times,
roots, signatures, and changes of the root.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases.layout import IMMUTABLE, TRUST, release_key
from gristmill.network.releases.targets import Target
from gristmill.store.manifest import LOCK

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer
    from tuf.api.metadata import Metadata, Root, TargetFile

ROLES = ("root", "targets", "snapshot", "timestamp")
DAYS = {"root": 365, "targets": 90, "snapshot": 7, "timestamp": 1}  # until metadata expire
SOON = 0.1  # of these days are left: people are told
TIMESTAMP = f"{TRUST}/timestamp.json"
VERSIONS = 1000  # that killed publishers may have left and are stepped over
LARGEST = 5_000_000  # bytes, as python-tuf reads at most

JSON = {"Content-Type": "application/json"}
FIXED = {**JSON, "Cache-Control": IMMUTABLE}


class RoleChange(NamedTuple):
    """Who may sign a role from now on."""

    add: Sequence["Key"] = ()
    remove: Sequence[str] = ()  # key ids
    threshold: int | None = None  # signatures that are needed; None: as before


class SignatureCount(NamedTuple):
    """How far metadata are signed."""

    keys: list[str]  # ids of the keys that may sign, and did
    threshold: int  # how many of them are needed
    others: list[str]  # ids of those that may sign and did not

    @property
    def enough(self) -> bool:
        """Return whether no further signature is needed."""
        return len(self.keys) >= self.threshold


def unpublished(made: "Metadata[Any]") -> "Metadata[Any]":
    """Return metadata whose first version is still to be written."""
    made.signed.version = 0
    return made


def decoded(data: bytes, role: str | None, where: str) -> "Metadata[Any]":
    """Return metadata of a role (None: of any). Raises VerificationError."""
    from tuf.api.exceptions import RepositoryError
    from tuf.api.metadata import Metadata

    try:
        metadata: Metadata[Any] = Metadata.from_bytes(data)
    except (RepositoryError, ValueError, RecursionError) as error:
        raise VerificationError(f"{where}: no TUF metadata: {error}") from error
    if role is not None and metadata.signed.type != role:
        raise VerificationError(f"{where}: expected metadata of {role}, got {metadata.signed.type}")
    return metadata


def read_roots(target: Target) -> "list[Metadata[Root]]":
    """Return all versions of the root of a target, each signed by the keys of the one before and
    its own. Raises VerificationError, MachineError.
    """
    roots: list[Metadata[Root]] = []
    for version in range(1, VERSIONS):
        key = f"{TRUST}/{version}.root.json"
        blob = target.get(key, LARGEST)
        if blob is None:
            break
        where = f"{target.url}/{key}"
        root: Metadata[Root] = decoded(blob.data, "root", where)
        signed = all(is_signed(by, root) for by in (*roots[-1:], root))
        if root.signed.version != version or not signed:
            raise VerificationError(
                f"{where}: not version {version} of the root, signed by enough keys of the root "
                "before it and its own. The store was altered"
            )
        roots.append(root)
    return roots


def signatures(root: "Metadata[Root]", found: "Metadata[Any]") -> SignatureCount:
    """Return which keys of a root signed metadata."""
    result = root.signed.get_verification_result(
        found.signed.type, found.signed_bytes, found.signatures
    )
    return SignatureCount(sorted(result.signed), result.threshold, sorted(result.unsigned))


def is_signed(root: "Metadata[Root]", found: "Metadata[Any]") -> bool:
    """Return whether enough keys of a root signed metadata."""
    return signatures(root, found).enough


def signers_for(
    signers: "Iterable[Signer]", role: str, *roots: "Metadata[Root] | None"
) -> "list[Signer]":
    """Return those whose key may sign a role, by any of the roots."""
    keys: set[str] = set()
    for root in roots:
        keys |= set() if root is None else set(root.signed.roles[role].keyids)
    return [signer for signer in signers if signer.public_key.keyid in keys]


def change(root: "Root", role: str, wanted: RoleChange) -> None:
    """Change the keys and the threshold of a role. Raises RecipeError if that cannot be."""
    for keyid in wanted.remove:
        known = [known for known in root.roles[role].keyids if known.startswith(keyid)]
        if len(known) != 1 or len(keyid) < 8:
            raise RecipeError(f"{role}: {len(known)} of its keys begin with {keyid!r}: expected 1")
        root.revoke_key(known[0], role)
    for key in wanted.add:
        root.add_key(key, role)
    if wanted.threshold is not None:
        root.roles[role].threshold = wanted.threshold
    keys, threshold = len(root.roles[role].keyids), root.roles[role].threshold
    if not 1 <= threshold <= keys:
        raise RecipeError(f"{role}: {threshold} signatures of {keys} keys: they cannot be had")


def check_draft(draft: "Metadata[Any]", before: "Metadata[Any] | None", where: str) -> None:
    """Raise RecipeError if a draft has expired, or is no successor of what is there."""
    version = before.signed.version if before else 0
    fits = draft.signed.version >= version
    if draft.signed.type == "root":
        fits = draft.signed.version == version + 1
    if not fits or draft.signed.expires <= datetime.now(UTC):
        raise RecipeError(
            f"{where}: the draft is version {draft.signed.version} of {draft.signed.type}, which "
            f"expires on {draft.signed.expires:%Y-%m-%d}, and version {version} is there: it is "
            "out of date. Make a new one (--draft)"
        )


def named_targets(number: int, release: bytes, lock: bytes) -> "dict[str, TargetFile]":
    """Return what the targets name: a release, and the lock of its corpus."""
    from tuf.api.metadata import TargetFile

    key = release_key(number)
    named = TargetFile.from_data(LOCK, lock, ["sha256"])
    named.unrecognized_fields["custom"] = {"release": number}
    return {LOCK: named, key: TargetFile.from_data(key, release, ["sha256"])}


def expiry(days: int) -> datetime:
    """Return the time in `days` days."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)


def expiry_lines(expires: Mapping[str, datetime], now: datetime | None = None) -> list[str]:
    """Return the warnings about metadata that expire soon, or have expired: a line for each
    role.
    """
    now = now or datetime.now(UTC)
    verb = {"root": "release rotate", "targets": "release sign --all"}
    lines = []
    for role in ROLES:
        if role in expires and (left := expires[role] - now) < timedelta(days=DAYS[role]) * SOON:
            when = f"{expires[role]:%Y-%m-%d %H:%M} UTC"
            said = "has expired" if left < timedelta() else "expires"
            lines.append(
                f"the signature of {role} {said} ({when}), and readers refuse it then: renew it "
                f"with `gristmill {verb.get(role, 'release sign')}`"
            )
    return lines
