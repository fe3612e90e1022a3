"""OPEN FIRST. The way through the house, in order.

    recipe.toml
       |  plan            which raw shards, numbered; the list only grows
       |                                                            phases/inputs/plan.py
       v
     fetch                remote shards into the cache, local ones in place; each pinned by sha256
       |                                                            phases/inputs/fetch.py
       v
     process              raw -> documents, measures, signatures, samples; one pass over each shard
       |                                                            phases/process/process.py
       v
     corpus_filters       what a document's rank in the whole corpus drops, where a step asks
       |                                                            phases/relations/corpus_filters.py
       v
     deduplicate          duplicates over the whole corpus
       |                                                            phases/relations/deduplicate.py
       v
     write_verdicts       each shard's verdicts, written once
       |                                                            phases/relations/write_verdicts.py
       v
     count_lines,         the lines that stand in too many of the documents that are left
     frequent_lines                                                 phases/relations/frequent_lines.py
       |
       v
     tokenize             what is left, as a stream -> tokens (or text/, without [tokens])
       |                                                            phases/output/tokenize.py
       v
     assemble             -> tokens/<source>/train_00000.bin, val_00000.bin ... in a seeded order
       |                                                            phases/output/assemble.py
       v
     manifest, lock       written last                              phases/output/publish.py

A phase whose record holds its content key is not run again. Phases over shards run on worker
processes; those over the corpus wait for all planned shards.
"""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus import clusters
from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.funnel import Funnel
from gristmill.engine import engine as engines
from gristmill.errors import GristmillError, RecipeError, SourceError
from gristmill.phases.inputs import fetch, inputs, plan
from gristmill.phases.output import assemble, publish, tokenize
from gristmill.phases.process import process
from gristmill.phases.relations import corpus_filters, deduplicate, frequent_lines
from gristmill.phases.running import repair
from gristmill.phases.running.phase_runner import PhaseRunner
from gristmill.phases.running.progress import Progress
from gristmill.recipe import (
    Loaded,
    Recipe,
    check_pages,
    read_recipe,
    refuse_code,
    stored,
    with_classes,
    with_limit,
)
from gristmill.schema import shard_name
from gristmill.store.cache import Cache, default_cache
from gristmill.store.manifest import Manifest
from gristmill.store.parts import machine_errors
from gristmill.store.settings import Settings, asked_of
from gristmill.store.transfer import Transfer
from gristmill.tokens.tokenizer import Tokenizer
from gristmill.user_input import local, output

PHASES = ("plan", "fetch", "process", "deduplicate", "tokenize", "assemble")


class ShardsFailed(SourceError):
    """Some raw shards failed; the others are finished, and what was done is kept."""


def run(
    recipe: Path | str | Loaded | list[str],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    engine: str = "local",
    settings: dict[str, str] | None = None,
    limit: int | None = None,
    until: str | None = None,
    plan_file: Path | str | None = None,
    cache_dir: Path | str | None = None,
    allow_missing: bool = False,
    allow_code: bool = False,
    tokenizer: str | None = None,
    preset: str = "clean-small",
    resume_only: bool = False,
    check_inputs: bool = False,
    connections: int | None = None,
    checkpoint_bytes: int | None = None,
    cache_bytes: int | None = None,
    retry: bool = False,
    allow_env: Collection[str] = (),
    show: Callable[[dict[str, Any]], None] | None = None,
) -> Funnel:
    """Run a recipe (a path, or a list of files and URLs for a preset of recipes/) and return the
    funnel.

    `engine` is `local`, `spark://host:port`, or `spark` inside spark-submit: the same bytes. `show`
    hears of progress as dictionaries; see phases/running/progress.py. `allow_env` names variables
    that the recipe may send to its hosts. Raises what errors.py draws.
    """
    if until is not None and until not in PHASES:
        raise RecipeError(f"--until {until}: no such phase; there are {', '.join(PHASES)}")
    fetching = asked_of(connections, checkpoint_bytes, retry, allow_env)
    loaded = read_recipe(recipe, tokenizer, settings, preset)
    if not allow_code:
        refuse_code(loaded.recipe)
    mill = _mill(with_classes(loaded), out, limit, cache_dir, fetching, show)
    engines.check(engine)
    mill.workers, mill.engine = workers or os.cpu_count() or 1, engine
    mill.asked = fetch.Asked(allow_missing, check_inputs)
    mill.transfer.resume_only = resume_only
    mill.cache_bytes = cache_bytes
    handle = mill.corpus.hold(mill.progress.line)
    try:
        return mill.turn(handle, until, Path(plan_file) if plan_file else None)
    finally:
        mill.transfer.close()
        os.close(handle)


def dry_run(
    recipe: Path | str | Loaded | list[str],
    *,
    out: Path | str | None = None,
    settings: dict[str, str] | None = None,
    limit: int | None = None,
    plan_file: Path | str | None = None,
    cache_dir: Path | str | None = None,
    tokenizer: str | None = None,
    preset: str = "clean-small",
    connections: int | None = None,
    retry: bool = False,
    allow_env: Collection[str] = (),
) -> list[fetch.Row]:
    """What `run` would fetch, and how much; of a corpus and a recipe nothing is changed. Lists are
    fetched into the cache.
    """
    fetching = asked_of(connections, None, retry, allow_env)
    loaded = read_recipe(recipe, tokenizer, settings, preset)
    mill = _mill(loaded, out, limit, cache_dir, fetching, None)
    mill.asked = fetch.Asked()
    try:
        mill.make_plan(mill.corpus.published(), Path(plan_file) if plan_file else None)
        return mill.fetching().preview()
    finally:
        mill.transfer.close()


def _mill(
    loaded: Loaded,
    out: Path | str | None,
    limit: int | None,
    cache_dir: Path | str | None,
    fetching: Settings,
    show: Callable[[dict[str, Any]], None] | None,
) -> "_Mill":
    root = output(out, loaded.recipe.output, loaded.folder)
    if limit is not None:
        loaded = loaded._replace(recipe=with_limit(loaded.recipe, limit))
    cache = Cache(local(cache_dir or default_cache(), "--cache-dir").absolute())
    transfer = Transfer(cache, fetching._replace(contact=loaded.recipe.contact))
    return _Mill(loaded, Corpus(root.absolute()), transfer, show)


class _Mill:
    """One run: what the phases share."""

    workers: int
    engine: str
    asked: fetch.Asked
    cache_bytes: int | None

    def __init__(
        self,
        loaded: Loaded,
        corpus: Corpus,
        transfer: Transfer,
        show: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.recipe: Recipe = loaded.recipe
        self.folder = loaded.folder
        self.corpus = corpus
        self.transfer = transfer
        self.progress = Progress(show)
        self.paths: dict[int, Path] = {}

    def turn(self, handle: int, until: str | None, plan_file: Path | None) -> Funnel:
        """Run the phases that are not done, and publish."""
        corpus = self.corpus
        if until not in ("plan", "fetch"):
            check_pages(self.recipe)
        with machine_errors(corpus.root):
            corpus.recover(
                lambda line: self.progress.line(f"{line}: what published it is run again")
            )
            published = corpus.published()
            corpus.trusted = (
                {part.path: part.sha256 for part in published[0].parts} if published else {}
            )
            corpus.sweep()
        self.make_plan(published, plan_file)
        if self.transfer.resume_only:
            self.fetching().refuse_new()
        publish.write_plan(corpus, self.plan)
        tokenizer = tokenize.tokenizer_of(self.recipe, self.folder, self.transfer)
        self.inputs = inputs.gather(self.recipe, self.folder, self.transfer)
        self.older = deduplicate.open_all(self.recipe.deduplicate, self.folder)
        named = publish.inputs_of(self.recipe, self.inputs, tokenizer, self.older)
        if published is not None and publish.is_current(
            corpus, published, self.plan, stored(self.recipe), named, tokenizer
        ):
            if self.asked.check_inputs:
                self._report(self.fetching().check(self.progress))
            clusters.forget_stopped(corpus)
            self.transfer.cache.release(corpus.root)
            self.progress.line(f"{corpus.root}: nothing to do, everything in it is up to date")
            return Funnel.stored(published[0].funnel, fresh=False)
        if until == "plan":
            return Funnel.empty()
        with engines.start(self.engine, self.workers, handle) as self.started:
            self._fetch()
            if until == "fetch":
                return Funnel.empty()
            process.check_room(corpus, list(self.paths.values()))
            return repair.mended(
                corpus, self.progress, lambda: self._through(until, tokenizer, named)
            )

    def _through(
        self, until: str | None, tokenizer: Tokenizer | None, named: dict[str, Any]
    ) -> Funnel:
        """What is not done of the phases behind fetch.

        Raises Damaged, and may then be called again.
        """
        processed = self._process()
        if until == "process":
            return Funnel.empty()
        corpus_filtered = self._corpus_filters(processed)
        verdicts_written, deduplicated = self._deduplicate(processed, corpus_filtered)
        listed = self._list_lines(processed, verdicts_written)
        if until == "deduplicate":
            return Funnel.empty()
        written = self._tokenize(processed, verdicts_written, listed, tokenizer)
        if until == "tokenize":
            return Funnel.empty()
        assembled = self._assemble(written, tokenizer) if tokenizer else {}
        if until == "assemble":
            return Funnel.empty()
        funnel = publish.publish(
            self.corpus,
            self.recipe,
            self.plan,
            self.folder,
            tokenizer=tokenizer,
            table=stored(self.recipe),
            inputs=named,
            processed=processed,
            corpus_filtered=corpus_filtered,
            deduplicated=deduplicated,
            verdicts_written=verdicts_written,
            listed=listed,
            written=written,
            assembled=assembled,
            progress=self.progress,
        )
        self.transfer.cache.release(self.corpus.root)
        self._evict()
        return funnel

    # -- the phases

    def make_plan(self, published: tuple[Manifest, bytes] | None, plan_file: Path | None) -> None:
        """The corpus' plan, and the shards that the recipe names besides."""
        before = published[0].recipe["source"] if published else []
        self.plan, self.sources = plan.extend(
            publish.read_plan(self.corpus, plan_file, self.progress.line),
            self.recipe,
            self.folder,
            self.transfer,
            lists=plan.Lists(before, stored(self.recipe)["source"], self.transfer.resume_only),
            absent_again=not self.asked.allow_missing,
        )
        deduplicate.refuse_appended(
            self.recipe.deduplicate, published[0] if published else None, len(self.plan.shards)
        )

    def fetching(self) -> fetch.Fetch:
        """The fetch of what is planned."""
        return fetch.Fetch(self.plan, self.sources, self.folder, self.transfer, self.asked)

    def _fetch(self) -> None:
        """Have every raw shard here, and pin it."""
        got = self.fetching().all(
            self.corpus.root, self.progress, lambda plan: publish.write_plan(self.corpus, plan)
        )
        self.plan, self.paths = got.plan, got.paths
        publish.write_plan(self.corpus, self.plan)
        self._evict()
        self._report(got.failed)

    def _evict(self) -> None:
        """Keep the cache within its limit, as far as unfinished runs allow."""
        for line in self.transfer.cache.keep_within(self.cache_bytes):
            self.progress.line(line)

    def _report(self, failed: dict[str, SourceError]) -> None:
        """Say which shards failed; stop, unless --allow-missing has recorded them as absent."""
        for error in failed.values():
            self.progress.line(f"failed: {error}")
        if failed and not self.asked.allow_missing:
            raise ShardsFailed(
                f"{len(failed)} of {len(self.plan.shards)} raw shards failed; the others are "
                "done and kept. Run again to try "
                "them again, or with --allow-missing to go on without them"
            )

    def _process(self) -> dict[int, Record]:
        tasks = {}
        sources = {source.name: source for source in self.recipe.source}
        for shard in self.plan.shards:
            if shard.missing is None and shard.sha256 is not None:
                source, path = sources[shard.source], self.paths[shard.number]
                tasks[shard.number] = process.task_of(
                    self.corpus, self.recipe, source, shard, path, self.inputs
                )
        limited = {
            name: source.limit for name, source in sources.items() if source.limit is not None
        }
        numbers = [number for number, task in tasks.items() if task.source.name not in limited]
        records = self._each(
            "process", process.process, {number: tasks[number] for number in numbers}
        )
        for name, left in limited.items():
            # A limit counts documents of the whole source: its shards go one after another.
            for number in [number for number, task in tasks.items() if task.source.name == name]:
                done = self._each(
                    "process",
                    process.process,
                    {number: msgspec.structs.replace(tasks[number], limit=left)},
                )
                left -= sum(record.counts["raw"]["documents"] for record in done.values())
                records |= done
        for number in process.empty(self.plan.shards, sources, records):
            self.progress.line(f"{self._shard(number)}: empty, 0 bytes")
        strange = process.strangers(self.plan.shards, sources, records)
        self._failed("process", strange, self._shard)
        return {
            number: record for number, record in sorted(records.items()) if number not in strange
        }

    def _corpus_filters(self, processed: dict[int, Record]) -> Record | None:
        """What goes by the measures of the whole corpus, where a step asks for it."""
        sources = {number: self.plan.shards[number].source for number in processed}
        task = corpus_filters.task_of(self.corpus, self.recipe, sources, self.inputs, processed)
        return self._whole("corpus_filters", corpus_filters.corpus_filters, task) if task else None

    def _deduplicate(
        self, processed: dict[int, Record], corpus_filtered: Record | None
    ) -> tuple[dict[int, Record], Record | None]:
        scopes = self._scopes(list(processed))
        task = deduplicate.deduplicate_task(
            self.corpus, self.recipe, self.folder, processed, scopes, self.older, corpus_filtered
        )
        deduplicated = (
            self._whole("deduplicate", deduplicate.find_duplicates, task) if task else None
        )
        tasks = deduplicate.verdict_tasks(
            self.corpus, self.recipe, processed, corpus_filtered, deduplicated
        )
        verdicts_written = self._each("write_verdicts", deduplicate.write_verdicts, tasks)
        if deduplicated is not None and self.recipe.deduplicate is not None:
            clusters.guard(self.corpus, self.recipe.deduplicate.largest_cluster, processed, scopes)
        return verdicts_written, deduplicated

    def _scopes(self, numbers: list[int]) -> list[int]:
        return deduplicate.scopes_of(
            self.recipe, [self.plan.shards[number].source for number in numbers]
        )

    def _list_lines(
        self, processed: dict[int, Record], verdicts_written: dict[int, Record]
    ) -> Record | None:
        """The frequent lines of what is kept, where the recipe cuts them."""
        settings = self.recipe.deduplicate
        if settings is None or settings.lines is None:
            return None
        root, names = str(self.corpus.root), [source.name for source in self.recipe.source]
        counted = self._each(
            "count_lines",
            frequent_lines.count,
            frequent_lines.count_tasks(root, settings.lines, processed, verdicts_written),
        )
        task = frequent_lines.list_task(
            root, settings.lines, processed, counted, self._scopes(list(processed)), names
        )
        return self._whole("frequent_lines", frequent_lines.list_frequent, task)

    def _tokenize(
        self,
        processed: dict[int, Record],
        verdicts_written: dict[int, Record],
        listed: Record | None,
        tokenizer: Tokenizer | None,
    ) -> dict[int, Record]:
        cut = frequent_lines.cut_of(self.recipe.deduplicate, listed.parts) if listed else None
        tasks = tokenize.tasks(
            self.corpus,
            self.plan,
            self.recipe,
            processed,
            verdicts_written,
            cut,
            tokenizer,
            self.inputs,
        )
        return self._each("tokenize", tokenize.tokenize, tasks)

    def _assemble(self, written: dict[int, Record], tokenizer: Tokenizer) -> dict[int, Record]:
        tasks = assemble.tasks(
            self.corpus, self.plan, self.recipe, written, dtype=tokenizer.dtype.str
        )
        return self._each(
            "assemble",
            assemble.assemble,
            tasks,
            name=lambda number: self.recipe.source[number].name,
        )

    # -- how a phase runs

    def _whole(self, phase: str, function: Callable[..., Record], task: Any) -> Record:
        """Run a phase that looks at the whole corpus at once."""
        return self._each(phase, function, {0: task}, lambda _: "all", self.started.run_whole)[0]

    def _each(
        self,
        phase: str,
        function: Callable[..., Record],
        tasks: dict[int, Any],
        name: Callable[[int], str] = shard_name,
        engine_run: Callable[[list[engines.Job]], Iterator[engines.Event]] | None = None,
    ) -> dict[int, Record]:
        """Run a phase over its tasks; raise ShardsFailed when the others are finished."""

        def label(number: int) -> str:
            whole = phase in ("corpus_filters", "deduplicate", "frequent_lines", "assemble")
            return f"{phase} {name(number)}" if whole else self._shard(number)

        runner = PhaseRunner(self.corpus, engine_run or self.started.run, self.progress)
        records, failed = runner.each(phase, function, tasks, name, label)
        self._failed(phase, failed, label)
        return records

    def _shard(self, number: int) -> str:
        return f"shard {shard_name(number)} ({fetch.name_of(self.plan.shards[number])})"

    def _failed(
        self, phase: str, failed: dict[int, GristmillError], label: Callable[[int], str]
    ) -> None:
        """Say what failed, and raise ShardsFailed; or go on without shards that could not be read,
        as --allow-missing asks.
        """
        told = [
            f"{label(number)}: {error}{self._mend(phase, number)}"
            for number, error in failed.items()
        ]
        absent = phase == "process" and self.asked.allow_missing
        for words in told:
            self.progress.line(f"absent: {words}" if absent else f"failed: {phase}: {words}")
        if failed and absent:
            self.plan = plan.without(self.plan, failed)
            publish.write_plan(self.corpus, self.plan)
        elif failed:
            raise ShardsFailed(
                f"{phase} failed for {len(failed)}: {'; '.join(told[:3])}. "
                "The others are done and kept; run again to try these again"
            )

    def _mend(self, phase: str, number: int) -> str:
        """Take a damaged copy out of the cache, so that the next run fetches it again."""
        sha256 = self.plan.shards[number].sha256
        if phase == "process" and sha256 is not None and self.transfer.cache.drop_damaged(sha256):
            return " (the copy in the cache was damaged and is removed: run again to fetch it)"
        return ""
