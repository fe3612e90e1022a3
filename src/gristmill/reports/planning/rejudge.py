"""Rejudge: what a corpus would keep with other thresholds, from its stored measures, in seconds.

The steps decide again from measures/; then the relations run again on the signatures of what is
left, because a dropped document may have been the keeper of others. Similarities come from
duplicates/pairs.parquet; only pairs that have none are compared, from documents/. No raw shard is
read and nothing is written: `gristmill run` with the same recipe does it.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.near.comparison import KnownPairs
from gristmill.dedup.near.near_stage import PAIRS_FOUND
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.executor import threads_with
from gristmill.engine.relations import duckdb_with
from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input, Step
from gristmill.filters.api.step_inputs import find
from gristmill.phases.inputs.inputs import is_as_made
from gristmill.phases.inputs.plan import NAMING
from gristmill.phases.process.redecide import redecide
from gristmill.phases.relations.corpus_filters import (
    AskedRule,
    Shard,
    asking,
    judge_whole,
    make_rules,
    rule_reasons,
    sort_drops,
)
from gristmill.phases.relations.deduplicate import open_all
from gristmill.phases.relations.differing_languages import find_differing
from gristmill.progress.counted_work import counted
from gristmill.recipe import (
    CODE,
    Loaded,
    Recipe,
    from_stored,
    is_post_dedup,
    load,
    make_step,
    refuse_classes,
    step_name,
    stored,
    with_classes,
    with_same_classes,
)
from gristmill.reports.integrity.verify import finished
from gristmill.store.cache import Cache, default_cache
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from gristmill.store.manifest import Manifest
from gristmill.store.parts import read_batches, read_rows
from gristmill.tables.schema import shard_name
from gristmill.user_input import output

MEMORY_MB = 400


def rejudge(
    recipe: Path | str | Loaded,
    *,
    out: Path | str | None = None,
    settings: dict[str, str] | None = None,
    allow_code: bool = False,
) -> dict[str, Any]:
    """Return what the recipe's corpus would keep: counts by step and reason, before and after, and
    how many documents must be read again.

    `unread` were not measured as far as they would get now. `anew` pass every step, and their texts
    are not there to be compared: `kept` counts neither. `lines` says that a run would cut frequent
    lines: they are not counted again here, and take no document away.

    `allow_code` lets classes of your own decide. Raises RecipeError where the recipe measures
    something else than the corpus did.
    """
    loaded = recipe if isinstance(recipe, Loaded) else load(Path(recipe), settings)
    if allow_code:
        loaded = with_classes(loaded)
    else:
        refuse_classes(loaded)
    root = output(out, loaded.recipe.output, loaded.folder, "no corpus")
    manifest, _ = finished(root)
    old = with_same_classes(from_stored(manifest.recipe), loaded.recipe)
    _check(loaded.recipe, old)
    _check_code(loaded, manifest)
    sources = {shard.number: shard.source for shard in manifest.raw_shards if shard.missing is None}
    judged = _judged(root, loaded.recipe, old, sources)
    reasons = sum((outcome.reasons for outcome in judged.values()), Counter[str]())
    rules = make_rules(asking(loaded.recipe.step), sources, _inputs(loaded, manifest))
    beyond = _corpus_filters(root, rules, judged)
    reasons += Counter(beyond["reason"].to_pylist())
    ranked_out = beyond["document"].to_numpy()
    unread = sum(int(outcome.unread.sum()) for outcome in judged.values())
    anew = sum(
        int((outcome.anew & ~np.isin(outcome.documents, ranked_out)).sum())
        for outcome in judged.values()
    )
    dropped = [outcome.documents[~outcome.standing | outcome.anew] for outcome in judged.values()]
    reasons += _duplicates(
        root,
        manifest,
        loaded,
        np.union1d(np.concatenate([*dropped, np.empty(0, np.int64)]), ranked_out),
    )
    total, asked = int(manifest.funnel["documents"]), loaded.recipe.deduplicate
    was = {
        reason: count
        for step in manifest.funnel["steps"]
        for reason, count in step["reasons"].items()
    }
    return {
        "documents": total,
        "kept": {
            "was": int(manifest.funnel["kept"]),
            "now": total - sum(reasons.values()) - unread - anew,
        },
        "unread": unread,
        "anew": anew,
        "lines": asked is not None and asked.lines is not None,
        "substrings": asked is not None and asked.substrings is not None,
        "reasons": {
            reason: {"was": was.get(reason, 0), "now": reasons.get(reason, 0)}
            for reason in sorted(was.keys() | reasons.keys())
        },
    }


def _check_code(loaded: Loaded, manifest: Manifest) -> None:
    """Refuse classes of your own whose file is not what the corpus was made with."""
    for table in loaded.recipe.step:
        file, what = table.get(CODE), f"own.{step_name(table)}"
        if isinstance(file, Input) and not is_as_made(file, what, manifest.inputs):
            raise RecipeError(
                f"{table['use']}: {file.path} is not what the corpus was made with. Run the recipe"
            )


def _inputs(loaded: Loaded, manifest: Manifest) -> dict[str, Input]:
    """Return what rules about the whole corpus read. Raises RecipeError where it is not what the
    corpus was made with.
    """
    inputs: dict[str, Input] = {}
    transfer = Transfer(Cache(Path(default_cache()).absolute()), Settings())
    try:
        for step in asking(loaded.recipe.step):
            for what, location in step.inputs().items() if step.corpus_rules else ():
                inputs[location] = find(what, location, loaded.folder, transfer)
                if not is_as_made(inputs[location], what, manifest.inputs):
                    raise RecipeError(
                        f"{what} = {location!r}: not what the corpus was made with. Run the recipe"
                    )
    finally:
        transfer.close()
    return inputs


class _RejudgedShard(NamedTuple):
    """A shard's documents under the new thresholds: arrays (n,)."""

    documents: np.ndarray
    standing: np.ndarray  # all steps keep it
    unread: np.ndarray  # it gets farther than it was measured
    anew: np.ndarray  # standing, and dropped before: its text is not stored
    reasons: Counter[str]


def _judged(
    root: Path, recipe: Recipe, old: Recipe, sources: dict[int, str]
) -> dict[int, _RejudgedShard]:
    """Return what the recipe says of each raw shard's documents, by its number."""
    corpus_filtered = rule_reasons(old.step)
    judged = {}
    with counted("judge", len(sources), "shards") as count:
        for number, source in sources.items():
            name, steps = f"{shard_name(number)}.parquet", recipe.steps(source)
            judged[number] = _shard(
                root, name, steps, corpus_filtered, everything=old.measure == "all"
            )
            count.add(1)
    return judged


def _shard(
    root: Path, name: str, steps: Sequence[Step], corpus_filtered: set[str], *, everything: bool
) -> _RejudgedShard:
    """Decide again for a shard; `corpus_filtered` are reasons that no step gave, but the corpus as
    a whole.
    """
    reasons: Counter[str] = Counter()
    blocks: list[tuple[np.ndarray, ...]] = [
        tuple(np.empty(0, kind) for kind in (np.int64, bool, bool, bool))
    ]
    path = root / "measures" / name
    measures = pa.Table.from_batches(
        list(read_batches(path)), pq.read_schema(path)
    ).combine_chunks()
    start = 0
    for verdicts in read_batches(root / "verdicts" / name):
        rows = measures.slice(start, len(verdicts)).combine_chunks().to_batches()[0]
        start += len(verdicts)
        by_steps = pc.if_else(
            pc.is_in(verdicts["reason"], pa.array(sorted(corpus_filtered), pa.string())),
            None,
            verdicts["reason"],
        )
        verdicts = verdicts.set_column(
            verdicts.schema.get_field_index("reason"), verdicts.schema.field("reason"), by_steps
        )
        said = redecide(rows, verdicts, steps, everything=everything)
        for entry in said.reason.value_counts().to_pylist():
            if entry["values"] is not None:
                reasons[entry["values"]] += entry["counts"]
        standing = (said.reached == len(steps)) & ~said.unread
        blocks.append((verdicts["document"].to_numpy(), standing, said.unread, said.anew))
    documents, standing, unread, anew = (
        np.concatenate(columns) for columns in zip(*blocks, strict=True)
    )
    return _RejudgedShard(documents, standing, unread, anew, reasons)


def _corpus_filters(
    root: Path, rules: list[AskedRule], judged: dict[int, _RejudgedShard]
) -> pa.Table:
    """Return what is dropped by its rank among what all steps keep: corpus_filters.DROPS."""
    folders = {rule.step.table for rule in rules}
    shards = {
        number: Shard(
            root / f"measures/{shard_name(number)}.parquet",
            {
                folder: root / f"{folder}/{shard_name(number)}.parquet"
                for folder in folders
                if folder
            },
            partial(getattr, outcome, "standing"),
        )
        for number, outcome in judged.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        relations = partial(duckdb_with(os.cpu_count() or 1, MEMORY_MB), work / "spill", [work])
        return sort_drops(
            judge_whole(rules, shards, relations, work), [rule.reason for rule in rules]
        )


def _duplicates(
    root: Path, manifest: Manifest, loaded: Loaded, dropped: np.ndarray
) -> Counter[str]:
    """Return the reasons of duplicates among what is left."""
    recipe = loaded.recipe
    settings = recipe.deduplicate
    if settings is None:
        return Counter()
    by_source = settings.scope == "source"
    places = {source.name: place for place, source in enumerate(recipe.source, 1)}
    tables = [
        ShardTables(
            root / f"signatures/{shard_name(shard.number)}.parquet",
            root / f"documents/{shard_name(shard.number)}.parquet",
            places[shard.source] if by_source else 0,
            root / f"measures/{shard_name(shard.number)}.parquet",
        )
        for shard in manifest.raw_shards
        if shard.missing is None
    ]
    if not all(table.documents.exists() for table in tables):
        raise RecipeError(
            f"{root}: keeps no documents (keep_documents = false): new pairs of texts cannot "
            "be compared"
        )
    pairs = root / "duplicates/pairs.parquet"
    known = read_rows(pairs, use_threads=False) if pairs.exists() else PAIRS_FOUND.empty_table()
    known = known.filter(pc.is_null(known["candidate_corpus"]))
    before = from_stored(manifest.recipe).deduplicate
    if before is None or before.near is None or before.near.verify != "text":
        known = known.slice(0, 0)  # what is stored are no similarities of texts
    against = open_all(settings, loaded.folder)
    for place, corpus in enumerate(against):
        if manifest.inputs.get(f"deduplicate.against.{place}", {}).get("sha256") != corpus.digest:
            raise RecipeError(
                f"against = {settings.against[place]!r}: not the corpus that this one was "
                "compared with. Run the recipe"
            )
    with tempfile.TemporaryDirectory() as work:
        drops = deduplicate(
            tables,
            settings,
            Path(work).resolve(),
            opener=duckdb_with(os.cpu_count() or 1, MEMORY_MB),
            on_progress=lambda _: None,
            executor=threads_with(os.cpu_count() or 1),
            dropped=np.sort(dropped),
            against=against,
            differing=find_differing(settings, tables),
            known=KnownPairs(
                *(known[name].to_numpy() for name in ("document", "candidate", "similarity"))
            ),
        ).drops
    return Counter(drops["reason"].to_pylist())


def _check(new: Recipe, old: Recipe) -> None:
    """Refuse a recipe that would measure something else, or with targets."""
    if new.targets() or old.targets():
        raise RecipeError(
            "a source has a target: with other thresholds it ends elsewhere. `gristmill run` with "
            "another output folder, and compare the two by `gristmill diff`"
        )

    def measuring(recipe: Recipe) -> dict[str, Any]:
        table = stored(recipe)
        measured: dict[str, Any] = {
            f"source.{source['name']}": {key: value for key, value in source.items() if key in READ}
            for source in table["source"]
        }
        for place, filled in enumerate(table["step"]):
            step = make_step(place, recipe.step[place])
            if not is_post_dedup(step):  # what those measure is not judged
                measured[f"step.{place}"] = step.measuring(filled)
        near = recipe.deduplicate and recipe.deduplicate.near
        measured["deduplicate"] = recipe.deduplicate and [
            near and [near.shingle, near.unit, near.numbers],
            recipe.deduplicate.scope == "language",  # signatures are of a text and its label
        ]
        return measured

    before, after = measuring(old), measuring(new)
    changed = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )
    if changed:
        raise RecipeError(
            f"{', '.join(changed)}: measures something else than the corpus did, so that its "
            "measures say nothing about it. Only thresholds can be judged again; run the recipe"
        )
    floors = [
        recipe.deduplicate.near.least
        for recipe in (old, new)
        if recipe.deduplicate and recipe.deduplicate.near
    ]
    if len(floors) == 2 and floors[1] < floors[0]:
        raise RecipeError(
            f"deduplicate.near: a floor of {floors[1]} lies below the corpus' own, "
            f"{floors[0]}: less like pairs were never compared. "
            "Run the recipe"
        )


# The keys of a source that say what is read of it. Others give a plan's new shards their numbers,
# or check or fetch the same bytes.
READ = (
    (frozenset(NAMING) - {"sha256sums"})
    | {"files", "text", "url", "limit", "enabled"}
    | {"max_document_bytes", "max_shard_bytes", "target_shards", "target_tokens"}
    | {"keep_empty", "keep_truncated", "max_replaced"}
)


def lines(answer: dict[str, Any]) -> list[str]:
    """For people."""
    kept = answer["kept"]
    out = [
        f"{'':<40}{'was':>12}{'now':>12}",
        f"{'documents':<40}{answer['documents']:>12,}{answer['documents']:>12,}",
    ]
    for reason, count in answer["reasons"].items():
        mark = "" if count["was"] == count["now"] else f"{count['now'] - count['was']:>+12,}"
        out.append(f"  {reason:<38}{count['was']:>12,}{count['now']:>12,}{mark}")
    out.append(f"{'kept':<40}{kept['was']:>12,}{kept['now']:>12,}{kept['now'] - kept['was']:>+12,}")
    if answer["lines"]:
        out.append(
            "frequent lines are not counted again: a run does it, and cuts them; that drops "
            "no document"
        )
    if answer["substrings"]:
        out.append(
            "repeated substrings are not looked for again: a run does it, and cuts them; that "
            "drops no document"
        )
    if answer["anew"]:
        out.append(
            f"{answer['anew']:,} more pass every step now; which of them are copies a run "
            "finds out, which reads them again"
        )
    if answer["unread"]:
        out.append(
            f"{answer['unread']:,} more get past the step that dropped them and were never "
            "measured by later ones: a run reads "
            'them again, and some of them will be kept (measure = "all" measures them beforehand)'
        )
    return out
