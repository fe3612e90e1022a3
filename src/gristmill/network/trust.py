"""Signing releases: TUF metadata of a target, by python-tuf (docs/publishing.md).

    trust/1.root.json, 2.root.json ...   which keys may sign what, and how many of them must
    trust/N.targets.json                 the newest release, and the lock of its corpus
    trust/N.snapshot.json                which targets belong together
    trust/timestamp.json                 which snapshot is the newest; renewed daily

The specification is https://theupdateframework.github.io/specification/latest/ (consistent
snapshots). Targets and snapshots are written before the timestamp that names them, which is written
only over the one that was read: of two publishers the second is refused.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.network import layout
from gristmill.network.layout import IMMUTABLE, TRUST
from gristmill.network.targets import Target, TargetChangedError, Version
from gristmill.network.trust_reader import EXTRA, number_of
from gristmill.store.manifest import LOCK

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer
    from tuf.api.metadata import Metadata, Root

ROLES = ("root", "targets", "snapshot", "timestamp")
DAYS = {"root": 365, "targets": 90, "snapshot": 7, "timestamp": 1}  # until metadata expire
TIMESTAMP = f"{TRUST}/timestamp.json"
LARGEST = 5_000_000  # bytes, as python-tuf reads at most
VERSIONS = 1000  # that killed publishers may have left and are stepped over


JSON = {"Content-Type": "application/json"}
FIXED = {**JSON, "Cache-Control": IMMUTABLE}


class RoleChange(NamedTuple):
    """Who may sign a role from now on."""

    add: Sequence["Key"] = ()
    remove: Sequence[str] = ()  # key ids
    threshold: int | None = None  # signatures that are needed; None: as before


class Trust:
    """The metadata of a target, as a publisher reads and writes them."""

    def __init__(
        self,
        target: Target,
        signers: Sequence["Signer"] = (),
        *,
        days: Mapping[str, int] | None = None,
        max_age: int = layout.MAX_AGE,
    ) -> None:
        """Reads what is there and checks its signatures; expiry is not looked at, as signing
        renews it. Raises VerificationError, MachineError.
        """
        try:
            import tuf.api.metadata  # noqa: F401
        except ImportError:
            raise MachineError(EXTRA.format(what=target.url)) from None
        self._target, self._signers = target, list(signers)
        self._days = DAYS | dict(days or {})
        self._age = {**JSON, "Cache-Control": f"public, max-age={max_age}"}
        self.roots = self._read_roots()  # the newest one last
        self._version: Version = None  # of timestamp.json, as it was read
        self._found: dict[str, Metadata[Any]] = {}
        if self.roots:
            self._load()

    # -- what is there

    @property
    def exists(self) -> bool:
        """Whether the target's releases are signed."""
        return bool(self.roots)

    @property
    def root(self) -> "Metadata[Root]":
        """The newest root."""
        return self.roots[-1]

    def signed_release(self) -> tuple[int, str] | None:
        """(number, sha256) of the newest signed release; None if none was signed yet."""
        if "targets" not in self._found:
            return None
        targets = self._found["targets"].signed.targets
        number = number_of(targets[LOCK]) if LOCK in targets else None
        if number is None:
            return None
        return number, str(targets[layout.release_key(number)].hashes["sha256"])

    def _read_roots(self) -> "list[Metadata[Root]]":
        from tuf.api.metadata import Root

        roots: list[Metadata[Root]] = []
        for version in range(1, VERSIONS):
            key = f"{TRUST}/{version}.root.json"
            found = self._target.get(key, LARGEST)
            if found is None:
                break
            where = f"{self._target.url}/{key}"
            root: Metadata[Root] = _decoded(found.data, "root", where)
            wrong = [
                by
                for by in (*roots[-1:], root)
                if root.signed.version != version or not _is_signed(by, root)
            ]
            if wrong:
                raise VerificationError(
                    f"{where}: not version {version} of the root, signed by enough keys of the "
                    "root before it and its own. The store was altered"
                )
            roots.append(root)
        return roots

    def _load(self) -> None:
        found = self._target.get(TIMESTAMP, LARGEST)
        if found is None:
            return  # a publisher was killed before its first timestamp
        self._version = found.version
        timestamp = self._checked(found.data, "timestamp", TIMESTAMP)
        snapshot = self._named("snapshot", timestamp.signed.snapshot_meta.version)
        targets = self._named("targets", snapshot.signed.meta["targets.json"].version)
        self._found = {"timestamp": timestamp, "snapshot": snapshot, "targets": targets}

    def _named(self, role: str, version: int) -> "Metadata[Any]":
        key = f"{TRUST}/{version}.{role}.json"
        found = self._target.get(key, LARGEST)
        if found is None:
            raise VerificationError(f"{self._target.url}/{key}: is named, and is not there")
        return self._checked(found.data, role, key)

    def _checked(self, data: bytes, role: str, key: str) -> "Metadata[Any]":
        """Metadata that the newest root's keys signed, or those of the root before: a publisher
        may have been killed between a new root and what its keys sign.
        """
        where = f"{self._target.url}/{key}"
        found = _decoded(data, role, where)
        if not any(_is_signed(root, found) for root in self.roots[-2:]):
            raise VerificationError(
                f"{where}: not signed by enough keys of the root. The store was altered"
            )
        return found

    def versions(self) -> dict[str, dict[str, Any]]:
        """Version and expiry of each role."""
        every = {"root": self.root, **self._found}
        return {
            role: {
                "version": every[role].signed.version,
                "expires": every[role].signed.expires.isoformat(),
            }
            for role in ROLES
            if role in every
        }

    # -- signing

    def check_signers(self, roles: Sequence[str]) -> None:
        """Raise RecipeError if the keys at hand do not suffice for roles."""
        for role in roles:
            needed = self.root.signed.roles[role]
            have = len(self._signers_of(self.root, role))
            if have < needed.threshold:
                raise RecipeError(
                    f"{self._target.url}: {role} needs {needed.threshold} of the keys "
                    f"{', '.join(keyid[:12] for keyid in sorted(needed.keyids))}, and {have} of "
                    "them were given: add --key"
                )

    def create(self, changes: Mapping[str, RoleChange] | None = None) -> None:
        """Write the first root. Without changes every given key may sign every role, alone."""
        from tuf.api.metadata import Metadata, Root

        root = Metadata(Root(consistent_snapshot=True))
        every = RoleChange([signer.public_key for signer in self._signers], threshold=1)
        for role in ROLES:
            change = (changes or {}).get(role, every)
            if not change.add:
                change = change._replace(add=every.add, threshold=change.threshold or 1)
            _change(root.signed, role, change)
        self._write_root(root)

    def sign_release(self, number: int, release: bytes, lock: bytes) -> None:
        """Say that a release is the newest. Raises TargetChangedError if another publisher did."""
        from tuf.api.metadata import Metadata, TargetFile, Targets

        key = layout.release_key(number)
        named = TargetFile.from_data(LOCK, lock, ["sha256"])
        named.unrecognized_fields["custom"] = {"release": number}
        files = {LOCK: named, key: TargetFile.from_data(key, release, ["sha256"])}
        if "targets" in self._found and self._found["targets"].signed.targets == files:
            self.renew()
            return
        if "targets" not in self._found:
            self._found["targets"] = _fresh(Metadata(Targets()))
        self._found["targets"].signed.targets = files
        self._write(["targets", "snapshot", "timestamp"])

    def renew(self, *, everything: bool = False) -> list[str]:
        """Sign again what is there: the timestamp, and what has lived for half of its time or more
        and the keys at hand can sign; with `everything`, all three roles. Returns the roles.
        """
        if not self._found:
            raise RecipeError(f"{self._target.url}: no signed release: publish one with --key")
        roles = ["timestamp"]
        for role in ("snapshot", "targets"):
            left = self._found[role].signed.expires - datetime.now(UTC)
            old = left < timedelta(days=self._days[role]) / 2
            needed = self.root.signed.roles[role].threshold
            can = len(self._signers_of(self.root, role)) >= needed
            if everything or (old and can) or not _is_signed(self.root, self._found[role]):
                roles.insert(0, role)
        if roles[0] == "targets" and "snapshot" not in roles:
            roles.insert(1, "snapshot")
        self.check_signers(roles)
        self._write(roles)
        return roles

    def rotate(self, changes: Mapping[str, RoleChange]) -> int:
        """Write a new root: other keys or thresholds, and a new expiry. Returns its version.

        The keys at hand must suffice for the root before and for the new one, and for every role
        whose keys change: what they sign is signed again.
        """
        from tuf.api.metadata import Metadata, Root

        if not self.exists:
            raise RecipeError(f"{self._target.url}: no root: publish with --key first")
        before = self.root
        root: Metadata[Root] = Metadata.from_bytes(before.to_bytes())
        for role, change in changes.items():
            _change(root.signed, role, change)
        root.signed.version += 1
        self.check_signers(["root"])
        self.roots.append(root)
        roles = [role for role in ROLES[1:] if changes.get(role, RoleChange()) != RoleChange()]
        # The timestamp names the snapshot, and the snapshot the targets.
        roles = list(ROLES[1:][ROLES[1:].index(roles[0]) :]) if roles and self._found else []
        self.check_signers(["root", *roles])
        both = [
            role
            for role in roles
            if len(self._signers_of(before, role)) >= before.signed.roles[role].threshold
        ]
        if both == roles and roles:
            # Signed by the old keys and the new ones: no reader is ever without a sound state.
            self._write(roles, also=before)
            roles = []
        self.roots.pop()
        self._write_root(root)
        if roles:
            self._write(roles)
        return int(root.signed.version)

    def _signers_of(
        self, root: "Metadata[Root]", role: str, also: "Metadata[Root] | None" = None
    ) -> "list[Signer]":
        keys = {*root.signed.roles[role].keyids}
        if also is not None:
            keys |= {*also.signed.roles[role].keyids}
        return [signer for signer in self._signers if signer.public_key.keyid in keys]

    def _expires(self, role: str) -> datetime:
        now = datetime.now(UTC).replace(microsecond=0)
        return now + timedelta(days=self._days[role])

    def _write_root(self, root: "Metadata[Root]") -> None:
        """Write a new version of the root, and root.json, which people copy to pin it."""
        root.signed.expires = self._expires("root")
        root.signatures.clear()
        before = self.roots[-1] if self.roots else None
        for signer in self._signers_of(root, "root", before):
            root.sign(signer, append=True)
        if not all(_is_signed(by, root) for by in (root, *self.roots[-1:])):
            raise RecipeError(
                f"{self._target.url}: the new root is not signed by enough keys of the root before "
                "it and its own: add --key"
            )
        data, key = root.to_bytes(), f"{TRUST}/{root.signed.version}.root.json"
        if not self._target.put_new(key, data, FIXED):
            raise TargetChangedError(
                f"{self._target.url}/{key}: another publisher wrote it meanwhile: look at it, then "
                "run the command again"
            )
        self.roots.append(root)
        plain = self._target.get(f"{TRUST}/root.json", LARGEST)
        self._target.put_pointer(
            f"{TRUST}/root.json", data, plain.version if plain else None, self._age
        )

    def _write(self, roles: Sequence[str], also: "Metadata[Root] | None" = None) -> None:
        """Sign and write roles, in their order; the last is the timestamp. `also`: an older root
        whose keys sign as well.
        """
        from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp

        for role in roles:
            if role not in self._found:
                kind: Any = Snapshot if role == "snapshot" else Timestamp
                self._found[role] = _fresh(Metadata(kind()))
            made = self._found[role]
            made.signed.expires = self._expires(role)
            if role == "timestamp":
                made.signed.version += 1
                data = self._signed(role, also)
                self._target.put_pointer(TIMESTAMP, data, self._version, self._age)
                now = self._target.get(TIMESTAMP, LARGEST)
                self._version = now.version if now else None
                return
            for _ in range(VERSIONS):  # a killed publisher may have written the next one
                made.signed.version += 1
                data = self._signed(role, also)
                if self._target.put_new(f"{TRUST}/{made.signed.version}.{role}.json", data, FIXED):
                    break
            meta = MetaFile.from_data(made.signed.version, data, ["sha256"])
            if role == "targets":
                if "snapshot" not in self._found:
                    self._found["snapshot"] = _fresh(Metadata(Snapshot()))
                self._found["snapshot"].signed.meta["targets.json"] = meta
            else:
                if "timestamp" not in self._found:
                    self._found["timestamp"] = _fresh(Metadata(Timestamp()))
                self._found["timestamp"].signed.snapshot_meta = meta

    def _signed(self, role: str, also: "Metadata[Root] | None") -> bytes:
        made = self._found[role]
        made.signatures.clear()
        for signer in self._signers_of(self.root, role, also):
            made.sign(signer, append=True)
        return bytes(made.to_bytes())


def _fresh(made: "Metadata[Any]") -> "Metadata[Any]":
    """Metadata whose first version is still to be written."""
    made.signed.version = 0
    return made


def _decoded(data: bytes, role: str, where: str) -> "Metadata[Any]":
    """Metadata of a role. Raises VerificationError."""
    from tuf.api.exceptions import RepositoryError
    from tuf.api.metadata import Metadata

    try:
        found: Metadata[Any] = Metadata.from_bytes(data)
    except (RepositoryError, ValueError, RecursionError) as error:
        raise VerificationError(f"{where}: no TUF metadata: {error}") from error
    if found.signed.type != role:
        raise VerificationError(f"{where}: expected metadata of {role}, got {found.signed.type}")
    return found


def _is_signed(root: "Metadata[Root]", found: "Metadata[Any]") -> bool:
    """Whether enough keys of a root signed metadata."""
    from tuf.api.exceptions import UnsignedMetadataError

    try:
        root.signed.verify_delegate(found.signed.type, found.signed_bytes, found.signatures)
    except UnsignedMetadataError:
        return False
    return True


def _change(root: "Root", role: str, change: RoleChange) -> None:
    """Change the keys and the threshold of a role. Raises RecipeError if that cannot be."""
    for keyid in change.remove:
        known = [known for known in root.roles[role].keyids if known.startswith(keyid)]
        if len(known) != 1 or len(keyid) < 8:
            raise RecipeError(f"{role}: {len(known)} of its keys begin with {keyid!r}: expected 1")
        root.revoke_key(known[0], role)
    for key in change.add:
        root.add_key(key, role)
    if change.threshold is not None:
        root.roles[role].threshold = change.threshold
    keys, threshold = len(root.roles[role].keyids), root.roles[role].threshold
    if not 1 <= threshold <= keys:
        raise RecipeError(f"{role}: {threshold} signatures of {keys} keys: they cannot be had")
