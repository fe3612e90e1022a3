"""Where a corpus has parts, and a manifest that names others is refused."""

from gristmill.corpus.layout import FILES, FOLDERS
from gristmill.errors import VerificationError
from gristmill.store import manifest as manifests


def has_place(path: str) -> bool:
    """Return whether a corpus has parts there."""
    return path.partition("/")[0] in FOLDERS or path in FILES


def check_places(manifest: manifests.Manifest) -> None:
    """Refuse a manifest whose parts lie where a corpus has none: a store may be anybody's."""
    for part in manifest.parts:
        if not has_place(part.path):
            raise VerificationError(
                f"the manifest names a part {part.path!r}, where no corpus has one: the store was "
                "altered, or a later version of gristmill wrote it"
            )
