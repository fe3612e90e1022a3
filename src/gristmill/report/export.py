"""Export: the kept documents of a corpus as JSONL (plain, gzip or zstd) or Parquet, with all their
fields.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import pyarrow as pa

from gristmill import schema
from gristmill.corpus.clusters import TABLE
from gristmill.corpus.copy_counts import Copies
from gristmill.corpus.corpus import Corpus
from gristmill.corpus.kept_documents import Rewriter, post_dedup_of, read_kept, rewriter_of
from gristmill.errors import RecipeError, VerificationError
from gristmill.phases.inputs.inputs import installed, is_as_made
from gristmill.phases.relations.frequent_lines import LIST, cut_of
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.manifest import MANIFEST, Manifest
from gristmill.store.parts import read_batches, writing, writing_table
from gristmill.user_input import local

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet")


def export(corpus: Path | str, out: Path | str, *, to: str = "jsonl.zst") -> dict[str, Any]:
    """Write the kept documents of each raw shard to `out/<source>/<shard>.<to>`.

    Returns the numbers of `documents`, `files` and `bytes` written. Raises RecipeError for another
    format, or a corpus without texts; VerificationError if the corpus is not finished.
    """
    if to not in FORMATS:
        raise RecipeError(f"--to {to}: no such format; there are {', '.join(FORMATS)}")
    root, target = Path(corpus), local(out, "--out")
    published = Corpus(root).published()
    if published is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to finish "
            "it"
        )
    manifest = published[0]
    result = {"documents": 0, "files": 0, "bytes": 0}
    for shard in manifest.raw_shards:
        if shard.missing is not None:
            continue
        name = f"{shard.source}/{shard_name(shard.number)}.{to}"
        fields = _fields(manifest, shard.source)
        stream = _stream(root, manifest, shard.source, shard.number)
        if to == "parquet":
            with writing_table(target, name, schema.TEXT) as (table, part):
                for batch in stream:
                    table.write(batch)
                    result["documents"] += len(batch)
            result["bytes"] += part[0].size
        else:
            with writing(target, name) as file:
                plain = cast("BinaryIO", file)
                packed = _packed(plain, to)
                for batch in stream:
                    packed.write(b"".join(_lines(batch, fields)))
                    result["documents"] += len(batch)
                if packed is not plain:
                    packed.close()
            result["bytes"] += file.size
        result["files"] += 1
    return result


def _fields(manifest: Manifest, source: str) -> tuple[str, str]:
    table = next(table for table in manifest.recipe["source"] if table["name"] == source)
    return table["text"], table["url"]


def _stream(root: Path, manifest: Manifest, source: str, number: int) -> Iterator[pa.RecordBatch]:
    """The kept documents of a raw shard: batches of schema.TEXT."""
    name = f"{shard_name(number)}.parquet"
    text = root / "text" / source / name
    if text.exists():
        return read_batches(text)
    if not (root / "documents" / name).exists():
        raise RecipeError(
            f"{root}: it has neither documents/ (keep_documents = false) nor text/: there is "
            "nothing to export"
        )
    cut = cut_of(msgspec.convert(manifest.recipe, Recipe).deduplicate, manifest.parts)
    cutter = cut.cutter(root / LIST, source) if cut else None
    rewriter = _rewriter(root, manifest, source)
    copies = Copies(
        root / TABLE if any(part.path == TABLE for part in manifest.parts) else None, number
    )
    stream = read_kept(root / "documents" / name, root / "verdicts" / name, cutter, rewriter)
    return map(copies.added_to, stream)


def _rewriter(root: Path, manifest: Manifest, source: str) -> Rewriter | None:
    """The steps that rewrite after deduplication, with the inputs that the run had."""
    recipe = msgspec.convert(manifest.recipe, Recipe)
    try:
        found = installed(recipe, source)
    except RecipeError as error:
        raise RecipeError(
            f"{root}: its documents must be rewritten after deduplication, and {error}. Run the "
            "recipe without [tokens]: text/ then has the rewritten texts"
        ) from error
    for step in recipe.post_dedup_steps(source):
        for what, location in step.inputs().items():
            if not is_as_made(found[location], what, manifest.inputs):
                raise RecipeError(
                    f"{root}: {what} is {found[location].name} here, not the input with which the "
                    "corpus was made"
                )
    return rewriter_of(post_dedup_of(recipe, source, found))


def _packed(file: BinaryIO, to: str) -> BinaryIO:
    if to == "jsonl.gz":
        return cast("BinaryIO", gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
    if to == "jsonl.zst":
        return cast("BinaryIO", zstd.ZstdFile(file, "wb", level=3))
    return file


def _lines(batch: pa.RecordBatch, fields: tuple[str, str]) -> Iterator[bytes]:
    """A line for each document: its text and URL under their original names, the fields of its
    format (date, record_id, declared_language), all other fields, and `copies`.

    A field `copies` of the document itself is written as `original_copies`.
    """
    encode = msgspec.json.Encoder().encode
    for row in batch.to_pylist():
        line = {fields[0]: row["text"]}
        if row["url"] is not None:
            line[fields[1]] = row["url"]
        line |= {
            name: row[name]
            for name in ("date", "record_id", "declared_language")
            if row[name] is not None
        }
        if row["extra"] is not None:
            # The document's own fields replace those of its format.
            line |= json.loads(row["extra"])
        if "copies" in line:
            line["original_copies"] = line["copies"]
        line["copies"] = row["copies"]
        yield encode(line) + b"\n"
