"""What was seen of measured runs, and each phase's law: cost = fixed + shard * shards + unit *
units.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus, Record
from gristmill.phases.inputs.plan import Plan
from gristmill.recipe import Recipe
from gristmill.report.meter import Cost, folder_bytes
from gristmill.report.sample import Piece
from gristmill.schema import shard_name

PHASES = (
    "fetch",
    "process",
    "corpus_filters",
    "deduplicate",
    "write_verdicts",
    "count_lines",
    "frequent_lines",
    "tokenize",
    "assemble",
)
FOLDERS = (
    "documents",
    "measures",
    "signatures",
    "samples",
    "contamination",
    "verdicts",
    "finished",
    "text",
    "tokens",
    "work/process",
    "work/count_lines",
    "work/tokens",
)
WHOLE = ("judgement", "duplicates", "index", "work/deduplicate")  # of the corpus as a whole


class Law(NamedTuple):
    """A cost in seconds or bytes."""

    fixed: float
    shard: float
    unit: float

    def of(self, shards: float, units: float, times: float = 1.0) -> float:
        """The cost of so much; what is fixed comes so many times."""
        return self.fixed * times + self.shard * shards + self.unit * units


class Point(NamedTuple):
    """One run's shards, units and cost."""

    shards: int
    units: float
    cost: float


def fit(one: Point, several: Point, sample: Point) -> Law:
    """The law through three runs.

    None of the three is below zero: what noise takes below it is left to the others.
    """
    if sample.units <= 0:
        return Law(0.0, 0.0, 0.0)
    if sample.units < 2 * one.units:
        return Law(
            0.0, 0.0, sample.cost / sample.units
        )  # no larger than a small one: nothing to tell apart
    if sample.units < 2 * several.units:
        several = one  # what a shard costs would be noise
    rows = np.array([[1.0, point.shards, point.units] for point in (one, several, sample)])
    fixed, shard, _ = np.linalg.lstsq(
        rows, np.array([point.cost for point in (one, several, sample)]), rcond=None
    )[0]
    shard = max(float(shard), 0.0)
    fixed = max(min(float(fixed), one.cost - shard * one.shards), 0.0)
    left = sample.cost - fixed - shard * sample.shards
    if left <= 0.0:
        return Law(0.0, 0.0, sample.cost / sample.units)
    return Law(fixed, shard, left / sample.units)


class ShardSeen(NamedTuple):
    """One shard of a measured run."""

    source: str
    raw: float  # bytes of the raw shard that it stands for
    folders: dict[str, int]  # bytes it came to
    units: dict[str, float]  # of each phase
    weights: dict[str, float]  # its share of each phase's cost, in whatever unit


class Seen(NamedTuple):
    """What was seen of one run."""

    shards: list[ShardSeen]
    costs: dict[str, Cost]
    whole: dict[str, int]  # bytes of WHOLE
    rest: int  # bytes of what names every shard: records, plan, manifest
    tokenizer: int  # bytes
    paired: int  # documents that stand in a pair

    def units(self, phase: str) -> float:
        """How much work a phase had."""
        return sum(shard.units[phase] for shard in self.shards)


class Measured(NamedTuple):
    """Three runs: one small shard of each source, several, and the sample."""

    one: Seen
    several: Seen
    sample: Seen

    def law(self, phase: str, what: str) -> Law:
        """A phase's law of `cpu` or `wall`."""
        return fit(
            *(
                Point(len(run.shards), run.units(phase), getattr(run.costs[phase], what))
                for run in self
            )
        )

    def rest(self, shards: int) -> float:
        """Bytes of what names every shard."""
        each = (self.several.rest - self.one.rest) / (
            len(self.several.shards) - len(self.one.shards)
        )
        return self.sample.rest + max(each, 0.0) * (shards - len(self.sample.shards))


def seen(root: Path, recipe: Recipe, pieces: list[Piece], costs: dict[str, Cost]) -> Seen:
    """Look at a finished run of a sample."""
    corpus = Corpus(root)
    plan = msgspec.json.decode((root / "plan.json").read_bytes(), type=Plan)
    waiting = {
        source.name: iter([piece for piece in pieces if piece.source == source.name])
        for source in recipe.source
    }
    shards = [
        _shard(corpus, shard.number, next(waiting[shard.source]), shard.size or 0)
        for shard in plan.shards
    ]
    _add_tokens(corpus, shards)
    whole = {name: folder_bytes(root / name) for name in WHOLE}
    tokenizer = folder_bytes(root / "tokenizer")
    # The folders of the sample's documents may be gone already (keep_documents = false).
    held = sum(folder_bytes(root / name) for name in FOLDERS) + sum(whole.values()) + tokenizer
    pairs = root / "duplicates/pairs.parquet"
    paired = 0
    if pairs.exists():
        table = pq.read_table(pairs, columns=["document", "candidate"], use_threads=False)
        paired = len(np.unique(np.concatenate([column.to_numpy() for column in table.columns])))
    filled = {phase: costs.get(phase, Cost()) for phase in PHASES}
    return Seen(shards, filled, whole, folder_bytes(root) - held, tokenizer, paired)


def _shard(corpus: Corpus, number: int, piece: Piece, size: int) -> ShardSeen:
    name = shard_name(number)
    records = {
        phase: corpus.last(phase, name) or Record(key="")
        for phase in ("process", "write_verdicts", "count_lines", "tokenize")
    }
    folders = dict.fromkeys(FOLDERS, 0)
    for record in records.values():
        for part in record.parts:
            folders[part.path.partition("/")[0]] += part.size
    folders["work/process"] = _size(corpus.work / f"process/{name}.parquet")
    folders["work/count_lines"] = _size(corpus.work / f"count_lines/{name}.parquet")
    folders["work/tokens"] = sum(
        _size(corpus.work / f"tokens/{name}.{end}") for end in ("train", "val", "parquet")
    )
    processed, written = records["process"].counts, records["tokenize"].counts
    units: dict[str, Any] = {
        "fetch": size,
        "process": processed["raw"]["decompressed_bytes"],
        "deduplicate": processed["kept"]["documents"],
        "corpus_filters": processed["kept"]["documents"],
        "write_verdicts": records["write_verdicts"].counts["documents"],
        "count_lines": written["bytes"],
        "frequent_lines": records["count_lines"].counts.get("rows", 0),
        "tokenize": written["bytes"],
        "assemble": written["tokens"],
        "kept": written["documents"],
        "passed_bytes": processed["kept"]["bytes"],
    }
    units = {phase: float(value) for phase, value in units.items()}
    weights = {
        **units,
        "process": sum(processed["seconds"].values()),
        "tokenize": written["seconds"],
    }
    return ShardSeen(piece.source, piece.raw, folders, units, weights)


def _add_tokens(corpus: Corpus, shards: list[ShardSeen]) -> None:
    """A source's token shards are its raw shards' by their tokens."""
    for source in {shard.source for shard in shards}:
        record = corpus.last("assemble", source)
        own = [shard for shard in shards if shard.source == source]
        total = sum(shard.units["assemble"] for shard in own)
        if record is not None and total:
            size = sum(part.size for part in record.parts)
            for shard in own:
                shard.folders["tokens"] = round(size * shard.units["assemble"] / total)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
