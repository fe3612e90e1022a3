"""Refine: a raw shard to documents, measures, signatures and samples, in one streaming pass with flat memory.

raw shard -> batches -> steps (engine.judge drops) -> documents/<shard>.parquet    what survived, later duplicates included
                                                   -> measures/<shard>.parquet     every measured value
                                                   -> signatures/<shard>.parquet   where the recipe deduplicates
                                                   -> samples/<shard>.parquet      a seeded sample of what was dropped
                                                   -> work: verdicts, finished once the duplicates are known
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from gristmill import schema
from gristmill.dedup.settings import Deduplicate
from gristmill.engine.judge import Judged, NamedStep, judge
from gristmill.phases.corpus import Corpus, Record, content_key
from gristmill.recipe import Recipe, Source
from gristmill.source.read import Shard
from gristmill.source.rows import Fields
from gristmill.store.parts import Part, TableWriter, writing_table

SAMPLE_CHARACTERS = 20_000


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """All that refining one shard needs; goes to a worker."""

    root: str
    number: int
    source: Source
    path: str
    sha256: str
    seed: int
    samples: int | None  # dropped texts kept for each reason; null: all
    step: list[dict[str, Any]]
    deduplicate: Deduplicate | None
    limit: int | None

    def key(self) -> str:
        """The content key."""
        recipe = Recipe(source=[self.source], step=self.step)
        inputs = {step.name: step.inputs() for step in recipe.steps(self.source.name)}
        steps = [
            {"name": step.name, "version": step.version, **msgspec.to_builtins(step)}
            for step in recipe.steps(self.source.name)
        ]
        near = self.deduplicate.near if self.deduplicate else None
        # What duplicates are found by, not what is done about them: a new threshold reads no shard again.
        signed = None if self.deduplicate is None else [near and near.shingle, near and near.permutations]
        fields = {name: getattr(self.source, name) for name in ("kind", "text", "url", "max_document_bytes")}
        return content_key(
            "refine", number=self.number, sha256=self.sha256, fields=fields, steps=steps, inputs=inputs,
            signatures=signed, limit=self.limit, samples=self.samples, seed=self.seed,
        )  # fmt: skip


def shard_name(number: int) -> str:
    """How a raw shard's parts are called."""
    return f"{number:05d}"


def refine(task: Task, tell: Callable[[int], None]) -> Record:
    """Refine one shard; `tell` hears of decoded bytes."""
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    steps = Recipe(source=[task.source], step=task.step).steps(task.source.name)
    clock = _Clock()
    timed = [NamedStep(step.name, clock.around(step.name, step)) for step in steps]
    nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
    measured = [
        pa.field(f"{step.name}.{measure}", column.type)
        for step in steps
        for measure, column in step(nothing).measures.items()
    ]
    measures = pa.schema([schema.DOCUMENTS.field("document"), *measured])
    fields = Fields(task.source.text, task.source.url, task.source.max_document_bytes)
    shard = Shard(
        Path(task.path), task.number, kind=task.source.kind, fields=fields, limit=task.limit, sha256=task.sha256
    )
    sampler = _Sampler(task.seed, task.samples or 0)
    kept_bytes = {"documents": 0, "bytes": 0}
    parts: list[list[Part]] = []
    with ExitStack() as stack:

        def table(path: str, kind: pa.Schema, *, staged: bool = True, plain: bool = False) -> TableWriter:
            root = corpus.stage if staged else corpus.work
            writer, part = stack.enter_context(writing_table(root, path, kind, plain=plain))
            parts.append(part)
            return writer

        documents = table(f"documents/{name}.parquet", schema.DOCUMENTS)
        measure_rows = table(f"measures/{name}.parquet", measures)
        verdicts = table(f"refine/{name}.parquet", schema.VERDICTS, staged=False)
        samples = table(f"samples/{name}.parquet", schema.SAMPLES)
        signatures = None
        if task.deduplicate is not None:
            from gristmill.dedup.signatures import permutation_count, sign

            kind = schema.signatures(permutation_count(task.deduplicate))
            signatures = table(f"signatures/{name}.parquet", kind, plain=True)
        for batch in clock.through("read", shard):
            judged: Judged = judge(batch, timed, measures)
            with clock.of("write"):
                documents.write(judged.kept)
                measure_rows.write(judged.measures)
                verdicts.write(judged.verdicts)
                if task.samples is None:
                    for dropped in judged.dropped:
                        samples.write(dropped)
                else:
                    for dropped in judged.dropped:
                        sampler.add(dropped)
            kept_bytes["documents"] += len(judged.kept)
            kept_bytes["bytes"] += judged.kept["text"].nbytes
            if signatures is not None and len(judged.kept):
                with clock.of("sign"):
                    signed = sign(judged.kept, task.deduplicate)  # type: ignore[arg-type]
                signatures.write(signed)
            tell(batch["text"].nbytes)
        for batch in sampler.batches():
            samples.write(batch)
        with clock.of("write"):
            stack.close()
    written = [part[0] for part in parts]
    return corpus.record(
        "refine",
        name,
        Record(
            key=task.key(),
            parts=[part for part in written if not part.path.startswith("refine/")],
            counts={
                "raw": shard.counts,
                "kept": kept_bytes,
                "verdicts": next(part.sha256 for part in written if part.path.startswith("refine/")),
                "seconds": clock.seconds,
                "text_bytes": clock.bytes,
            },
        ),
    )


class _Clock:
    """Seconds and text bytes of each step, for the rates that `run` prints; they go to run.json and nowhere else."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def of(self, name: str) -> "_Span":
        return _Span(self, name)

    def around(self, name: str, call: Callable[[pa.RecordBatch], Any]) -> Callable[[pa.RecordBatch], Any]:
        def timed(batch: pa.RecordBatch) -> Any:
            self.bytes[name] = self.bytes.get(name, 0) + batch["text"].nbytes
            with self.of(name):
                return call(batch)

        return timed

    def through(self, name: str, batches: Any) -> Any:
        iterator = iter(batches)
        while True:
            with self.of(name):
                batch = next(iterator, None)
            if batch is None:
                return
            self.bytes[name] = self.bytes.get(name, 0) + batch["text"].nbytes
            yield batch


class _Span:
    def __init__(self, clock: _Clock, name: str) -> None:
        self._clock, self._name = clock, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        took = time.perf_counter() - self._start
        self._clock.seconds[self._name] = self._clock.seconds.get(self._name, 0.0) + took


class _Sampler:
    """Of each reason the documents with the least keyed hash: a sample that no order of work changes.

    A text is cut at SAMPLE_CHARACTERS.
    """

    def __init__(self, seed: int, most: int) -> None:
        self._key = f"sample {seed}".encode()
        self._most = most
        self._rows: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}

    def add(self, dropped: pa.RecordBatch) -> None:
        documents = dropped["document"].to_pylist()
        reasons = dropped["reason"].to_pylist()
        for row, (document, reason) in enumerate(zip(documents, reasons, strict=True)):
            held = self._rows.setdefault(reason, [])
            rank = hashlib.blake2b(document.to_bytes(8, "big"), digest_size=8, key=self._key).digest()
            if len(held) >= self._most and (not held or rank >= held[-1][0]):
                continue
            values = {name: dropped[name][row].as_py() for name in schema.SAMPLES.names}
            values["text"] = values["text"][:SAMPLE_CHARACTERS]
            held.append((rank, values))
            held.sort(key=lambda entry: entry[0])
            del held[self._most :]

    def batches(self) -> list[pa.RecordBatch]:
        rows = [values for held in self._rows.values() for _, values in held]
        rows.sort(key=lambda values: values["document"])
        return [pa.RecordBatch.from_pylist(rows, schema.SAMPLES)] if rows else []
