"""Import: token shards that another tool wrote become a corpus of tokens alone.

The corpus has token shards, the tokenizer, a funnel, a manifest with `imported` (the format, the
files with their sha256) and a lock: `verify`, the loader, `stats` and `export` take it. It has no
documents, verdicts or recipe, and `run` refuses it.

Document boundaries come from the format's index, or from the end of text where it has none. Every
token is checked to be below the vocabulary. A document's number is `file << 32 | row`: the place of
the file, in the manifest's list, in which it begins, and its place among those that begin there.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gristmill.corpus.corpus import Corpus, versions
from gristmill.corpus.layout import remove_if_empty
from gristmill.errors import RecipeError, VerificationError
from gristmill.phases.output.write_manifest import FUNNEL, RUN
from gristmill.progress.counted_work import Count, counted
from gristmill.store import manifest as manifests
from gristmill.store.cache import default_cache
from gristmill.store.manifest import Imported, ImportedFile, Manifest, TokenFormat
from gristmill.store.parts import (
    Part,
    hash_file,
    is_temporary,
    machine_errors,
    write_bytes,
    write_json,
)
from gristmill.store.proof import seal
from gristmill.tokens.shards import ShardWriter
from gristmill.tokens.tokenizer import Tokenizer, load
from gristmill.trainer_formats import IMPORTED
from gristmill.trainer_formats.document_tally import DocumentTally
from gristmill.trainer_formats.export_folder import ExportDescription, read_description
from gristmill.trainer_formats.flat_files import beside
from gristmill.trainer_formats.token_blocks import Side
from gristmill.trainer_formats.token_format import Opened, OpenedFolder, ReadOptions
from gristmill.user_input import local

MARK = "importing"  # under work/: what an import that did not finish leaves
DTYPES = ("uint8", "uint16", "uint32", "uint64")
# What an import writes besides parts: one that was interrupted is begun again over these.
OWN = (
    *(FUNNEL, RUN, manifests.SUMS, manifests.MANIFEST),
    *(name + manifests.NEXT for name in (manifests.MANIFEST, manifests.LOCK)),
)
SIDES = ("after", "before", "none")


def import_tokens(
    folder: Path | str,
    out: Path | str,
    *,
    format: str,  # noqa: A002  # the word of the manifest
    tokenizer: str | None = None,
    source: str = "imported",
    end_of_text: str | None = None,
    end_of_text_side: str | None = None,
    dtype: str | None = None,
    tokens_per_shard: int = 100_000_000,
    cache_dir: Path | str | None = None,
) -> dict[str, Any]:
    """Make a corpus of tokens, in the folder `out`, from the files in `folder`.

    `tokenizer` is a name, URL or path; None: the one beside an export of gristmill's own.
    `end_of_text` is the literal of that token (None: the tokenizer's own), `end_of_text_side` where
    it is (None: as gristmill.json says, the format asks for, or all documents show), `dtype` the
    type of tokens in files that do not say it.

    Returns `documents`, `tokens`, `files`, `shards`, `boundaries`, `end_of_text_side`,
    `empty_documents` (left out: they have no token) and `unended` (documents at the end of a split
    without an end of text). Raises RecipeError for what cannot be imported as asked,
    VerificationError for damaged files, files of another format or tokenizer.
    """
    root, target = Path(folder), local(out, "--out")
    chosen = IMPORTED.find(format, IMPORTED.file(format, Path.cwd()))
    _check(root, source, end_of_text_side, dtype, tokens_per_shard)
    described = read_description(root)
    if described is not None:
        _check_export(root, described, format)
    read_with = _tokenizer(root, described, tokenizer, end_of_text, cache_dir)
    reading = ReadOptions(read_with, _side(described, end_of_text_side), _dtype(described, dtype))
    corpus = Corpus(target.absolute())
    _begin(corpus)
    lock = corpus.hold()
    try:
        with machine_errors(target, every=True):
            shutil.rmtree(corpus.stage, ignore_errors=True)
            write_bytes(corpus.work, MARK, b"")
            opened = chosen.read(root, reading)
            if not any(stream.files for stream in opened.streams):
                raise RecipeError(f"{root}: no files of the format {format}. See --from")
            writing = _Import(corpus, source, read_with, tokens_per_shard)
            result = writing.write(opened, root, format, end_of_text)
            (corpus.work / MARK).unlink()
            return result
    except BaseException:
        shutil.rmtree(corpus.stage, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _check(
    root: Path, source: str, side: str | None, dtype: str | None, tokens_per_shard: int
) -> None:
    if not root.is_dir():
        raise RecipeError(f"{root}: no such folder: name the folder that holds the files")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", source):
        raise RecipeError(
            f"--source {source!r}: use letters, digits, . _ - and at most 100 of them"
        )
    if side not in (None, *SIDES):
        raise RecipeError(f"--end-of-text-side {side}: write {', '.join(SIDES)}")
    if dtype not in (None, *DTYPES):
        raise RecipeError(f"--dtype {dtype}: write {', '.join(DTYPES)}")
    if tokens_per_shard < 1:
        raise RecipeError("--tokens-per-shard: write a number above 0")


def _check_export(root: Path, described: ExportDescription, name: str) -> None:
    """Refuse an export of gristmill's own of another format, or one whose files are not as they
    were written.
    """
    if described.format != name:
        raise RecipeError(f"{root}: gristmill.json says {described.format}, not {name}: see --from")
    if described.tokens is None:
        raise RecipeError(f"{root}: an export of text; name its files in a recipe instead")
    try:
        beside(root / manifests.SUMS)
        lines = (root / manifests.SUMS).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VerificationError(
            f"{root}: {manifests.SUMS} cannot be read, and gristmill.json is there: the export is "
            "not whole. Fetch it again"
        ) from error
    for line in lines:
        digest, _, path = line.partition("  ")
        if not path:
            raise VerificationError(
                f"{root / manifests.SUMS}: {line[:80]!r} is no digest and path. Fetch it again"
            )
        manifests.check_path(path)
        place = root / path
        if place.is_symlink() or not place.is_file() or hash_file(place)[1] != digest:
            raise VerificationError(
                f"{place}: not as {manifests.SUMS} says. Fetch it again, or export again"
            )


def _tokenizer(
    root: Path,
    described: ExportDescription | None,
    named: str | None,
    end_of_text: str | None,
    cache_dir: Path | str | None,
) -> Tokenizer:
    own = described.tokens if described else None
    literal: str | int | None = end_of_text
    begin: int | msgspec.UnsetType = msgspec.UNSET
    if own is not None:
        literal = literal or own.end_of_text_literal or own.format.end_of_text
        begin = own.format.begin_of_text
    marks = (literal, begin if isinstance(begin, int) else None)
    if named is not None:
        cache = Path(cache_dir or default_cache())
        tokenizer = load(named, Path(), cache, marks[0], begin_of_text=marks[1])
    elif own is not None:
        if Path(own.tokenizer_file).name != own.tokenizer_file:
            raise VerificationError(
                f"{root}: gristmill.json names a tokenizer {own.tokenizer_file!r} outside the "
                "folder"
            )
        tokenizer = load(
            own.tokenizer_file, root, default_cache(), marks[0], begin_of_text=marks[1]
        )
    else:
        raise RecipeError("--tokenizer: name the tokenizer with which the tokens were made")
    if own is not None and (tokenizer.sha256, tokenizer.end_of_text, tokenizer.vocabulary) != (
        own.format.tokenizer,
        own.format.end_of_text,
        own.format.vocabulary,
    ):
        raise VerificationError(
            f"{root}: made with the tokenizer {own.format.tokenizer} ({own.format.vocabulary:,} "
            f"tokens, end of text {own.format.end_of_text}), not {tokenizer.sha256} "
            f"({tokenizer.vocabulary:,}, {tokenizer.end_of_text}): name that one, or leave "
            "--tokenizer out"
        )
    return tokenizer


def _side(described: ExportDescription | None, asked: str | None) -> Side | None:
    stated = described.tokens.format.end_of_text_side if described and described.tokens else None
    if stated is not None and asked not in (None, stated):
        raise RecipeError(f"--end-of-text-side {asked}: gristmill.json says {stated}")
    side: Side | None = msgspec.convert(stated or asked, Side | None)
    return side


def _dtype(described: ExportDescription | None, asked: str | None) -> str | None:
    stated = described.tokens.dtype if described and described.tokens else None
    if stated not in DTYPES:  # of formats that say it themselves
        return asked
    if asked not in (None, stated):
        raise RecipeError(f"--dtype {asked}: gristmill.json says {stated}")
    return stated


def _begin(corpus: Corpus) -> None:
    """Have the folder be this corpus' own, and remove what an import that did not finish left in
    it. Raises RecipeError for a folder with a corpus or a run's work, MachineError for somebody's.
    """
    root = corpus.root
    if root.exists() and not root.is_dir():
        raise RecipeError(f"--out {root}: a file, not a folder. Choose another folder")
    with machine_errors(root, every=True):
        corpus.own()
    begun = {
        path.name
        for path in (corpus.work.iterdir() if corpus.work.is_dir() else ())
        if not is_temporary(path.name)
    }
    # The lock alone: killed before the mark was there.
    if (begun and MARK not in begun and begun != {"lock"}) or (root / manifests.LOCK).exists():
        raise RecipeError(f"--out {root}: holds a corpus, or a run's work: choose an empty folder")
    if MARK not in begun:
        return
    for name in (manifests.MANIFEST, manifests.MANIFEST + manifests.NEXT):
        with suppress(OSError, VerificationError):
            for part in manifests.decode((root / name).read_bytes()).parts:
                (root / part.path).unlink(missing_ok=True)
                remove_if_empty((root / part.path).parent, root)
    for name in OWN:
        (root / name).unlink(missing_ok=True)


class _Import(NamedTuple):
    """An import under way."""

    corpus: Corpus
    source: str
    tokenizer: Tokenizer
    tokens_per_shard: int

    def write(
        self, opened: OpenedFolder, root: Path, name: str, end_of_text: str | None
    ) -> dict[str, Any]:
        """Write shards, then everything that the manifest names with them."""
        files = [path for stream in opened.streams for path in stream.files]
        if len(set(files)) < len(files):
            raise AssertionError(files)
        before = [_state(path) for path in files]
        proven = []
        size = sum(path.stat().st_size for path in files)
        with counted("hash", size, "bytes") as count, ThreadPoolExecutor(os.cpu_count()) as threads:
            for pair in threads.map(hash_file, files):
                proven.append(pair)
                count.add(pair[0])
        parts: list[Part] = []
        tally = DocumentTally(self.tokenizer.end_of_text)
        counts: dict[str, dict[str, int]] = {}
        first = 0
        for stream in opened.streams:
            with counted(f"import {stream.split}", None, "tokens") as count:
                written = self._shards(stream, first, tally, files, count)
            parts += written
            counts[stream.split] = _counts(written, tally.close())
            first += len(stream.files)
        side = tally.side(opened.side, opened.boundaries == "index")
        if [_state(path) for path in files] != before:
            raise VerificationError(f"{root}: files changed while they were read. Import again")
        imported = Imported(
            format=name,
            boundaries="index" if opened.boundaries == "index" else "end-of-text",
            end_of_text=end_of_text,
            files=[
                ImportedFile(path=path.relative_to(root).as_posix(), size=size, sha256=sha256)
                for path, (size, sha256) in zip(files, proven, strict=True)
            ],
        )
        table = self._funnel(counts, tally)
        # Before the manifest: `verify --raw` finds the files of every import by it.
        write_bytes(self.corpus.root, RUN, seal({"folder": str(root.absolute())}))
        self._write_manifest(parts, table, imported, side)
        return {
            "documents": tally.documents,
            "tokens": tally.tokens,
            "files": len(files),
            "shards": len(parts) // 2,
            "boundaries": imported.boundaries,
            "end_of_text_side": side,
            "empty_documents": tally.empty,
            "unended": tally.unended if side == "after" else 0,
        }

    def _shards(
        self, stream: Opened, first: int, tally: "DocumentTally", files: list[Path], count: Count
    ) -> list[Part]:
        """Write the shards of a split."""
        prefix = f"tokens/{self.source}/{stream.split}"
        dtype = self.tokenizer.dtype
        with ShardWriter(self.corpus.stage, prefix, dtype, self.tokens_per_shard) as writer:
            for tokens, lengths, numbers in self._checked(stream, files, first):
                count.add(len(tokens))
                documents = tally.add(tokens, lengths, numbers + first)
                keep = lengths > 0
                writer.write(tokens.astype(dtype, copy=False), documents[keep], lengths[keep])
        return writer.parts

    def _checked(
        self, stream: Opened, files: list[Path], first: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield blocks whose tokens are below the vocabulary. Raises VerificationError."""
        for tokens, lengths, numbers in stream.blocks:
            if int(lengths.sum()) != len(tokens):
                raise AssertionError((len(tokens), int(lengths.sum())))
            wrong = np.flatnonzero((tokens < 0) | (tokens >= self.tokenizer.vocabulary))
            if len(wrong):
                place = int(np.searchsorted(np.cumsum(lengths), wrong[0], "right"))
                raise VerificationError(
                    f"{files[first + int(numbers[place])]}: token {int(tokens[wrong[0]]):,}, and "
                    f"the tokenizer has {self.tokenizer.vocabulary:,}: the files were made with "
                    "another tokenizer, are of another type (--dtype), or are damaged"
                )
            yield tokens, lengths, numbers

    def _funnel(self, counts: dict[str, dict[str, int]], tally: "DocumentTally") -> dict[str, Any]:
        table: dict[str, Any] = {
            "documents": tally.documents,
            "steps": [],
            "kept": tally.documents,
            "tokens": tally.tokens,
        }
        for split, short in (("train", "train"), ("validation", "val")):
            for what in ("tokens", "documents", "shards"):
                table[f"{split}_{what}"] = counts.get(short, {}).get(what, 0)
        return table

    def _write_manifest(
        self, parts: list[Part], table: dict[str, Any], imported: Imported, side: Side
    ) -> None:
        tokenizer, stage = self.tokenizer, self.corpus.stage
        parts = [
            *parts,
            write_bytes(stage, f"tokenizer/{tokenizer.file_name}", tokenizer.data),
            write_json(stage, FUNNEL, table),
        ]
        parts.sort(key=lambda part: part.path)
        self.corpus.write_manifest(
            Manifest(
                content=manifests.content_digest(parts),
                versions=versions() | tokenizer.libraries,
                recipe_sha256=hashlib.sha256(b"").hexdigest(),
                recipe={},
                inputs={
                    "tokens.tokenizer": {
                        "name": os.path.basename(tokenizer.name),
                        "sha256": tokenizer.sha256,
                    }
                },
                raw_shards=[],
                funnel=table,
                tokens=TokenFormat(
                    tokenizer=tokenizer.sha256,
                    vocabulary=tokenizer.vocabulary,
                    dtype="uint16" if tokenizer.dtype.itemsize == 2 else "uint32",
                    end_of_text=tokenizer.end_of_text,
                    end_of_text_by=tokenizer.ending.why,
                    begin_of_text=msgspec.UNSET
                    if tokenizer.begin_of_text is None
                    else tokenizer.begin_of_text,
                    end_of_text_side=side,
                ),
                imported=imported,
                parts=parts,
            )
        )


def _state(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _counts(parts: list[Part], documents: int) -> dict[str, int]:
    return {
        "tokens": sum(part.counts.get("tokens", 0) for part in parts),
        "documents": documents,
        "shards": len(parts) // 2,
    }
