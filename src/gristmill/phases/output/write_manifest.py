"""Write the manifest: the plan, the recipe, the funnel, then the manifest and its lock.

Written last; from here on the corpus is whole.
"""

import hashlib
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec.structs import replace

from gristmill.corpus.corpus import Corpus, versions
from gristmill.corpus.formats import PACKAGES
from gristmill.corpus.funnel import Funnel
from gristmill.corpus.layout import WITHDRAWN
from gristmill.dedup.reference_corpus import ReferenceCorpus
from gristmill.errors import NO_JSON, RecipeError, VerificationError
from gristmill.filters.api.step import Input
from gristmill.filters.lists.withdrawn import Withdrawn, read_list, write_list
from gristmill.phases.inputs.plan import Plan, PlannedShard, TargetCut
from gristmill.phases.output.append import refuse_changed
from gristmill.phases.output.count_funnel import funnel_table, step_rates
from gristmill.phases.output.nothing_kept import nothing_kept
from gristmill.phases.output.validation import caveat
from gristmill.phases.phase import State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS
from gristmill.recipe import Recipe
from gristmill.store.manifest import Manifest, RawShard, TokenFormat, content_digest
from gristmill.store.manifest import decode as decode_manifest
from gristmill.store.parts import write_bytes, write_json
from gristmill.store.proof import PROOF, seal, unseal
from gristmill.tokens.growth_record import record_version
from gristmill.tokens.tokenizer import Tokenizer

PLAN, RECIPE, FUNNEL, RUN = "plan.json", "recipe.toml", "funnel.json", "run.json"


def read_plan(
    corpus: Corpus, given: Path | None, on_line: Callable[[str], None] = lambda _: None
) -> Plan:
    """Return the corpus' plan so far; a given one (`--plan`) where it has none. `on_line` gets a
    line where the one under work/ is damaged: it is none.
    """
    for path in (corpus.work / PLAN, corpus.root / PLAN):
        if path.parent == corpus.work and path.exists() and not is_sound(path):
            on_line(f"{path}: not as it was written: it is made anew")
        elif path.exists():
            own = _decode(path)
            if given is not None and _names(own) != _names(_decode(given)):
                raise RecipeError(
                    f"--plan {given}: the corpus has a plan already, and another one. Choose "
                    "a new folder"
                )
            return own
    return _decode(given) if given is not None else Plan()


def is_sound(path: Path) -> bool:
    """Return whether the plan of a run under way is as it was written; one without a digest of
    itself is whatever it says.
    """
    try:
        data = path.read_bytes()
        if f'"{PROOF}"'.encode() in data:
            unseal(data)
        return bool(_decode(path))
    except (OSError, ValueError, RecipeError):
        return False


def _decode(path: Path) -> Plan:
    """Read a plan, or the plan in a manifest."""
    try:
        data = path.read_bytes()
        if b'"raw_shards"' in data:
            plan = manifest_plan(decode_manifest(data))
        else:
            plan = msgspec.json.decode(data, type=Plan)
    except (OSError, VerificationError, *NO_JSON) as error:
        raise RecipeError(f"{path} is no plan: {error}") from error
    if [shard.number for shard in plan.shards] != list(range(len(plan.shards))):
        raise RecipeError(f"{path} is no plan: its shards are not numbered 0, 1, 2 ...")
    return plan


def manifest_plan(manifest: Manifest) -> Plan:
    """Return the plan that a manifest repeats."""
    return Plan(shards=[_planned(shard) for shard in manifest.raw_shards])


def _planned(shard: RawShard) -> PlannedShard:
    size = None if shard.missing else shard.compressed_bytes
    return PlannedShard(
        number=shard.number,
        source=shard.source,
        url=shard.url,
        sha256=shard.sha256,
        size=size,
        missing=shard.missing,
        start=shard.start or 0,
        cut=msgspec.convert(shard.cut, TargetCut) if shard.cut else None,
        files=shard.files or (),
    )


def _place(shard: PlannedShard) -> tuple[Any, ...]:
    """Return all that is planned of a shard but its digest."""
    return (shard.number, shard.source, shard.url, bool(shard.missing), shard.start, shard.cut)


def _names(plan: Plan) -> list[tuple[str, str]]:
    return [(shard.source, shard.url) for shard in plan.shards]


def write_plan(corpus: Corpus, plan: Plan) -> None:
    """Keep the plan of the run under way."""
    data = seal(plan)
    path = corpus.work / PLAN
    if not path.is_file() or path.read_bytes() != data:
        corpus.write_small(f"work/{PLAN}", data)


def recipe_digest(table: dict[str, Any]) -> str:
    """Return the sha256 of the stored recipe."""
    return hashlib.sha256(recipe_bytes(table)).hexdigest()


def recipe_bytes(table: dict[str, Any]) -> bytes:
    """Return the stored recipe as TOML; TOML has no null, so keys without a value are left out."""

    def without_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
        return [without_nulls(inner) for inner in value] if isinstance(value, list) else value

    return tomli_w.dumps(without_nulls(table)).encode()


def made_by(tokenizer: Tokenizer | None) -> dict[str, str]:
    """Return the manifest's `versions`: of packages and formats, and of what else encodes."""
    return versions() | (tokenizer.libraries if tokenizer else {})


def _of_bytes(named: dict[str, str]) -> dict[str, str]:
    """Of a manifest's `versions` those that bytes depend on."""
    return {name: value for name, value in named.items() if name not in PACKAGES}


def is_current(
    corpus: Corpus,
    finished: tuple[Manifest, bytes],
    plan: Plan,
    table: dict[str, Any],
    inputs: dict[str, Any],
    tokenizer: Tokenizer | None,
) -> bool:
    """Return whether the finished corpus is what this recipe, plan and format versions give; raw
    files are not looked at.
    """
    manifest = finished[0]
    raw = [_planned(shard) for shard in manifest.raw_shards]
    return (
        manifest.recipe_sha256 == recipe_digest(table)
        and _of_bytes(manifest.versions) == _of_bytes(made_by(tokenizer))
        and [_place(shard) for shard in raw] == [_place(shard) for shard in plan.shards]
        and manifest.inputs == inputs
        and is_same_format(manifest.tokens, token_format_of(tokenizer))
        and all(map(corpus.is_placed, manifest.parts))
    )


def token_format_of(tokenizer: Tokenizer | None) -> TokenFormat | None:
    """Return the manifest's `tokens`; None: the recipe makes none."""
    if tokenizer is None:
        return None
    grown = record_version(tokenizer.data)
    return TokenFormat(
        tokenizer=tokenizer.sha256,
        tokenizer_version=msgspec.UNSET if grown is None else grown.version,
        vocabulary=tokenizer.vocabulary,
        dtype="uint16" if tokenizer.dtype.itemsize == 2 else "uint32",
        end_of_text=tokenizer.end_of_text,
        end_of_text_by=tokenizer.ending.why,
        begin_of_text=begin if (begin := tokenizer.begin_of_text) is not None else msgspec.UNSET,
    )


def is_same_format(stated: TokenFormat | None, own: TokenFormat | None) -> bool:
    """Return whether two say the same of tokens. Why the end of text is this one is no fact of
    tokens, and earlier manifests do not say it.
    """
    if stated is None or own is None:
        return stated is own
    return stated == msgspec.structs.replace(own, end_of_text_by=stated.end_of_text_by)


def manifest_inputs(
    recipe: Recipe,
    found: dict[str, Input],
    tokenizer: Tokenizer | None,
    older: list[ReferenceCorpus],
) -> dict[str, Any]:
    """Return what the recipe pulls in besides raw shards, with digests: the manifest's `inputs`.

    Where two sources have a step each of one kind, that of the later has the source's name in
    brackets, if what it reads is another.
    """
    inputs: dict[str, Any] = {}
    for source in recipe.source:
        for what, location in recipe.inputs(source).items():
            entry = {"name": found[location].name, "sha256": found[location].sha256}
            inputs[what if inputs.get(what, entry) == entry else f"{what}[{source.name}]"] = entry
    if tokenizer is not None:
        inputs["tokens.tokenizer"] = {
            "name": os.path.basename(tokenizer.name),
            "sha256": tokenizer.sha256,
        }
    for place, corpus in enumerate(older):
        inputs[f"deduplicate.against.{place}"] = {"name": corpus.root.name, "sha256": corpus.digest}
    return dict(sorted(inputs.items()))


def write_manifest(state: State, table: dict[str, Any], inputs: dict[str, Any]) -> Funnel:
    """Gather all parts into a manifest and make it the corpus' state.

    `table` is the stored recipe, `inputs` the manifest's.
    """
    corpus, recipe, tokenizer = state.corpus, state.recipe, state.tokenizer
    late = [step for source in recipe.source for step in recipe.post_dedup_steps(source.name)]
    for name in sorted({step.name for step in late if step.redacts}):
        state.progress.line(
            f"{corpus.name}: documents/, samples/ and contamination/ hold the original texts: "
            f"{name} waits until duplicates are removed"
        )
    if (line := caveat(recipe)) is not None:
        state.progress.line(f"{corpus.name}: {line}")
    verdicts = {number: record.counts for number, record in state.of(WRITE_VERDICTS).items()}
    for line in nothing_kept(state.plan, verdicts):
        state.progress.line(f"{corpus.name}: {line}")
    counted = funnel_table(state)
    plan = _with_rows(state)
    write_plan(corpus, plan)
    parts = [
        write_json(corpus.stage, PLAN, plan),
        write_bytes(corpus.stage, RECIPE, recipe_bytes(table)),
        write_json(corpus.stage, FUNNEL, counted),
    ]
    if (listed := _withdrawn(state)) is not None:
        parts.append(write_bytes(corpus.stage, WITHDRAWN, listed))
    if tokenizer is not None:
        parts.append(write_bytes(corpus.stage, f"tokenizer/{tokenizer.file_name}", tokenizer.data))
    for records in state.records.values():
        for record in records.values():
            parts += [
                part
                for part in record.parts
                if recipe.keep_documents or not part.path.startswith("documents/")
            ]
    parts.sort(key=lambda part: part.path)
    finished = corpus.finished()
    refuse_changed(finished[0] if finished else None, recipe, parts)
    manifest = Manifest(
        content=content_digest(parts),
        versions=made_by(tokenizer),
        recipe_sha256=recipe_digest(table),
        recipe=table,
        inputs=inputs,
        raw_shards=_raw_shards(state, plan),
        funnel=counted,
        tokens=token_format_of(tokenizer),
        parts=parts,
    )
    corpus.write_manifest(manifest)
    rates = step_rates(state)
    corpus.write_small(RUN, seal(_about(state, rates)))
    return Funnel(counted, rates)


def _withdrawn(state: State) -> bytes | None:
    """Return the documents that the recipe's lists of withdrawn ones name; None: it names no
    list.
    """
    steps = [step for entry in state.recipe.source for step in state.recipe.all_steps(entry.name)]
    lists = {step.list_ for step in steps if isinstance(step, Withdrawn)}
    read = [read_list(Path(state.inputs[name].path).read_bytes(), name) for name in sorted(lists)]
    if not read:
        return None
    urls = {number: url for entry in read for number, url in entry.urls.items()}
    return write_list(urls, set().union(*(entry.alone for entry in read)))


def _with_rows(state: State) -> Plan:
    """Return the plan, with the first row of each file of a pack."""
    processed, shards = state.of(PROCESS), list(state.plan.shards)
    for shard in state.plan.shards:
        if shard.files and shard.number in processed:
            rows = processed[shard.number].counts.raw.first_rows
            files = zip(shard.files, rows, strict=True)
            known = tuple(replace(file, row=row) for file, row in files)
            shards[shard.number] = replace(shard, files=known)
    return Plan(shards=shards)


def _raw_shards(state: State, plan: Plan) -> list[RawShard]:
    processed, written = state.of(PROCESS), state.of(WRITE_VERDICTS)
    shards = []
    for shard in plan.shards:
        known: dict[str, Any] = {
            "number": shard.number,
            "source": shard.source,
            "url": shard.url,
            "sha256": shard.sha256,
            "start": shard.start or msgspec.UNSET,
            "cut": msgspec.to_builtins(shard.cut) if shard.cut else msgspec.UNSET,
            "files": shard.files or msgspec.UNSET,
        }
        if shard.number in processed:
            counts = msgspec.structs.asdict(processed[shard.number].counts.raw)
            counts["decoding"] = counts["decoding"] or msgspec.UNSET
            del counts["first_rows"]
            kept = written[shard.number].counts.kept
            shards.append(RawShard(**known, **counts, unique_documents=kept))
        else:
            shards.append(RawShard(**known, missing=shard.missing))
    return shards


def _about(state: State, rates: dict[str, float]) -> dict[str, Any]:
    """Return what run.json says of the run and its machine."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "folder": str(state.folder),
        "machine": (
            f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
        ),
        "phase_seconds": {name: round(took, 3) for name, took in state.progress.seconds.items()},
        "megabytes_per_second": {name: round(rate, 1) for name, rate in rates.items()},
    }
