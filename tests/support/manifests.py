"""A manifest that was edited, with lock, sums and content that agree with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.store import manifest as manifests


def forge(corpus: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Edit the manifest, and make lock, sums and content agree with it: only the counts show it."""
    table = json.loads((corpus / "manifest.json").read_text())
    change(table)
    manifest = manifests.decode(json.dumps(table).encode())
    manifest = manifests.Manifest(
        **{
            **{f: getattr(manifest, f) for f in manifest.__struct_fields__},
            "content": manifests.content_digest(manifest.parts),
        }
    )
    data = manifests.encode(manifest)
    (corpus / "manifest.json").write_bytes(data)
    (corpus / "manifest.lock").write_bytes(manifests.make_lock(data))
    (corpus / "SHA256SUMS").write_bytes(manifests.sums(manifest.parts))
