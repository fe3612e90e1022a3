"""Keys that sign releases: ed25519, in files that a passphrase encrypts.

KEY        the private key, PKCS #8 in PEM (RFC 5958, RFC 7468), encrypted; mode 0600
KEY.pub    the public key as TUF writes it, in JSON: for `release rotate` on another machine
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.errors import MachineError, RecipeError
from gristmill.network.trust.trust_reader import EXTRA
from gristmill.store.parts import machine_errors, to_json

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, Key

PASSPHRASE = "GRISTMILL_KEY_PASSPHRASE"  # noqa: S105 (a variable's name)
LARGEST = 1 << 16  # bytes of a key's file


def new_key(path: Path, passphrase: str) -> dict[str, str]:
    """Make a key: its private and its public file, neither over another. Returns `keyid` and the
    files.

    Raises RecipeError if a file is there or the passphrase is empty.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from securesystemslib.signer import CryptoSigner
    except ImportError:
        raise MachineError(EXTRA.format(what=path)) from None
    if not passphrase:
        raise RecipeError(f"{path}: a key needs a passphrase: set {PASSPHRASE}, or type one")
    signer = CryptoSigner.generate_ed25519()
    private = serialization.load_pem_private_key(signer.private_bytes, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase.encode()),
    )
    key = signer.public_key
    public = path.with_name(f"{path.name}.pub")
    for name, data, mode in (
        (path, private, 0o600),
        (public, to_json({"keyid": key.keyid, **key.to_dict()}), 0o644),
    ):
        with machine_errors(name, every=True):
            name.parent.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            except FileExistsError:
                raise RecipeError(f"{name}: is there: a key is never overwritten") from None
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    return {"keyid": key.keyid, "private": str(path), "public": str(public)}


def load_signer(path: Path, passphrase: str) -> "CryptoSigner":
    """Return the signer of a private key's file. Raises RecipeError."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from securesystemslib.signer import CryptoSigner
    except ImportError:
        raise MachineError(EXTRA.format(what=path)) from None
    data = _read(path)
    try:
        key = serialization.load_pem_private_key(data, passphrase.encode() or None)
    except (ValueError, TypeError):  # the library's words may show more than we want to
        raise RecipeError(
            f"{path}: no private key that this passphrase opens. `gristmill release key` makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise RecipeError(f"{path}: no ed25519 key: `gristmill release key` makes one")
    return CryptoSigner(key)


def load_signers(paths: Sequence[Path | str], passphrase: str | None) -> "list[CryptoSigner]":
    """Return the signers of private keys; `passphrase` is by default that of the environment.
    Raises RecipeError.
    """
    if not paths:
        return []
    passphrase = os.environ.get(PASSPHRASE, "") if passphrase is None else passphrase
    if not passphrase:
        raise RecipeError(f"{paths[0]}: keys are encrypted by a passphrase: set {PASSPHRASE}")
    return [load_signer(Path(path), passphrase) for path in paths]


def load_public(path: Path) -> "Key":
    """Return the public key of a .pub file. Raises RecipeError."""
    try:
        from securesystemslib.signer import Key
    except ImportError:
        raise MachineError(EXTRA.format(what=path)) from None
    try:
        table = json.loads(_read(path))
        key = Key.from_dict(table.pop("keyid"), table)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecipeError(
            f"{path}: no public key: name the file that `gristmill release key` wrote, with .pub"
        ) from error
    return key


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        raise RecipeError(f"{path}: the key cannot be read: {error.strerror}") from error
