"""Benchmark items in documents: word n-grams of folded text (docs/compared-text.md), 13 words each
unless `ngram` says otherwise.

    similar     with `similarity = s`: some stretch of it is s like some item, by MinHash signatures
                (filters/decontaminate/segment_minhash.py)
    overlap     some item's share of distinct n-grams that stand in the document is `threshold` or
                more; 0: any n-gram stands there

An item is looked for whole, by its question and by its long fields
(filters/decontaminate/benchmarks.py); the highest share is its overlap. What has fewer words than
an n-gram is one n-gram of all its words: it stands in the document as that sequence, or it does
not. Labels of choices (`A.`, `(1)`) are no words, in items and in documents
(kernels/decontaminate/labels.py). In scripts written without spaces each character is a word.
N-grams that stand in more than `template_items` items are their template's: they count neither
among a part's n-grams nor among those found. Measures: `overlap`, the highest of all items;
`items`, how many of them have any n-gram there.

What was found is written as rows of CONTAMINATION: parts whose overlap is `floor` or more (0.1;
`threshold`, if that is lower), of a document at most 16 and one for each 8 of its words, those of
the highest overlap. With `common = n` n-grams that stand in more than n documents of the corpus
shall not count: then nothing is dropped here, rows are written of any overlap, with the n-grams
that were hit, and the corpus is judged as a whole (filters/decontaminate/common_ngrams.py): a
document then has a row for every part that it shares an n-gram with.

13 words: GPT-3's appendix C (Brown 2020); a share of an item's n-grams: Llama 2's and marin's
decontamination.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

from gristmill.filters.api.corpus_rules import CorpusRule
from gristmill.filters.api.step import Check, Inputs, Measured, Step, refuse_nan
from gristmill.filters.decontaminate.benchmarks import (
    Benchmark,
    Parts,
    count,
    plain_words,
    read_parts,
)
from gristmill.filters.decontaminate.common_ngrams import CommonNgrams
from gristmill.tables import schema
from gristmill.tables.columns import utf8_buffers

if TYPE_CHECKING:
    from gristmill.filters.decontaminate.segment_minhash import Signed, Similar
    from gristmill.kernels.decontaminate.items import Index
    from gristmill.kernels.decontaminate.overlap import Overlaps

FOLDER = "contamination"
FLOOR = 0.1
LEAST_ROWS, WORDS_A_ROW = 16, 8  # of a document's rows
CONTEXT = 200  # characters of text in a row, at most ...
BEFORE = 40  # ... of which stand before the first n-gram


class Decontaminate(Step, frozen=True, kw_only=True):
    """Drop documents that hold items of evaluation sets.

    docs/decontamination.md says how. Origin: Brown 2020, appendix C; Llama 2; allenai/decon, marin.
    """

    name: ClassVar[str] = "decontaminate"
    version: ClassVar[int] = 3
    thresholds: ClassVar[frozenset[str]] = frozenset({"threshold"})
    table: ClassVar[str | None] = FOLDER
    example: ClassVar[str] = (
        'benchmarks = [{ name = "gsm8k", file = "gsm8k.jsonl", fields = ["question", "answer"] }]'
    )
    reasons: ClassVar[Mapping[str, str]] = {
        "similar": (
            "A part of the text is as similar as `similarity` to a benchmark item, by MinHash."
        ),
        "overlap": (
            "The text has `threshold` or more of an item's n-grams. `gristmill "
            "contamination` shows which."
        ),
    }
    measures: ClassVar[Mapping[str, str]] = {
        "overlap": "The highest share of an item's n-grams that the text has.",
        "items": "How many items have an n-gram in the text.",
        "similarity": "The highest similarity to an item by MinHash, with `similarity`.",
    }

    # The evaluation sets, one table each.
    benchmarks: Annotated[list[Benchmark], Meta(min_length=1)]
    ngram: Annotated[int, Meta(ge=2, le=63)] = 13  # Words of an n-gram.
    # A document is dropped if it has this share of an item's n-grams, or more; 0: any.
    threshold: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.5
    # From this share on, what was found is recorded. Unset: 0.1, or the threshold if that is lower.
    floor: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    # An item or question with fewer words is not looked for.
    least_words: Annotated[int, Meta(ge=2)] = 5
    # An n-gram in more items than this does not count; 0: all count.
    template_items: Annotated[int, Meta(ge=0)] = 10
    arabic_marks: bool = True  # Whether Arabic vowel marks and tatweel count.
    # Also drop a document of which a part is so similar to an item, by MinHash; 0.5 finds light
    # paraphrases.
    similarity: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    # An n-gram in more documents of the corpus than this does not count; documents are then judged
    # over the whole corpus. Unset: all count.
    common: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        refuse_nan((self.threshold, self.floor, self.similarity))
        if self.similarity is not None and self.common is not None:
            raise ValueError(
                "similarity and common: signatures do not say which n-grams are equal; use "
                "one of them"
            )
        names = [benchmark.name for benchmark in self.benchmarks]
        for name in names:
            if "/" in name:
                raise ValueError(
                    f"a benchmark cannot be called {name!r}: `/` parts a name from the "
                    "number of a file"
                )
            if names.count(name) > 1:
                raise ValueError(
                    f"two benchmarks are called {name!r}; verdicts and reports tell them "
                    "apart by name"
                )
        floor = min(FLOOR, self.threshold) if self.floor is None else self.floor
        if self.common is not None:
            floor = 0.0
        if floor > self.threshold:
            raise ValueError(
                f"floor = {floor} is over threshold = {self.threshold}: the items that "
                "drop a document would not be recorded"
            )
        # The recipe that is stored has every default filled in.
        msgspec.structs.force_setattr(self, "floor", floor)

    @property
    def corpus_rules(self) -> list[CorpusRule]:
        if self.common is None:
            return []
        index = partial(_index, self)
        return [CommonNgrams(FOLDER, self.common, self.threshold, self.content(), index)]

    def inputs(self) -> dict[str, str]:
        return {
            f"decontaminate.{benchmark.name}"
            + (f"/{place}" if len(benchmark.files) > 1 else ""): location
            for benchmark in self.benchmarks
            for place, location in enumerate(benchmark.files)
        }

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        loaded = load(self, inputs)
        return lambda batch: _measure(self, loaded, batch)

    @property
    def comparisons(self) -> Sequence[Check]:
        if self.common is not None:
            return ()
        return (
            Check("overlap", "overlap", ">=" if self.threshold > 0 else ">", self.threshold),
            Check("similar", "similarity", ">=", self.similarity),
        )


class LoadedBenchmarks(NamedTuple):
    """Benchmarks, ready to be looked for."""

    parts: Parts
    table: "Index"
    counted: dict[str, dict[str, int]]  # of each benchmark, how its items are looked for
    signed: "Signed | None"  # null: no similarity is asked for
    arabic_marks: bool


def load(step: Decontaminate, inputs: Inputs) -> LoadedBenchmarks:
    """Read the benchmarks of a step. Raises RecipeError where one is none."""
    from gristmill.kernels.decontaminate.items import build

    parts = read_parts(
        step.benchmarks,
        inputs,
        ngram=step.ngram,
        least_words=step.least_words,
        arabic_marks=step.arabic_marks,
    )
    index = build(
        parts.offsets, parts.data, width=step.ngram, item_of=parts.items, most=step.template_items
    )
    counted = count(parts, np.diff(index.part_offsets))
    signed = None
    if step.similarity is not None:
        from gristmill.filters.decontaminate.segment_minhash import sign_parts

        signed = sign_parts(parts.offsets, parts.data)
    return LoadedBenchmarks(parts, index, counted, signed, step.arabic_marks)


def _index(step: Decontaminate, inputs: Inputs) -> "Index":
    return load(step, inputs).table


def _measure(step: Decontaminate, loaded: LoadedBenchmarks, batch: pa.RecordBatch) -> Measured:
    from gristmill.kernels.decontaminate import overlap

    normalised = plain_words(batch["text"], arabic_marks=step.arabic_marks)
    common, floor = step.common is not None, step.floor or 0.0
    # A part that a document resembles has a row whatever its overlap, which must be known then.
    least = floor if loaded.signed is None else 0.0
    overlaps = overlap.find_overlap(
        *normalised, loaded.table, loaded.parts.items, floor=least, hits=common
    )
    measures = {
        "overlap": pa.array(overlaps.overlap),
        "items": pa.array(overlaps.items.astype(np.int64)),
    }
    similarities = np.full(len(overlaps.documents), np.nan)
    if loaded.signed is not None:
        from gristmill.filters.decontaminate.segment_minhash import find_similar

        similar = find_similar(*normalised, loaded.signed)
        measures["similarity"] = pa.array(similar.similarity)
        overlaps, similarities = _joined(
            overlaps, similar, loaded.table, floor, step.similarity or 0.0
        )
    if not common:  # what a row says without common n-grams is not known yet: none can be left out
        overlaps, similarities = _fewer(overlaps, similarities, loaded.table)
    hits = overlap.count_hits(overlaps, loaded.table) if common else None
    return Measured(measures, found=_rows(loaded, batch, overlaps, hits, similarities))


def _joined(
    found: "Overlaps", similar: "Similar", index: "Index", floor: float, least: float
) -> tuple["Overlaps", np.ndarray]:
    """Return rows whose overlap is `floor` or more, or whose similarity is `least` or more; of each
    its similarity, (r,) float64, NaN where it is less.
    """
    parts = len(index.part_offsets) - 1
    chosen = similar.similarities >= least
    keys, wanted = (
        found.documents.astype(np.int64) * parts + found.parts,
        (similar.documents * parts + similar.parts)[chosen],
    )
    both = np.union1d(
        keys[found.matched >= floor * np.diff(index.part_offsets)[found.parts]], wanted
    )

    def filled(old: np.ndarray, new: np.ndarray, empty: float) -> np.ndarray:
        """Of each row what n-grams say, else what the stretch says."""
        out = np.full(len(both), empty, old.dtype)
        out[np.searchsorted(both, wanted)] = new
        mine = np.isin(keys, both)
        out[np.searchsorted(both, keys[mine])] = old[mine]
        return out

    columns = {
        "documents": (both // parts).astype(np.int32),
        "parts": (both % parts).astype(np.int32),
        "matched": filled(found.matched, np.zeros(len(wanted)), 0),
        "firsts": filled(found.firsts, similar.firsts[chosen], 0),
        "lasts": filled(found.lasts, similar.lasts[chosen], 0),
    }
    similarities = np.full(len(both), np.nan)
    similarities[np.searchsorted(both, wanted)] = similar.similarities[chosen]
    return found._replace(**columns), similarities


def _fewer(
    found: "Overlaps", similarities: np.ndarray, index: "Index"
) -> tuple["Overlaps", np.ndarray]:
    """Of each document's rows those of the highest overlap (or similarity), as many as it may
    have.
    """
    most = LEAST_ROWS + found.words.astype(np.int64) // WORDS_A_ROW
    if not (np.bincount(found.documents, minlength=len(most)) > most).any():
        return found, similarities
    shares = np.fmax(
        found.matched / np.maximum(np.diff(index.part_offsets)[found.parts], 1), similarities
    )
    order = np.lexsort((found.parts, -shares, found.documents))
    documents = found.documents[order]
    rank = np.arange(len(order)) - np.searchsorted(documents, documents)
    kept = np.sort(order[rank < most[documents]])
    columns = {
        name: getattr(found, name)[kept]
        for name in ("documents", "parts", "matched", "firsts", "lasts")
    }
    return found._replace(**columns), similarities[kept]


def _rows(
    loaded: LoadedBenchmarks,
    batch: pa.RecordBatch,
    found: "Overlaps",
    hits: tuple[np.ndarray, np.ndarray] | None,
    similarities: np.ndarray,
) -> pa.RecordBatch:
    """Return what was found, as CONTAMINATION; its metadata say how many items each benchmark
    has.
    """
    parts, rows = loaded.parts, len(found.documents)
    items = parts.items[found.parts]
    ngrams = np.diff(loaded.table.part_offsets)[found.parts]
    starts, ends, context = _around(batch["text"], found, loaded.arabic_marks)
    columns = {
        "document": batch["document"].take(pa.array(found.documents)),
        "benchmark": pa.array(parts.names, pa.string()).take(pa.array(parts.benchmarks[items])),
        "item": pa.array(parts.numbers[items]),
        "id": pa.array([parts.ids[item] for item in items.tolist()], pa.string()),
        "field": pa.array([parts.fields[part] for part in found.parts.tolist()], pa.string()),
        "part": pa.array(found.parts),
        "matched": pa.array(found.matched),
        "ngrams": pa.array(ngrams.astype(np.int32)),
        "overlap": pa.array(found.matched / np.maximum(ngrams, 1)),
        "similarity": pa.array(similarities, mask=np.isnan(similarities)),
        "start": pa.array(starts),
        "end": pa.array(ends),
        "context": context,
        "hits": pa.nulls(rows, pa.list_(pa.int32()))
        if hits is None
        else pa.ListArray.from_arrays(pa.array(hits[0].astype(np.int32)), pa.array(hits[1])),
    }
    kind = schema.CONTAMINATION.with_metadata(
        {"benchmarks": msgspec.json.encode(loaded.counted).decode()}
    )
    return pa.RecordBatch.from_arrays([columns[name] for name in kind.names], schema=kind)


def _around(
    texts: pa.Array, found: "Overlaps", arabic_marks: bool
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Of each row where in its text the first n-gram starts and the last ends, in bytes, and the
    text around the start.
    """
    from gristmill.kernels.decontaminate.contexts import cut
    from gristmill.kernels.decontaminate.labels import blank
    from gristmill.kernels.folding.compared import locate_words

    rows = len(found.documents)
    if not rows:
        return np.empty(0, np.int64), np.empty(0, np.int64), pa.array([], pa.string())
    new = np.diff(found.documents, prepend=-1) != 0  # rows are by document
    place = np.cumsum(new) - 1
    held = texts.take(pa.array(found.documents[new]))
    offsets, data = utf8_buffers(held)
    words, begins, stops = locate_words(*blank(offsets, data), arabic_marks=arabic_marks)
    bases = offsets[place].astype(np.int64)
    starts = begins[words[place] + found.firsts] - (bases - offsets[0])
    ends = stops[words[place] + found.lasts] - (bases - offsets[0])
    cuts, held_text = cut(*(offsets, data, place, bases + starts), before=BEFORE, most=CONTEXT)
    context = pa.StringArray.from_buffers(rows, pa.py_buffer(cuts), pa.py_buffer(held_text))
    return starts, ends, context
