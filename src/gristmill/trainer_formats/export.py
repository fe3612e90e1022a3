"""Export: the kept documents of a corpus as text, or its tokens, in files that others read.

docs/trainer-formats.md says what each format holds, and with which reader it was checked.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.corpus.tokenizer_part import read_tokenizer
from gristmill.errors import RecipeError, VerificationError
from gristmill.progress.counted_work import Count, counted
from gristmill.store.manifest import MANIFEST, TokenFormat, end_of_text_literal, make_lock
from gristmill.store.proof import proven
from gristmill.tokens.partitions import belongs_to
from gristmill.trainer_formats import FORMATS
from gristmill.trainer_formats.export_folder import (
    ExportDescription,
    ExportedStream,
    ExportedTokens,
    ExportFolder,
)
from gristmill.trainer_formats.kept_texts import KeptTexts, TextFormat
from gristmill.trainer_formats.mixing import PROPORTIONAL, mixed, parse_mix
from gristmill.trainer_formats.token_blocks import InnerEnds, TokenBlock, read_blocks, with_side
from gristmill.trainer_formats.token_format import Finished, Stream, TrainerFormat, Written
from gristmill.user_input import local, one_or_more

MOST_SMALL_FILES = 10_000  # of a stream, smaller than the format's usual ones


@one_or_more("sources")
def export(
    corpus: Path | str,
    out: Path | str,
    *,
    to: str = "jsonl.zst",
    split: str | None = None,
    sources: Sequence[str] = (),
    mix: str | None = None,
    tokens_per_file: int | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Write the kept documents, or the tokens, of a corpus into the folder `out`.

    `to` is the name of a format, or `module:VALUE` for one of your own, searched from the current
    folder: its code runs. `split` is train or val (default: both), `sources` the names of sources
    (default: all), `mix` `web=0.7,books=0.3` or `proportional`: all these are of tokens, but for
    `sources`. `strict` refuses documents with an end of text inside where readers of the format
    divide at that token; without it, `notes` say how many there are.
    An export that was interrupted is completed by the same call, which keeps the files that are
    whole. Returns the numbers of `documents`, `files`, `bytes` and of files that were `kept`, and
    of tokens also `tokens`, `streams` and `notes`. Raises RecipeError for what the format cannot
    hold, a corpus without what is asked for, or a folder that holds something else;
    VerificationError if the corpus is not finished or its shards are damaged; MachineError if
    another export writes into the folder.
    """
    chosen = FORMATS.find(to, FORMATS.file(to, Path.cwd()))
    if tokens_per_file is not None and tokens_per_file < 1:
        raise RecipeError(f"--tokens-per-file {tokens_per_file}: write a number above 0")
    root, target = Path(corpus), local(out, "--out")
    if target.resolve().is_relative_to(root.resolve()):
        raise RecipeError(f"--out {target}: it is in the corpus; name a folder outside {root}")
    if isinstance(chosen, TrainerFormat):
        return _TokenExport(root, chosen, split, list(sources), mix, tokens_per_file).write(
            target, strict=strict
        )
    given = {"--split": split, "--mix": mix, "--tokens-per-file": tokens_per_file}
    given["--strict"] = strict or None
    for option, value in given.items():
        if value is not None:
            raise RecipeError(f"{option}: for exports of tokens, and {to} is text")
    finished = Corpus(root).finished()
    if finished is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to finish "
            "it"
        )
    return _write_texts(KeptTexts(root, finished[0], list(sources)), finished[1], target, chosen)


def _write_texts(texts: KeptTexts, data: bytes, target: Path, to: TextFormat) -> dict[str, Any]:
    """Write an export of text; `data` is the manifest's bytes. Returns the number of `documents`,
    and `ExportFolder.summary`.
    """
    digest = make_lock(data).split()[0].decode()
    description = ExportDescription(
        format=to.name, corpus=digest, options={"sources": texts.sources}
    )
    kept = sum(
        shard.unique_documents or 0
        for shard in texts.manifest.raw_shards
        if shard.source in texts.sources
    )
    with counted("export", kept, "documents") as count, ExportFolder(target, description) as folder:
        texts.on_documents = count.add
        documents = to.write(texts, folder)
        return {"documents": documents, **folder.summary()}


class _TokenExport:
    """An export of tokens: what was asked for, checked against the corpus."""

    def __init__(
        self,
        root: Path,
        to: TrainerFormat,
        split: str | None,
        sources: list[str],
        mix: str | None,
        tokens_per_file: int | None,
    ) -> None:
        self._corpus = TokenCorpus.open(root)
        self._format = to
        self._splits = self._splits_to_write(split)
        known = list(dict.fromkeys(n for s in self._splits for n in self._corpus.sources(s)))
        for name in sources:
            if not any(belongs_to(source, name) for source in known):
                raise RecipeError(
                    f"--source {name}: no such source with tokens; there are {', '.join(known)}"
                )
        # A source's name means all of its partitions.
        self._sources = [
            name
            for name in known
            if not sources or any(belongs_to(name, source) for source in sources)
        ]
        self._weights = None if mix is None else parse_mix(mix, self._sources)
        self._mix = mix
        if self._weights is not None:
            self._sources = [name for name in self._sources if name in self._weights]
        self._per_file = tokens_per_file or self._format.tokens_per_file
        if tokens_per_file is not None and not self._format.tokens_per_file:
            raise RecipeError(f"--tokens-per-file: {to.name} has one file for a split or a source")
        self._inner: dict[tuple[str, str], InnerEnds] = {}
        self._dtype = self._format.dtype(self._corpus.format.vocabulary)
        self._check_files()

    def _check_files(self) -> None:
        """Refuse more files than the format has names for, or many small ones. Raises
        RecipeError.
        """
        if not self._per_file:
            return
        for split in self._splits:
            sizes = [
                self._corpus.stream(name, split).tokens
                for name in self._sources
                if name in self._corpus.sources(split)
            ]
            if self._mix is not None or self._format.one_stream:
                sizes = [sum(sizes)]
            most = self._format.most_files
            if self._per_file < self._format.tokens_per_file:
                most = min(most, MOST_SMALL_FILES)
            files = -(-max(sizes, default=0) // self._per_file)
            if files > most:
                raise RecipeError(
                    f"--tokens-per-file {self._per_file}: up to {files:,} files of {split}; the "
                    f"limit of {self._format.name} is {most:,} of this size: write "
                    f"{-(-max(sizes) // most):,} or more"
                )

    def write(self, target: Path, *, strict: bool) -> dict[str, Any]:
        """Write the export. Raises RecipeError with `strict` for an end of text in a document."""
        corpus = self._corpus
        options = {
            "splits": self._splits,
            "sources": self._sources,
            "mix": self._mix,
            "tokens_per_file": self._per_file,
        }
        part = next(p for p in corpus.manifest.parts if p.path.startswith("tokenizer/"))
        data = proven(corpus.root / part.path, corpus.format.tokenizer).read_bytes()
        literal = end_of_text_literal(corpus.manifest)
        tokenizer = read_tokenizer(part.path, data, corpus.manifest, corpus.format)
        side = self._format.side
        held = msgspec.structs.replace(corpus.format, end_of_text_side=side)
        name = Path(part.path).name
        name = self._format.tokenizer_names.get(name, name)
        description = ExportDescription(
            format=self._format.name, corpus=corpus.digest, options=options
        )
        for split in self._splits:
            corpus.prove(split)
        if strict and self._format.ends_by_token:
            with counted("check", self._tokens(), "tokens") as count:
                for stream in self._streams(held, count):
                    for _ in stream.blocks:
                        pass
            if notes := self._inner_ends():
                raise RecipeError(
                    f"--strict: {notes[0]}. Write a format with an index (megatron, datatrove), or "
                    "leave --strict out"
                )
        with ExportFolder(target, description) as folder:
            with counted("export", self._tokens(), "tokens") as count:
                written = {
                    (stream.name, stream.split): (
                        stream,
                        self._format.write(folder, stream, self._per_file),
                    )
                    for stream in self._streams(held, count)
                }
            notes = self._notes(written)
            if self._format.finish is not None:
                made = Finished(corpus, tokenizer, list(written.values()), self._per_file)
                notes += self._format.finish(folder, made)
            folder.write(name, data)
            streams = [_to_stream(stream, result) for stream, result in written.values()]
            folder.describe(
                tokens=ExportedTokens(
                    tokenizer_file=name, format=held, dtype=self._dtype, end_of_text_literal=literal
                ),
                streams=streams,
            )
            summary = folder.summary()
        return {
            "documents": sum(stream.documents for stream in streams),
            "tokens": sum(stream.tokens for stream in streams),
            **summary,
            "streams": msgspec.to_builtins(streams),
            "notes": notes,
        }

    def _tokens(self) -> int:
        """Return the tokens of what is exported; a mix may leave some out."""
        return sum(
            self._corpus.stream(name, split).tokens
            for split in self._splits
            for name in self._sources
            if name in self._corpus.sources(split)
        )

    def _splits_to_write(self, split: str | None) -> list[Split]:
        if split not in (None, "train", "val"):
            raise RecipeError(f"--split {split}: no such split; there are train and val")
        every: tuple[Split, Split] = ("train", "val")
        splits: list[Split] = [
            name for name in every if split in (None, name) and self._corpus.sources(name)
        ]
        if not splits:
            raise RecipeError(
                f"{self._corpus.root}: no {split or ''} tokens".replace("  ", " ")
                + (": set tokens.validation in the recipe" if split == "val" else "")
            )
        return splits

    def _streams(self, held: TokenFormat, count: Count) -> Iterator[Stream]:
        """Yield the streams of the export, each when the one before it is written."""
        has, end = self._corpus.format.end_of_text_side, held.end_of_text
        for split in self._splits:
            names = [name for name in self._sources if name in self._corpus.sources(split)]
            together = self._mix is not None or self._format.one_stream
            for group in [names] if together else [[name] for name in names]:
                if not group:
                    continue
                blocks = _counting(self._blocks(group, split), count)
                turned = with_side(blocks, end, has, held.end_of_text_side)
                name = group[0] if len(group) == 1 else "mixed"
                inner = self._inner[name, split] = InnerEnds(end, held.end_of_text_side)
                yield Stream(name, split, group, inner.count(turned), held)

    def _blocks(self, names: list[str], split: Split) -> Iterator[TokenBlock]:
        streams = [self._corpus.stream(name, split) for name in names]
        if len(streams) == 1:
            return read_blocks(streams[0], 0)
        # Validation is all of it, whatever the mix of training is.
        weights = self._weights if split == "train" else None
        return mixed(streams, [weights[name] for name in names] if weights else None)

    def _inner_ends(self) -> list[str]:
        """Return which streams have an end of text inside documents, if readers divide at it."""
        return [
            f"{name} {split}: {inner.tokens:,} end-of-text tokens are inside documents "
            f"({inner.documents:,} of them): a reader that divides documents at that token "
            f"counts {inner.tokens:,} more than there are"
            for (name, split), inner in self._inner.items()
            if inner.tokens and self._format.ends_by_token
        ]

    def _notes(self, written: dict[tuple[str, str], tuple[Stream, Written]]) -> list[str]:
        """Return what an export leaves out, or decided."""
        notes = self._inner_ends()
        for (_, split), (stream, result) in written.items():
            if len(stream.sources) > 1 and self._mix in (None, PROPORTIONAL):
                notes.append(f"{split}: {', '.join(stream.sources)} mixed in proportion to tokens")
            for name in stream.sources:
                if self._weights is None or split != "train":
                    continue
                total, got = (
                    self._corpus.stream(name, "train").tokens,
                    result.by_source.get(name, 0),
                )
                if got < total:
                    notes.append(
                        f"{name}: {total - got:,} of {total:,} tokens are not in the mix: another "
                        "source was used up"
                    )
        return notes


def _counting(blocks: Iterable[TokenBlock], count: Count) -> Iterator[TokenBlock]:
    for block in blocks:
        count.add(len(block.tokens))
        yield block


def _to_stream(stream: Stream, found: Written) -> ExportedStream:
    return ExportedStream(
        name=stream.name,
        split=stream.split,
        sources=found.by_source,
        documents=found.documents,
        tokens=found.tokens,
        files=found.files,
    )
