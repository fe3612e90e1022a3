"""Withdrawal: documents are taken back out of a finished corpus, which keeps its shape.

    the parts          without the documents (network/withdrawal/withdraw_parts.py); token shards
                       keep their lengths
    withdrawn.txt      the list; the recipe gets the step `withdrawn` with it as its input
    recipe, funnel, manifest                        written anew
    work/, the cache   what a run left of them there, and the raw shards that hold them, are removed

With a document go its copies: what was dropped as a duplicate of it, and what it was a duplicate
of. Otherwise the same text would come back with the next run.

The new state takes the place of the old one as every state does (corpus/corpus.py): a kill at any
point is completed by the next run, or by the same command.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.layout import WITHDRAWN
from gristmill.corpus.token_corpus import REMEDY
from gristmill.errors import RecipeError, VerificationError
from gristmill.filters.lists.withdrawn import REASON, read_list, write_list
from gristmill.network.withdrawal.withdraw_parts import (
    Before,
    Urls,
    Withdrawal,
    rewritten,
    token_shard,
)
from gristmill.phases.output.write_manifest import FUNNEL, RECIPE, recipe_bytes
from gristmill.progress.counted_work import counted
from gristmill.recipe import from_stored, stored
from gristmill.store.cache import Cache, default_cache
from gristmill.store.http.urls import is_url
from gristmill.store.manifest import MANIFEST, Manifest, RawShard, content_digest
from gristmill.store.parts import Part, machine_errors, read_batches, write_bytes, write_json
from gristmill.store.proof import prove_all
from gristmill.tables import schema
from gristmill.tables.schema import shard_name
from gristmill.user_input import one_or_more

LIST = WITHDRAWN  # the part with the documents
STEP = "withdrawn"


@one_or_more("documents")
def withdraw(
    corpus: Path | str,
    documents: Sequence[str],
    *,
    cache_dir: Path | str | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Take documents out of a finished corpus: each given as `shard:row`, its number, or its URL.

    `cache_dir` is the cache whose raw shards are removed (None: the default one). Returns
    `documents` (withdrawn now, copies included), `withdrawn` (of all times), `tokens` and `shards`
    (overwritten), `raw_shards` (files that still hold them, outside the cache) and `manifest`.

    Raises RecipeError for a document that is not in the corpus, VerificationError if the corpus is
    not finished or not as its manifest says, MachineError while a run is at work on it.
    """
    root = Path(corpus)
    here = Corpus(root)
    if here.finished() is None:
        raise VerificationError(f"{root}: no {MANIFEST}: not a corpus, or not finished")
    lock = here.hold()
    try:
        with machine_errors(root, every=True):
            here.recover(on_line)
            here.sweep()
            finished = here.finished()
            assert finished is not None
            manifest = finished[0]
            before = listed_documents(root, manifest)
            urls = _found(root, manifest, documents)
            now = {number: url for number, url in urls.items() if number not in before}
            task = Withdrawal(here, manifest, before, now)
            done = _written(task) if now else {"tokens": 0, "shards": 0}
            _purge_work(here)
    finally:
        os.close(lock)
    cache = Cache(Path(cache_dir or default_cache()))
    data = (root / MANIFEST).read_bytes()
    return {
        "documents": len(now),
        "withdrawn": len(before | now),
        **done,
        "raw_shards": _purge_cache(cache, root, manifest, urls),
        "manifest": hashlib.sha256(data).hexdigest(),
    }


def listed_documents(root: Path, manifest: Manifest) -> Urls:
    """Return the documents that were withdrawn from a corpus."""
    if all(part.path != WITHDRAWN for part in manifest.parts):
        return {}
    return read_list((root / WITHDRAWN).read_bytes(), str(root / WITHDRAWN)).urls


# -- which documents


def _verdicts(root: Path, manifest: Manifest, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for shard in manifest.raw_shards:
        if shard.missing is None:
            yield from read_batches(root / f"verdicts/{shard_name(shard.number)}.parquet", columns)


def _found(root: Path, manifest: Manifest, asked: Sequence[str]) -> Urls:
    """Return the documents asked for and their copies, with their URLs."""
    numbers, urls = set[int](), set[str]()
    for word in asked:
        shard, colon, row = word.partition(":")
        if word.isdecimal():
            numbers.add(int(word))
        elif colon and shard.isdecimal() and row.isdecimal():
            numbers.add(schema.first_document(int(shard)) + int(row))
        else:
            urls.add(word)
    # A document and its copies have one keeper, which is itself where it is kept.
    keepers, seen = set[int](), set[str]()
    present = set[int]()
    for batch in _verdicts(root, manifest, ["document", "url", "keeper", "keeper_corpus"]):
        wanted = pc.or_(
            pc.is_in(batch["document"], pa.array(sorted(numbers), pa.int64())),
            pc.is_in(batch["url"], pa.array(sorted(urls), pa.string())),
        )
        for row in batch.filter(wanted).to_pylist():
            present.add(row["document"])
            seen.add(row["url"])
            own = row["keeper"] is not None and row["keeper_corpus"] is None
            keepers.add(row["keeper"] if own else row["document"])
    missing = [*map(schema.document_name, sorted(numbers - present)), *sorted(urls - seen)]
    if missing:
        raise RecipeError(
            f"{root}: no document {', '.join(missing[:5])}. Name it as shard:row, by its number, "
            "or by its exact URL"
        )
    together = pa.array(sorted(keepers | present), pa.int64())
    matches: Urls = {}
    for batch in _verdicts(root, manifest, ["document", "url", "keeper", "keeper_corpus"]):
        copies = pc.and_(pc.is_in(batch["keeper"], together), pc.is_null(batch["keeper_corpus"]))
        rows = batch.filter(pc.or_(pc.is_in(batch["document"], together), copies))
        matches |= dict(zip(rows["document"].to_pylist(), rows["url"].to_pylist(), strict=True))
    return matches


# -- the new state


def _written(task: Withdrawal) -> dict[str, int]:
    """Write the parts that change, and make them the corpus' state."""
    corpus, manifest = task.corpus, task.manifest
    changed: dict[str, Part] = {}
    before = Before({}, {}, {})
    tokens = shards = 0
    # The verdicts first: what they said before is counted, and other parts need the counts.
    parts_in_order = sorted(manifest.parts, key=lambda part: not part.path.startswith("verdicts/"))
    with counted("withdraw", sum(part.size for part in manifest.parts), "bytes") as count:
        for part in parts_in_order:
            count.add(part.size)
            if part.path.startswith("tokens/") and part.path.endswith(".docs"):
                overwritten, parts = token_shard(task, part)
                tokens, shards = tokens + overwritten, shards + bool(parts)
            else:
                parts = rewritten(task, part, before)
            changed |= {new_part.path: new_part for new_part in parts}
    # What is written anew gets a new digest: damage would become what the manifest says.
    old = [part for part in manifest.parts if part.path in changed]
    prove_all([(corpus.root / part.path, part.sha256) for part in old], 1, REMEDY)
    listed = write_bytes(corpus.stage, WITHDRAWN, write_list(task.before | task.now))
    table = _recipe(manifest)
    funnel = _funnel(manifest, before, len(task.now))
    for new_part in (
        listed,
        write_bytes(corpus.stage, RECIPE, recipe_bytes(table)),
        write_json(corpus.stage, FUNNEL, funnel),
    ):
        changed[new_part.path] = new_part
    every = {part.path: part for part in manifest.parts} | changed
    ordered = [every[path] for path in sorted(every)]
    entry = {"name": WITHDRAWN, "sha256": listed.sha256}
    corpus.write_manifest(
        msgspec.structs.replace(
            manifest,
            content=content_digest(ordered),
            recipe_sha256=changed[RECIPE].sha256,
            recipe=table,
            inputs=dict(sorted({**manifest.inputs, f"{STEP}.list": entry}.items())),
            raw_shards=[_counted(shard, before.reasons) for shard in manifest.raw_shards],
            funnel=funnel,
            parts=ordered,
        )
    )
    return {"tokens": tokens, "shards": shards}


def _recipe(manifest: Manifest) -> dict[str, Any]:
    """Return the stored recipe, with the step that drops what is listed before all others."""
    steps = [step for step in manifest.recipe["step"] if step["use"] != STEP]
    given = {**manifest.recipe, "step": [{"use": STEP, "list": WITHDRAWN}]}
    ours = stored(from_stored(given))["step"]
    return {**manifest.recipe, "step": [*ours, *steps]}


def _funnel(manifest: Manifest, before: Before, count: int) -> dict[str, Any]:
    """Return the funnel with the documents dropped by the step that comes after `read`."""
    funnel = msgspec.to_builtins(manifest.funnel)
    steps = {step["step"]: dict(step["reasons"]) for step in funnel["steps"]}
    for reason, number in before.reasons.items():
        of_step = steps.get(reason.partition(".")[0])
        if of_step is not None:
            of_step[reason] -= number
    ours = {REASON: steps.pop(STEP, {}).get(REASON, 0) + count}
    names = list(steps)
    order = [*names[:1], STEP, *names[1:]]
    left = funnel["documents"]
    funnel["steps"] = []
    for name in order:
        own = ours if name == STEP else {key: n for key, n in steps[name].items() if n}
        left -= sum(own.values())
        funnel["steps"].append(
            {"step": name, "dropped": sum(own.values()), "left": left, "reasons": own}
        )
    texts = {name: funnel[name] - count for name, count in before.texts.items()}
    return {**funnel, **texts, "kept": left}


def _counted(shard: RawShard, reasons: dict[str, int]) -> RawShard:
    kept = shard.unique_documents - reasons.get(f"kept {shard.number}", 0)
    return msgspec.structs.replace(shard, unique_documents=kept)


# -- what else holds the texts


def _purge_work(corpus: Corpus) -> None:
    """Remove what a run left under work/: tokens, verdicts and records of the state before."""
    for path in corpus.work.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _purge_cache(
    cache: Cache, root: Path, manifest: Manifest, documents: Iterable[int]
) -> list[str]:
    """Remove the raw shards with the documents from the cache; returns those that are elsewhere."""
    rows: dict[int, list[int]] = {}
    for document in sorted(documents):
        rows.setdefault(schema.shard_number(document), []).append(schema.row_number(document))
    left = []
    for shard in manifest.raw_shards:
        if shard.number in rows and shard.sha256 is not None:
            if is_url(shard.url) and not shard.url.startswith("file:"):
                cache.remove(shard.sha256)
            else:
                left += list(dict.fromkeys(map(shard.file_at, rows[shard.number])))
    return left
