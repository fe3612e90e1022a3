"""A published corpus in a folder, as docs/publishing.md describes it: written by these lines, which
share no code with the publisher.
"""

import hashlib
import json
import shutil
from pathlib import Path


def published(corpus: Path, target: Path, number: int = 1, **more: object) -> Path:
    """Put a corpus of tests/support/token_corpora.py into a target as a release; returns the
    target. `more` are further fields of the release.
    """
    data = (corpus / "manifest.json").read_bytes()
    for part in json.loads(data)["parts"]:
        put(target, (corpus / part["path"]).read_bytes())
    before = target / "releases" / f"{number - 1:08}.json"
    release = {
        "format": 1,
        "number": number,
        "manifest": put(target, data),
        "manifest_size": len(data),
        "previous": hashlib.sha256(before.read_bytes()).hexdigest() if before.exists() else None,
        "included": ["tokens", "tokenizer"],
        **more,
    }
    text = json.dumps(release, indent=1).encode() + b"\n"
    (target / "releases").mkdir(exist_ok=True)
    (target / "releases" / f"{number:08}.json").write_bytes(text)
    point(target, number)
    return target


def put(target: Path, data: bytes) -> str:
    """Write an object; returns its sha256."""
    sha256 = hashlib.sha256(data).hexdigest()
    path = target / "objects" / sha256[:2] / sha256
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return sha256


def point(target: Path, number: int) -> None:
    """Let the pointer name a release."""
    text = (target / "releases" / f"{number:08}.json").read_bytes()
    pointer = {"format": 1, "release": number, "sha256": hashlib.sha256(text).hexdigest()}
    coming = target / "latest.json.next"
    coming.write_text(json.dumps(pointer))
    shutil.move(coming, target / "latest.json")
