"""Signing releases: TUF metadata of a target, by python-tuf (docs/publishing.md).

    trust/1.root.json, 2.root.json ...   which keys may sign what, and how many of them must
    trust/N.targets.json                 the newest release, and the lock of its corpus
    trust/N.snapshot.json                which targets belong together
    trust/timestamp.json                 which snapshot is the newest; renewed daily

The specification is https://theupdateframework.github.io/specification/latest/ (consistent
snapshots). Targets and snapshots are written before the timestamp that names them, which is written
only over the one that was read: of two publishers the second is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.layout import TRUST
from gristmill.network.releases.targets import Target, TargetChangedError, changed
from gristmill.network.trust.trust_metadata import (
    DAYS,
    FIXED,
    JSON,
    LARGEST,
    ROLES,
    TIMESTAMP,
    VERSIONS,
    RoleChange,
    change,
    check_draft,
    decoded,
    expiry,
    expiry_lines,
    is_signed,
    named_targets,
    read_roots,
    signers_for,
    unpublished,
)
from gristmill.network.trust.trust_reader import EXTRA, release_number
from gristmill.store.bucket.bucket import Version
from gristmill.store.manifest import LOCK

if TYPE_CHECKING:
    from securesystemslib.signer import Signer
    from tuf.api.metadata import Metadata, Root, TargetFile, Targets


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
        self.roots = read_roots(target)  # the newest one last
        self._version: Version = None  # of timestamp.json, as it was read
        self._found: dict[str, Metadata[Any]] = {}
        self._signed_targets: Metadata[Targets] | None = None
        if self.roots:
            self._load()

    # -- what is there

    @property
    def exists(self) -> bool:
        """Return whether the target's releases are signed."""
        return bool(self.roots)

    @property
    def root(self) -> "Metadata[Root]":
        """Return the newest root."""
        return self.roots[-1]

    def signed_release(self) -> tuple[int, str] | None:
        """Return (number, sha256) of the newest release that the timestamp names; None if none was
        signed yet.
        """
        return _release(self._found["targets"]) if "targets" in self._found else None

    def stored_releases(self) -> Iterator[tuple[int, str]]:
        """Yield (number, sha256) of every release that targets in the store name with enough
        signatures, whatever the timestamp says: one that was lost or restored names an older one.
        """
        for key in self._target.sizes(f"{TRUST}/"):
            if not key.endswith(".targets.json"):
                continue
            blob = self._target.get(key, LARGEST)
            if blob is None:
                continue
            with suppress(VerificationError):  # not what a publisher wrote: it proves nothing
                targets = decoded(blob.data, "targets", f"{self._target.url}/{key}")
                release = _release(targets)
                if release and any(is_signed(root, targets) for root in self.roots):
                    yield release

    def _load(self) -> None:
        blob = self._target.get(TIMESTAMP, LARGEST)
        if blob is None:
            return  # a publisher was killed before its first timestamp
        self._version = blob.version
        timestamp = self._checked(blob.data, "timestamp", TIMESTAMP)
        snapshot = self._named("snapshot", timestamp.signed.snapshot_meta.version)
        targets = self._named("targets", snapshot.signed.meta["targets.json"].version)
        self._found = {"timestamp": timestamp, "snapshot": snapshot, "targets": targets}

    def _named(self, role: str, version: int) -> "Metadata[Any]":
        key = f"{TRUST}/{version}.{role}.json"
        blob = self._target.get(key, LARGEST)
        if blob is None:
            raise VerificationError(f"{self._target.url}/{key}: is named, and is not there")
        return self._checked(blob.data, role, key)

    def _checked(self, data: bytes, role: str, key: str) -> "Metadata[Any]":
        """Return metadata that the newest root's keys signed, or those of the root before: a
        publisher may have been killed between a new root and what its keys sign.
        """
        where = f"{self._target.url}/{key}"
        metadata = decoded(data, role, where)
        if not any(is_signed(root, metadata) for root in self.roots[-2:]):
            raise VerificationError(
                f"{where}: not signed by enough keys of the root. The store was altered"
            )
        return metadata

    def versions(self) -> dict[str, dict[str, Any]]:
        """Return version and expiry of each role."""
        every = {"root": self.root, **self._found}
        return {
            role: {
                "version": every[role].signed.version,
                "expires": every[role].signed.expires.isoformat(),
            }
            for role in ROLES
            if role in every
        }

    def warnings(self) -> list[str]:
        """Return the warnings about signatures that expire soon."""
        every = {"root": self.root, **self._found}
        return expiry_lines({role: metadata.signed.expires for role, metadata in every.items()})

    # -- signing

    def check_signers(self, roles: Sequence[str]) -> None:
        """Raise RecipeError if the keys at hand do not suffice for roles."""
        for role in roles:
            needed = self.root.signed.roles[role]
            have = len(signers_for(self._signers, role, self.root))
            if have < needed.threshold:
                raise RecipeError(
                    f"{self._target.url}: {role} needs {needed.threshold} of the keys "
                    f"{', '.join(keyid[:12] for keyid in sorted(needed.keyids))}, and {have} of "
                    "them were given: add --key"
                )

    def take(self, draft: "Metadata[Targets]") -> None:
        """Write these targets in place of new ones: several people signed them one after another
        (network/trust/drafts.py). Raises RecipeError if they are older than those that are there,
        expired or not signed by enough keys.
        """
        check_draft(draft, self._found.get("targets"), self._target.url)
        if not is_signed(self.root, draft):
            raise RecipeError(
                f"{self._target.url}: the targets are not signed by enough keys of the root: "
                "`gristmill release sign FILE --key KEY` adds a signature"
            )
        self._signed_targets = draft

    def draft_targets(self, number: int, release: bytes, lock: bytes) -> "Metadata[Targets]":
        """Return the targets that say that a release is the newest, without a signature."""
        return self._next_targets(named_targets(number, release, lock))

    def draft_renewal(self) -> "Metadata[Targets]":
        """Return the targets that are there with a new expiry, without a signature."""
        self._refuse_empty()
        return self._next_targets(self._found["targets"].signed.targets)

    def _next_targets(self, files: "dict[str, TargetFile]") -> "Metadata[Targets]":
        from tuf.api.metadata import Metadata, Targets

        made = Metadata(Targets())
        targets = self._found.get("targets")
        made.signed.version = 1 + (targets.signed.version if targets else 0)
        while self._target.get(f"{TRUST}/{made.signed.version}.targets.json", LARGEST):
            made.signed.version += 1
        made.signed.targets = files
        made.signed.expires = expiry(self._days["targets"])
        return made

    def sign_release(self, number: int, release: bytes, lock: bytes) -> None:
        """Say that a release is the newest. Raises TargetChangedError if another publisher did."""
        from tuf.api.metadata import Metadata, Targets

        files = named_targets(number, release, lock)
        if "targets" in self._found and self._found["targets"].signed.targets == files:
            self.renew()
            return
        if self._signed_targets is not None:
            self._refuse_other(files)
        if "targets" not in self._found:
            self._found["targets"] = unpublished(Metadata(Targets()))
        self._found["targets"].signed.targets = files
        self._write(["targets", "snapshot", "timestamp"])

    def _refuse_other(self, files: "dict[str, TargetFile]") -> None:
        assert self._signed_targets is not None
        if self._signed_targets.signed.targets != files:
            names = ", ".join(sorted(self._signed_targets.signed.targets))
            raise RecipeError(
                f"{self._target.url}: the draft names {names}, and what would be published is "
                f"{', '.join(sorted(files))} with other bytes. Make a new draft"
            )

    def _refuse_empty(self) -> None:
        if not self._found:
            raise RecipeError(f"{self._target.url}: no signed release: publish one with --key")

    def renew(self, *, everything: bool = False) -> list[str]:
        """Sign again what is there: the timestamp, and what has lived for half of its time or more
        and the keys at hand can sign; with `everything`, all three roles. Returns the roles.
        """
        self._refuse_empty()
        if self._signed_targets is not None:
            self._refuse_other(self._found["targets"].signed.targets)
            everything = True
        roles = ["timestamp"]
        for role in ("snapshot", "targets"):
            left = self._found[role].signed.expires - datetime.now(UTC)
            old = left < timedelta(days=self._days[role]) / 2
            needed = self.root.signed.roles[role].threshold
            can = len(signers_for(self._signers, role, self.root)) >= needed
            if everything or (old and can) or not is_signed(self.root, self._found[role]):
                roles.insert(0, role)
        if roles[0] == "targets" and "snapshot" not in roles:
            roles.insert(1, "snapshot")
        self.check_signers_at_hand(roles)
        self._write(roles)
        return roles

    def _roles_without_signature(self) -> list[str]:
        """Return the first role that the newest root's keys did not sign, or that is to be written,
        and those that name it.
        """
        if not self._found:
            return []
        for place, role in enumerate(ROLES[1:], 1):
            given = role == "targets" and self._signed_targets is not None
            if given or not is_signed(self.root, self._found[role]):
                return list(ROLES[place:])
        return []

    def check_signers_at_hand(self, roles: Sequence[str]) -> None:
        """Raise RecipeError if the keys do not suffice for what is not signed by others."""
        given = {"targets"} if self._signed_targets is not None else set()
        self.check_signers([role for role in roles if role not in given])

    def draft_root(self, changes: Mapping[str, RoleChange]) -> "Metadata[Root]":
        """Return the next root, without a signature: other keys or thresholds, and a new expiry.

        Of the first one, a role without keys gets every key at hand, of which one suffices.
        """
        from tuf.api.metadata import Metadata, Root

        if self.exists:
            root: Metadata[Root] = Metadata.from_bytes(self.root.to_bytes())
            root.signed.version += 1
        else:
            root = Metadata(Root(consistent_snapshot=True))
        every = [signer.public_key for signer in self._signers]
        for role in ROLES:
            wanted = changes.get(role, RoleChange())
            if not self.exists and not wanted.add:
                wanted = wanted._replace(add=every)
            change(root.signed, role, wanted)
        root.signed.expires = expiry(self._days["root"])
        root.signatures.clear()
        return root

    def rotate(
        self,
        changes: Mapping[str, RoleChange],
        signed: "Metadata[Root] | None" = None,
        targets: "Metadata[Targets] | None" = None,
    ) -> int:
        """Write a new root, or `signed`, which has signatures of others. Returns its version.

        The keys at hand and the signatures must suffice for the root before and for the new one,
        and the keys for every role that loses the signatures that it needs: it is signed again, or
        in its place `targets` is written, which others signed.
        """
        before = self.root if self.exists else None
        root = self.draft_root(changes) if signed is None else signed
        if before is not None and root.signed == before.signed:
            if any(not is_signed(before, metadata) for metadata in self._found.values()):
                self.renew()  # a publisher was killed after this root
            return int(root.signed.version)
        if signed is not None:
            check_draft(root, before, self._target.url)
        for signer in signers_for(self._signers, "root", root, before):
            root.sign(signer, append=True)
        for by in (root, *([before] if before else [])):
            if not is_signed(by, root):
                needed = by.signed.roles["root"]
                raise RecipeError(
                    f"{self._target.url}: root needs {needed.threshold} of the keys "
                    f"{', '.join(keyid[:12] for keyid in sorted(needed.keyids))}, and fewer of "
                    "them signed the new one: add --key"
                )
        self.roots.append(root)
        if targets is not None:
            self.take(targets)
        roles = self._roles_without_signature()
        self.check_signers_at_hand(roles)
        both = before is not None and all(
            len(signers_for(self._signers, role, before)) >= before.signed.roles[role].threshold
            for role in roles
        )
        if roles and both:
            # Signed by the old keys and the new ones: no reader is ever without a sound state.
            self._write(roles, also=before)
        self._write_root(root)
        if roles and not both:
            self._write(roles)
        return int(root.signed.version)

    def _write_root(self, root: "Metadata[Root]") -> None:
        """Write a new version of the root, and root.json, which people copy to pin it."""
        data, key = root.to_bytes(), f"{TRUST}/{root.signed.version}.root.json"
        if not self._target.put_new(key, data, FIXED):
            raise TargetChangedError(changed(self._target.url, key))
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
                self._found[role] = unpublished(Metadata(kind()))
            made = self._found[role]
            made.signed.expires = expiry(self._days[role])
            if role == "timestamp":
                made.signed.version += 1
                data = self._signed(role, also)
                self._target.put_pointer(TIMESTAMP, data, self._version, self._age)
                now = self._target.get(TIMESTAMP, LARGEST)
                self._version = now.version if now else None
                return
            data = self._put_version(role, also)
            made = self._found[role]
            meta = MetaFile.from_data(made.signed.version, data, ["sha256"])
            if role == "targets":
                if "snapshot" not in self._found:
                    self._found["snapshot"] = unpublished(Metadata(Snapshot()))
                self._found["snapshot"].signed.meta["targets.json"] = meta
            else:
                if "timestamp" not in self._found:
                    self._found["timestamp"] = unpublished(Metadata(Timestamp()))
                self._found["timestamp"].signed.snapshot_meta = meta

    def _put_version(self, role: str, also: "Metadata[Root] | None") -> bytes:
        """Write targets or snapshot under the next free number; its bytes."""
        if role == "targets" and self._signed_targets is not None:
            made = self._found[role] = self._signed_targets
            key, data = f"{TRUST}/{made.signed.version}.targets.json", made.to_bytes()
            if not self._target.put_new(key, data, FIXED):
                there = self._target.get(key, LARGEST)
                if there is None or there.data != data:
                    raise TargetChangedError(changed(self._target.url, key))
            return bytes(data)
        made = self._found[role]
        for _ in range(VERSIONS):  # a killed publisher may have written the next one
            made.signed.version += 1
            data = self._signed(role, also)
            if self._target.put_new(f"{TRUST}/{made.signed.version}.{role}.json", data, FIXED):
                break
        return data

    def _signed(self, role: str, also: "Metadata[Root] | None") -> bytes:
        made = self._found[role]
        made.signatures.clear()
        for signer in signers_for(self._signers, role, self.root, also):
            made.sign(signer, append=True)
        return bytes(made.to_bytes())


def _release(targets: "Metadata[Targets]") -> tuple[int, str] | None:
    """Return (number, sha256) of the release that targets name; None if they name none."""
    files = targets.signed.targets
    number = release_number(files[LOCK]) if LOCK in files else None
    if number is None or layout.release_key(number) not in files:
        return None
    return number, str(files[layout.release_key(number)].hashes["sha256"])
