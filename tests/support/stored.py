"""Corpora in the bucket `corpora` of a store, as boto3 sees them."""

from pathlib import Path
from typing import Any

from tests.support.corpora import digests


def names(client: Any, prefix: str) -> list[str]:
    """The names below a prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="corpora", Prefix=f"{prefix}/")
    return [
        entry["Key"].removeprefix(f"{prefix}/")
        for page in pages
        for entry in page.get("Contents", [])
    ]


def copied(client: Any, prefix: str, folder: Path) -> dict[str, str]:
    """The digests of a corpus that is copied from the store as it is."""
    for name in names(client, prefix):
        if not name.startswith("work/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("corpora", f"{prefix}/{name}", str(path))
    return digests(folder)
