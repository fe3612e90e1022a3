"""The files that a corpus was made from, which are no parts of it: raw shards, and the files of an
import. `verify --raw` checks them.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from gristmill.errors import NO_JSON
from gristmill.phases.output.write_manifest import RUN
from gristmill.store.cache import Cache
from gristmill.store.http import urls
from gristmill.store.manifest import Imported, Manifest
from gristmill.store.parts import hash_file


class _RawFile(NamedTuple):
    name: str  # for messages
    path: Path
    size: int
    sha256: str


def check_raw_files(
    root: Path, manifest: Manifest, cache: Cache, *, quick: bool
) -> tuple[list[str], int]:
    """Check sizes and, unless `quick`, digests: local files in their place, fetched ones in the
    cache, imported ones in the folder that was imported. Returns a line for each file that is not
    as the manifest says, and the number of files. Shards that are recorded as absent are left out.
    """
    files = [*_raw_shards(root, manifest, cache), *_imported(root, manifest)]

    def check(file: _RawFile) -> str | None:
        try:
            size = file.path.stat().st_size
            if size != file.size:
                return f"{file.name}: {size:,} bytes, expected {file.size:,}"
            if not quick and (digest := hash_file(file.path)[1]) != file.sha256:
                return f"{file.name}: sha256 {digest}, expected {file.sha256}"
        except OSError:
            return f"{file.name}: its bytes are not at {file.path}"
        return None

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        wrong = [problem for problem in threads.map(check, files) if problem is not None]
    return wrong, len(files)


def _folder(root: Path) -> Path:
    """Return the folder from which paths count: the recipe's, or the one that was imported.
    run.json names it; without it, the corpus' own.
    """
    try:
        return Path(msgspec.json.decode((root / RUN).read_bytes())["folder"])
    except (OSError, KeyError, TypeError, *NO_JSON):
        return root


def _raw_shards(root: Path, manifest: Manifest, cache: Cache) -> Iterator[_RawFile]:
    folder = _folder(root)
    for shard in manifest.raw_shards:
        if shard.sha256 is None:
            continue
        for file in shard.files or ():
            path = folder / file.url
            yield _RawFile(
                f"{file.url} of raw shard {shard.number}", path, file.size or 0, file.sha256 or ""
            )
        if shard.files:
            continue
        remote = urls.is_url(shard.url)
        if shard.url.startswith("file://"):
            path = Path(os.fsdecode(urls.local_path(shard.url)))
        else:
            path = cache.object(shard.sha256) if remote else folder / shard.url
        name = f"raw shard {shard.number} ({urls.shown(shard.url) if remote else shard.url})"
        yield _RawFile(name, path, shard.compressed_bytes, shard.sha256)


def _imported(root: Path, manifest: Manifest) -> Iterator[_RawFile]:
    if isinstance(manifest.imported, Imported):
        folder = _folder(root)
        for file in manifest.imported.files:
            yield _RawFile(f"imported file {file.path}", folder / file.path, file.size, file.sha256)
