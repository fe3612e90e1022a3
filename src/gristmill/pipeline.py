"""OPEN FIRST. The way through the house, in order.

    recipe.toml
       |  plan        which raw shards, numbered; the list only grows                                   phases/plan.py
       v
     fetch            remote shards into the cache, local ones in place; each pinned by sha256          store/transfer.py
       v
     refine           raw -> documents, measures, signatures, samples; one streaming pass a shard       phases/refine.py
       v
     relate           duplicates over the whole corpus; then each shard's verdicts, once                phases/relate.py
       v
     tokenize         what is left, as a stream -> tokens (or text/, in a recipe without [tokens])      phases/tokenize.py
       v
     assemble         -> tokens/<source>/train_00000.bin, val_00000.bin ... in a seeded order           phases/assemble.py
       v
     manifest, lock   written last                                                                     phases/publish.py

A phase whose record holds its content key is not run again. Per-shard phases run on worker processes; the global ones wait for all
planned shards.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gristmill.engine.local import Job, Pool
from gristmill.errors import GristmillError, MachineError, RecipeError, SourceError
from gristmill.phases import assemble, plan, publish, refine, relate, tokenize
from gristmill.phases.corpus import Corpus, Record
from gristmill.phases.funnel import Funnel
from gristmill.phases.progress import Progress
from gristmill.recipe import Loaded, Recipe, Source, for_files, from_folder, load, stored, with_limit
from gristmill.store import transfer
from gristmill.store.parts import Part, machine_errors, write_bytes
from gristmill.tokens.tokenizer import Tokenizer
from gristmill.tokens.tokenizer import load as load_tokenizer

PHASES = ("plan", "fetch", "refine", "relate", "tokenize", "assemble")
FREE_SHARE = 1.0  # bytes of free disk asked for before a run, for each byte of raw shards that still has to be refined
RELATE_MEMORY_MB = 400  # of the relational engine, in a worker that stays under 1 GB; more is spilled to disk


class ShardsFailed(SourceError):
    """Some raw shards failed; the others are finished, and what was done is kept."""


def run(
    recipe: Path | str | Loaded | list[str],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    settings: dict[str, str] | None = None,
    limit: int | None = None,
    until: str | None = None,
    plan_file: Path | str | None = None,
    cache_dir: Path | str | None = None,
    allow_missing: bool = False,
    tokenizer: str | None = None,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> Funnel:
    """Run a recipe (a path, or a list of files for recipes/clean-small.toml) and return the funnel.

    `show` hears of progress as dictionaries; see phases/progress.py. Raises what errors.py draws.
    """
    if until is not None and until not in PHASES:
        raise RecipeError(f"--until {until}: no such phase; there are {', '.join(PHASES)}")
    loaded = _load(recipe, tokenizer, settings)
    target = out or loaded.recipe.output
    if target is None:
        raise RecipeError("no output: name a folder in the recipe (output = ...) or with --out")
    root = Path(target) if out or Path(target).is_absolute() else loaded.folder / target
    if limit is not None:
        loaded = loaded._replace(recipe=with_limit(loaded.recipe, limit))
    mill = _Mill(loaded, Corpus(root.absolute()), Path(cache_dir or transfer.default_cache()).absolute(), show)
    mill.workers = workers or os.cpu_count() or 1
    mill.allow_missing = allow_missing
    handle = mill.corpus.hold()
    try:
        return mill.turn(handle, until, Path(plan_file) if plan_file else None)
    finally:
        os.close(handle)


def _load(recipe: Path | str | Loaded | list[str], tokenizer: str | None, settings: dict[str, str] | None) -> Loaded:
    if isinstance(recipe, Loaded):
        return recipe
    if isinstance(recipe, list):
        return for_files(recipe, tokenizer, settings)[0]
    if tokenizer is not None:
        name = from_folder(tokenizer, Path(recipe).parent)
        settings = {**(settings or {}), "tokens.tokenizer": msgspec.json.encode(name).decode()}
    return load(Path(recipe), settings)


class _Mill:
    """One run: what the phases share."""

    workers: int
    allow_missing: bool

    def __init__(
        self, loaded: Loaded, corpus: Corpus, cache: Path, show: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self.recipe: Recipe = loaded.recipe
        self.folder = loaded.folder
        self.corpus = corpus
        self.cache = cache
        self.progress = Progress(show)
        self.paths: dict[int, Path] = {}

    def turn(self, handle: int, until: str | None, plan_file: Path | None) -> Funnel:
        """Run the phases that are not done, and publish."""
        corpus = self.corpus
        with machine_errors(corpus.root):
            corpus.recover()
            published = corpus.published()
            corpus.sweep()
        self.plan = publish.read_plan(corpus, plan_file)
        asked = {shard.source for shard in self.plan.shards}
        self.plan = plan.extend(
            self.plan, self.recipe, self.folder, self.cache,
            ask_lists=lambda source: published is None or source.name not in asked,
            absent_again=not self.allow_missing,
        )  # fmt: skip
        publish.write_plan(corpus, self.plan)
        tokenizer = self._tokenizer()
        if published is not None and publish.is_current(corpus, published, self.plan, self._recipe_table(), tokenizer):
            self.progress.line(f"{corpus.root}: nothing to do, everything in it is up to date")
            return Funnel.stored(published[0].funnel, fresh=False)
        if until == "plan":
            return Funnel.empty()
        with Pool(self.workers, inherited=[handle]) as pool:
            self.pool = pool
            self._fetch()
            if until == "fetch":
                return Funnel.empty()
            self._check_disk()
            refined = self._refine()
            if until == "refine":
                return Funnel.empty()
            settled, related = self._relate(refined)
            if until == "relate":
                return Funnel.empty()
            written = self._tokenize(refined, settled, tokenizer)
            if until == "tokenize":
                return Funnel.empty()
            assembled = self._assemble(written, tokenizer) if tokenizer else {}
            if until == "assemble":
                return Funnel.empty()
        return publish.publish(
            corpus, self.recipe, self.plan, self.folder, tokenizer=tokenizer, table=self._recipe_table(),
            refined=refined, related=related, settled=settled, written=written, assembled=assembled, progress=self.progress,
        )  # fmt: skip

    # -- the phases

    def _fetch(self) -> None:
        """Have every raw shard here, and pin it."""
        pinned = []
        failed: dict[str, str] = {}
        missing = [shard for shard in self.plan.shards if shard.missing is None]
        with self.progress.phase("fetch", len(missing)) as progress:
            for shard in self.plan.shards:
                if shard.missing is not None:
                    pinned.append(shard)
                    continue
                try:
                    path, pin = publish.bring(shard, self.folder, self.cache, progress.bytes)
                except SourceError as error:
                    failed[_shown(shard.url)] = str(error)
                    reason = str(error) if self.allow_missing else None
                    pinned.append(publish.absent(shard, reason) if reason else shard)
                else:
                    self.paths[shard.number] = path
                    pinned.append(pin)
                progress.done(_shown(shard.url))
        if failed and not self.allow_missing:
            # What was absent before and is so still keeps its old number only.
            absent = {(shard.source, shard.url) for shard in pinned if shard.missing is not None}
            while (last := pinned[-1]).sha256 is None and last.missing is None and (last.source, last.url) in absent:
                pinned.pop()
        self.plan = plan.Plan(shards=pinned)
        publish.write_plan(self.corpus, self.plan)
        self._report(failed)

    def _report(self, failed: dict[str, str]) -> None:
        """Say which shards failed; stop, unless --allow-missing has recorded them as absent."""
        for name, reason in failed.items():
            self.progress.line(f"failed: {name}: {reason}")
        if failed and not self.allow_missing:
            raise ShardsFailed(
                f"{len(failed)} of {len(self.plan.shards)} raw shards failed; the others are done and kept. Run again to try "
                "them again, or with --allow-missing to go on without them"
            )

    def _check_disk(self) -> None:
        """Look at the free space before the work, not only when it is gone."""
        needed = sum(path.stat().st_size for path in self.paths.values()) * FREE_SHARE
        done = sum(1 for shard in self.plan.shards if self.corpus.last("refine", refine.shard_name(shard.number)))
        status = os.statvfs(self.corpus.root)
        free = status.f_bavail * status.f_frsize
        if not done and free < needed:
            raise MachineError(
                f"{self.corpus.root}: {free / 1e9:.2f} GB free, and the raw shards alone are {needed / 1e9:.2f} GB: a run "
                "would fill the disk. Free some space or choose another folder"
            )

    def _refine(self) -> dict[int, Record]:
        tasks = {}
        sources = {source.name: source for source in self.recipe.source}
        for shard in self.plan.shards:
            if shard.missing is None and shard.sha256 is not None:
                tasks[shard.number] = self._refine_task(sources[shard.source], shard)
        limited = {name: source.limit for name, source in sources.items() if source.limit is not None}
        numbers = [number for number, task in tasks.items() if task.source.name not in limited]
        records = self._each("refine", refine.refine, {number: tasks[number] for number in numbers})
        for name, left in limited.items():
            # A limit counts documents of the whole source: its shards go one after another.
            for number in [number for number, task in tasks.items() if task.source.name == name]:
                done = self._each("refine", refine.refine, {number: msgspec.structs.replace(tasks[number], limit=left)})
                left -= sum(record.counts["raw"]["documents"] for record in done.values())
                records |= done
        return dict(sorted(records.items()))

    def _refine_task(self, source: Source, shard: plan.Planned) -> refine.Task:
        assert shard.sha256 is not None
        return refine.Task(
            root=str(self.corpus.root), number=shard.number, source=source, path=str(self.paths[shard.number]),
            sha256=shard.sha256, seed=self.recipe.seed, samples=None if self.recipe.keep_dropped else self.recipe.samples,
            step=self.recipe.step, deduplicate=self.recipe.deduplicate, limit=None,
        )  # fmt: skip

    def _relate(self, refined: dict[int, Record]) -> tuple[dict[int, Record], Record | None]:
        related = None
        settings = self.recipe.deduplicate
        if settings is not None and (settings.exact or settings.near):
            by_source = settings.scope == "source"
            places = {source.name: place for place, source in enumerate(self.recipe.source, 1)}
            task = relate.RelateTask(
                root=str(self.corpus.root), numbers=list(refined),
                scopes=[places[self.plan.shards[number].source] if by_source else 0 for number in refined],
                signatures=[_part(record, "signatures/").sha256 for record in refined.values()],
                deduplicate=settings, threads=self.workers, memory_mb=RELATE_MEMORY_MB,
            )  # fmt: skip
            related = self._each("relate", relate.find_duplicates, {0: task}, name=lambda _: "all")[0]
        near = settings.near.threshold if settings and settings.near else None
        tasks = {
            number: relate.SettleTask(
                root=str(self.corpus.root), number=number, provisional=record.counts["verdicts"],
                drops=related.counts["drops"] if related else None, near_threshold=near,
            )
            for number, record in refined.items()
        }  # fmt: skip
        return self._each("settle", relate.settle, tasks), related

    def _tokenizer(self) -> Tokenizer | None:
        tokens = self.recipe.tokens
        return load_tokenizer(tokens.tokenizer, self.folder, self.cache, tokens.end_of_text) if tokens else None

    def _tokenize(
        self, refined: dict[int, Record], settled: dict[int, Record], tokenizer: Tokenizer | None
    ) -> dict[int, Record]:
        tokens = self.recipe.tokens
        part: Part | None = None
        if tokenizer:
            part = write_bytes(self.corpus.stage, f"tokenizer/{tokenizer.file_name}", tokenizer.data)
        tasks = {
            number: tokenize.TokenizeTask(
                root=str(self.corpus.root), number=number, source=self.plan.shards[number].source,
                documents=_part(record, "documents/").sha256, verdicts=settled[number].parts[0].sha256,
                seed=self.recipe.seed, tokenizer=part.path if part else None,
                tokenizer_name=tokenizer.name if tokenizer else None,
                tokenizer_sha256=tokenizer.sha256 if tokenizer else None,
                end_of_text=tokens.end_of_text if tokens else None, validation=tokens.validation if tokens else 0.0,
            )
            for number, record in refined.items()
        }  # fmt: skip
        return self._each("tokenize", tokenize.tokenize, tasks)

    def _assemble(self, written: dict[int, Record], tokenizer: Tokenizer) -> dict[int, Record]:
        tokens = self.recipe.tokens
        assert tokens is not None
        tasks = {}
        for place, source in enumerate(self.recipe.source):
            numbers = [number for number in written if self.plan.shards[number].source == source.name]
            tasks[place] = assemble.AssembleTask(
                root=str(self.corpus.root), source=source.name, numbers=numbers,
                inputs=[written[number].counts["work"] for number in numbers], dtype=tokenizer.dtype.str,
                tokens_per_shard=tokens.tokens_per_shard, order=tokens.order, seed=self.recipe.seed,
            )  # fmt: skip
        return self._each("assemble", assemble.assemble, tasks, name=lambda number: self.recipe.source[number].name)

    # -- how a phase runs

    def _each(
        self, phase: str, function: Callable[[Any, Callable[[int], None]], Record], tasks: dict[int, Any],
        name: Callable[[int], str] = refine.shard_name,
    ) -> dict[int, Record]:  # fmt: skip
        """Run a phase over its tasks, those that are not done; raise ShardsFailed when the others are finished."""
        records: dict[int, Record] = {}
        jobs = []
        for number, task in tasks.items():
            record = self.corpus.done(phase, name(number), task.key())
            if record is not None:
                records[number] = record
            else:
                jobs.append(Job(name(number), function, task))
        numbers = {name(number): number for number in tasks}
        failed: dict[str, str] = {}
        with self.progress.phase(phase, len(jobs)) as progress:
            for event in self.pool.run(jobs):
                if event.error is not None:
                    if isinstance(event.error, MachineError) or not isinstance(event.error, GristmillError):
                        raise event.error
                    label = self._label(phase, numbers[event.job.name], event.job.name)
                    failed[label] = str(event.error)
                    progress.done(label)
                elif event.result is not None:
                    records[numbers[event.job.name]] = event.result
                    progress.done(event.job.name)
                else:
                    progress.bytes(event.progress)
        if failed and phase == "refine" and self.allow_missing:
            self._record_absent(failed, {number for number in tasks if number not in records})
        elif failed:
            self._report_failed(phase, failed)
        return dict(sorted(records.items()))

    def _record_absent(self, failed: dict[str, str], numbers: set[int]) -> None:
        """Go on without shards that could not be read, as --allow-missing asks."""
        for name, reason in failed.items():
            self.progress.line(f"absent: {name}: {reason}")
        self.plan = plan.Plan(
            shards=[
                publish.absent(shard, failed[self._label("refine", shard.number, refine.shard_name(shard.number))])
                if shard.number in numbers
                else shard
                for shard in self.plan.shards
            ]
        )
        publish.write_plan(self.corpus, self.plan)

    def _label(self, phase: str, number: int, name: str) -> str:
        if phase in ("relate", "assemble"):
            return f"{phase} {name}"
        return f"shard {name} ({_shown(self.plan.shards[number].url)})"

    def _report_failed(self, phase: str, failed: dict[str, str]) -> None:
        for name, reason in failed.items():
            self.progress.line(f"failed: {phase}: {name}: {reason}")
        raise ShardsFailed(
            f"{phase} failed for {len(failed)}: {'; '.join(f'{name}: {reason}' for name, reason in list(failed.items())[:3])}. "
            "The others are done and kept; run again to try these again"
        )

    def _recipe_table(self) -> dict[str, Any]:
        return stored(self.recipe)


def _shown(url: str) -> str:
    """A raw shard's name as it may be printed."""
    return transfer.shown(url) if transfer.is_url(url) else url


def _part(record: Record, folder: str) -> Part:
    return next(part for part in record.parts if part.path.startswith(folder))


def init(path: Path | str = "recipe.toml") -> Path:
    """Write a recipe to start from; refuses to overwrite."""
    from gristmill.recipe import packaged

    target = Path(path)
    if target.exists():
        raise RecipeError(f"{target} is there already; choose another name")
    with machine_errors(target):
        write_bytes(target.parent, target.name, packaged("start").read_bytes())
    return target
