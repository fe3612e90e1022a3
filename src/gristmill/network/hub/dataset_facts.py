"""What a data set's card and its Croissant description say of a corpus: from the manifest, the
export that is published, and the first documents in it.
"""

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part

Kind = Literal["text", "tokens"]
# Licences that the hub knows by an identifier (https://huggingface.co/docs/hub/repositories-licenses)
_LICENCES = """
apache-2.0 mit bsd bsd-2-clause bsd-3-clause cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0
cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0
cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1
lgpl-3.0 agpl-3.0 gfdl mpl-2.0 odc-by odbl pddl unlicense cdla-permissive-1.0 cdla-permissive-2.0
cdla-sharing-1.0 etalab-2.0 openrail artistic-2.0 isc wtfpl zlib
"""
LICENCES = frozenset(_LICENCES.split())
# schema.org's page of a licence, where it is not that of SPDX
CREATIVE_COMMONS = re.compile(r"cc-(by(?:-nc)?(?:-nd|-sa)?)-([0-9.]+)")


class Config(NamedTuple):
    """A subset that `datasets.load_dataset` takes by its name."""

    name: str
    files: dict[str, str]  # split -> a glob of paths in the repository


class Sample(NamedTuple):
    """The beginning of a published document, for its card."""

    source: str
    document: int
    text: str


class DatasetFacts(NamedTuple):
    """All that is said of a published data set."""

    name: str  # owner/name
    address: str  # its page
    kind: Kind
    manifest: Manifest
    digest: str  # sha256 of manifest.json
    files: list[Part]  # the Parquet files, by their paths in the repository
    schema: pa.Schema
    rows: dict[str, int]  # by split
    configs: list[Config]
    samples: list[Sample]


def licences(manifest: Manifest) -> dict[str, str | None]:
    """Return the licence of each source, as the recipe notes it; null: it notes none."""
    return {source["name"]: source.get("licence") for source in source_tables(manifest)}


def source_tables(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the tables of the recipe's sources."""
    tables = manifest.recipe.get("source", [])
    return tables if isinstance(tables, list) else []


def hub_licence(note: str | None) -> str:
    """Return the hub's identifier of a licence: `other` for one that it does not know, `unknown`
    for none.
    """
    if note is None:
        return "unknown"
    word = note.strip().lower().replace(" ", "-")
    return word if word in LICENCES else "other"


def licence_page(note: str) -> str:
    """Return the address of a licence's text; the note itself where none is known."""
    word = hub_licence(note)
    if match := CREATIVE_COMMONS.fullmatch(word):
        return f"https://creativecommons.org/licenses/{match[1]}/{match[2]}/"
    if word == "cc0-1.0":
        return "https://creativecommons.org/publicdomain/zero/1.0/"
    return note if word == "other" else f"https://spdx.org/licenses/{note.strip()}.html"


def languages(manifest: Manifest) -> list[str]:
    """Return the languages that the recipe's filter keeps; none where it keeps all."""
    steps = [entry for entry in manifest.recipe.get("step", []) if entry.get("use") == "language"]
    words = [word for step in steps for word in step.get("keep", [])]
    return list(dict.fromkeys(word for word in words if re.fullmatch("[a-z]{2,3}", word)))


def schema_and_rows(files: dict[str, Path]) -> tuple[pa.Schema, int]:
    """Return the schema of Parquet files, which is one for all of an export, and their rows."""
    schema, rows = pa.schema([]), 0
    for path in files.values():
        with pq.ParquetFile(path, memory_map=False) as file:
            schema, rows = file.schema_arrow, rows + file.metadata.num_rows
    return schema, rows
