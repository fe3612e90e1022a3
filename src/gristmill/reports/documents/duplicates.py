"""Duplicates: how many documents were dropped for an equal URL, an equal text or a similar text;
the sizes of clusters; and the lines that the members of the largest clusters share.

    verdicts/                      -> documents by source and reason
    duplicates/copies.parquet      -> sizes of clusters, and the largest ones
    verdicts/, documents/          -> a sample of their members, and the lines that all of it has

One row group of a table is in memory at a time. A run that `largest_cluster` stopped can be read as
well, so that a user can look at the cluster.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus import clusters
from gristmill.corpus.corpus import Corpus
from gristmill.dedup.drops import EXACT, NEAR, SAME_URL
from gristmill.dedup.shard_tables import read_documents
from gristmill.errors import RecipeError, VerificationError
from gristmill.kernels.folding.compared import compared
from gristmill.phases.output.write_manifest import read_plan
from gristmill.reports.integrity.verify import finished
from gristmill.reports.status import held
from gristmill.store.parts import read_batches
from gristmill.store.proof import proven
from gristmill.tables import schema
from gristmill.tables.columns import utf8_buffers, view_strings
from gristmill.tables.schema import shard_name

TOP = 10
SAMPLE = 5  # members of a cluster that are printed
SHOWN = 80  # characters of a text, and of a line
LINES = 5
COMPARED = 100_000  # characters of a text whose lines are compared
REASONS = {SAME_URL: "same URL", EXACT: "exact", NEAR: "near"}
STEP = "deduplicate."


class _CorpusFiles(NamedTuple):
    """A finished corpus, or the files of a run that stopped after deduplicate."""

    finished: bool
    sources: dict[int, str]  # of each shard that is present
    find: Callable[[str], Path]

    def tables(self, folder: str) -> dict[int, Path]:
        """Return a folder's tables, by shard."""
        return {
            number: self.find(f"{folder}/{shard_name(number)}.parquet") for number in self.sources
        }


def duplicates(corpus: Path | str, *, top: int = TOP) -> dict[str, Any]:
    """Return how many duplicates were dropped and why, from the corpus alone.

    `documents` reached deduplication; `kept` of them were kept, `reasons` counts the others;
    `sources` has the same by source. `sizes` counts the clusters of `least` to `most` documents; a
    cluster is a kept document and the documents that were dropped for it.

    `clusters` are the `top` largest. Each has `size`, `share` of the documents, `keeper`, its `url`
    and `text` (80 characters; null: not stored), a `sample` of five members, the same every time,
    and the `lines` that keeper and sample all have (null: texts are not stored): the longest five,
    as the keeper has them, found in the first 100,000 characters of each text and compared as
    normalised text. `finished` is false for a run that stopped after deduplicate.

    Raises RecipeError if the recipe does not deduplicate or a run is active, VerificationError if
    the corpus is not finished or is damaged.
    """
    state = _state(Path(corpus))
    verdicts = state.tables("verdicts")
    for path in verdicts.values():
        if not path.exists():
            raise VerificationError(f"{path}: missing. Run the recipe again to finish the corpus")
    sources = _by_source(state, verdicts)
    total: Counter[str] = Counter()
    for counted in sources.values():
        total += counted
    result = {"finished": state.finished, **_table(total)}
    result["sources"] = {name: _table(counted) for name, counted in sources.items()}
    copies = state.find(clusters.TABLE)
    result["sizes"] = _sizes(copies, result["kept"])
    result["clusters"] = _clusters(state, verdicts, copies, top, result["documents"])
    return result


def _state(root: Path) -> _CorpusFiles:
    here = Corpus(root)
    if not (here.stage / clusters.TABLE).exists():
        manifest, _ = finished(root)
        if all(part.path != clusters.TABLE for part in manifest.parts):
            raise RecipeError(
                f"{root}: its recipe does not look for duplicates. Add [deduplicate] to it and run "
                "it again"
            )
        sources = {
            shard.number: shard.source for shard in manifest.raw_shards if shard.missing is None
        }
        return _CorpusFiles(True, sources, lambda path: root / path)
    if held(root):
        raise RecipeError(
            f"{root}: a run is active and has not finished its duplicates. Try again when it has "
            "ended"
        )
    plan = read_plan(here, None)
    sources = {shard.number: shard.source for shard in plan.shards if shard.missing is None}
    records = [
        here.last("deduplicate", "all"),
        *(
            here.last(phase, shard_name(number))
            for phase in ("process", "write_verdicts")
            for number in sources
        ),
    ]
    known = {
        part.path: part.sha256 for record in records if record is not None for part in record.parts
    }

    def find(path: str) -> Path:
        return proven(here.find(path), known[path]) if path in known else here.find(path)

    return _CorpusFiles(False, sources, find)


def _by_source(state: _CorpusFiles, verdicts: dict[int, Path]) -> dict[str, Counter[str]]:
    """Return documents that reached deduplication, by source and reason (empty: kept)."""
    sources: dict[str, Counter[str]] = {}
    for number, path in verdicts.items():
        counted = sources.setdefault(state.sources[number], Counter())
        for batch in read_batches(path, ["reason"]):
            for entry in pc.value_counts(batch["reason"]).to_pylist():
                reason = entry["values"] or ""
                if not reason or reason.startswith(STEP):
                    counted[reason] += entry["counts"]
    return sources


def _table(counted: Counter[str]) -> dict[str, Any]:
    names = [*REASONS, *sorted(counted.keys() - {*REASONS, ""})]
    reasons = {name.removeprefix(STEP): counted[name] for name in names}
    return {"documents": counted.total(), "kept": counted[""], "reasons": reasons}


def _sizes(copies: Path, kept: int) -> list[dict[str, int]]:
    """Return clusters by size, in powers of two: 1, 2, 3 to 4, 5 to 8 and so on, up to the largest
    one.
    """
    bins, documents = np.zeros(65, np.int64), np.zeros(65, np.int64)
    for batch in clusters.own(copies):
        sizes = batch["copies"].to_numpy() + 1
        places = np.frexp((sizes - 1).astype(np.float64))[1]  # 2: 1; 3 and 4: 2; 5 to 8: 3
        bins += np.bincount(places, minlength=65)
        np.add.at(documents, places, sizes)
    bins[0] = documents[0] = kept - int(bins.sum())
    last = int(np.flatnonzero(bins).max(initial=-1))
    return [
        {
            "least": (1 << place >> 1) + 1 if place else 1,
            "most": 1 << place,
            "clusters": int(bins[place]),
            "documents": int(documents[place]),
        }
        for place in range(last + 1)
    ]


def _clusters(
    state: _CorpusFiles, verdicts: dict[int, Path], copies: Path, top: int, documents: int
) -> list[dict[str, Any]]:
    groups = clusters.largest(copies, top)
    samples = clusters.members(verdicts.values(), [cluster.keeper for cluster in groups], SAMPLE)
    result: list[dict[str, Any]] = []
    for keeper, size in groups:
        named, sample = samples[keeper]
        if named != size - 1:
            raise VerificationError(
                f"{copies}: counts {size - 1:,} copies of {schema.document_name(keeper)}, but the "
                f"verdicts name it {named:,} times. Run the recipe again to finish the corpus, or "
                "`gristmill verify` it"
            )
        result.append(
            {
                "size": size,
                "share": size / documents,
                "keeper": keeper,
                "sample": sample,
                "lines": None,
            }
        )
    shown = [keeper for keeper, _ in groups] + [
        row["document"] for cluster in result for row in cluster["sample"]
    ]
    urls = clusters.collect_urls(verdicts, shown)
    texts = _texts(state, shown, result)
    for cluster in result:
        for row in cluster["sample"]:
            row |= {"url": urls.get(row["document"]), "text": texts.get(row["document"])}
        cluster |= {"url": urls.get(cluster["keeper"]), "text": texts.get(cluster["keeper"])}
    return result


def _texts(state: _CorpusFiles, shown: list[int], result: list[dict[str, Any]]) -> dict[int, str]:
    """Return the beginnings of the texts of some documents. The lines that a cluster's members
    share are written into the cluster.

    Documents are read in their order, and a keeper comes before its copies, so its lines are known
    when theirs are compared.
    """
    owners = {row["document"]: cluster for cluster in result for row in cluster["sample"]}
    owners |= {cluster["keeper"]: cluster for cluster in result}
    shared: dict[int, dict[str, str]] = {}
    begins: dict[int, str] = {}
    paths = state.tables("documents")
    for shard, own in clusters.by_shard(shown).items():
        if not paths[shard].exists():
            continue  # keep_documents = false
        rows = (
            row
            for batch in read_documents(paths[shard], own, ["document", "text"])
            for row in batch.to_pylist()
        )
        for document, text in (row.values() for row in rows):
            begins[document] = text[:SHOWN]
            keeper = owners[document]["keeper"]
            here = _normalised(text[:COMPARED])
            if document == keeper:
                shared[keeper] = here
            elif keeper in shared:
                shared[keeper] = {
                    form: line for form, line in shared[keeper].items() if form in here
                }
    for cluster in result:
        if cluster["keeper"] in shared:
            common = shared[cluster["keeper"]]
            cluster["lines"] = [
                common[form] for form in sorted(common, key=len, reverse=True)[:LINES]
            ]
    return begins


def _normalised(text: str) -> dict[str, str]:
    """Return the lines of a text by their normalised form, if it is not empty; of equal ones the
    first.
    """
    lines = text.splitlines()
    offsets, data = compared(*utf8_buffers(pa.array(lines, pa.string())), "signs")
    forms = view_strings(offsets.astype(np.int32), data).to_pylist()
    return {form: line for form, line in zip(reversed(forms), reversed(lines), strict=True) if form}


def lines(result: dict[str, Any]) -> list[str]:
    """Return the report as lines of text."""
    out = [] if result["finished"] else ["not finished: the state of a run that stopped here", ""]
    names = [*result["reasons"], "kept"]
    heads = [REASONS.get(f"{STEP}{name}", name) for name in names]
    out.append(f"{'':<20}{'documents':>14}" + "".join(f"{head:>22}" for head in heads))
    tables = result["sources"] if len(result["sources"]) > 1 else {}
    for name, table in {**tables, "all": result}.items():
        counts = {**table["reasons"], "kept": table["kept"]}
        cells = "".join(
            f"{counts.get(column, 0):>14,}{_share(counts.get(column, 0), table['documents']):>8}"
            for column in names
        )
        out.append(f"{name:<20}{table['documents']:>14,}{cells}")
    out += ["", f"{'documents a cluster':<20}{'clusters':>14}{'documents':>14}"]
    for size in result["sizes"]:
        name = f"{size['least']:,}" + (
            f" to {size['most']:,}" if size["most"] > size["least"] else ""
        )
        shares = _share(size["documents"], result["documents"])
        out.append(f"{name:<20}{size['clusters']:>14,}{size['documents']:>14,}{shares:>8}")
    for cluster in result["clusters"]:
        out += ["", *_shown(cluster, result["documents"])]
    if any(cluster["lines"] is None for cluster in result["clusters"]):
        out += [
            "",
            (
                "texts are not stored (keep_documents = false), so neither texts nor shared lines "
                "can be shown"
            ),
        ]
    return out


def _shown(cluster: dict[str, Any], documents: int) -> list[str]:
    out = [f"{cluster['size']:,} documents, {_share(cluster['size'], documents)}"]
    keeper = {
        "document": cluster["keeper"],
        "reason": None,
        "url": cluster["url"],
        "text": cluster["text"],
    }
    last = None
    for row in (keeper, *cluster["sample"]):
        what = (
            "kept"
            if row["reason"] is None
            else REASONS.get(row["reason"], row["reason"].removeprefix(STEP))
        )
        if row["reason"] == NEAR:
            what += f" {row['similarity']:.4f}"
        out.append(
            f"  {what:<12}{schema.document_name(row['document']):<12}{row['url'] or '(no URL)'}"
        )
        if row["text"] not in (None, last):  # the same beginning is printed once
            last = row["text"]
            out.append(f"{'':<14}{' '.join(last.split())}")
    if cluster["lines"]:
        out.append("  in all of these:")
        for line in cluster["lines"]:
            text = " ".join(line.split())
            out.append(f"    {text[:SHOWN]}{'...' if len(text) > SHOWN else ''}")
    elif cluster["lines"] is not None:
        out.append("  no line is in all of these")
    return out


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
