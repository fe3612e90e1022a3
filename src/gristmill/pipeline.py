"""Open this first: the phases of a run, in order.

    recipe.toml
       |  plan            which raw shards, numbered; the list only grows
       |                                                phases/inputs/plan.py
       v
     fetch                remote shards into the cache, local ones in place; each pinned by sha256
       |                                                phases/inputs/fetch.py
       v
     process              raw -> documents, measures, signatures, samples; one pass over each shard
       |                                                phases/process/process.py
       v
     corpus_filters       what a document's rank in the whole corpus drops, where a step asks
       |                                                phases/relations/corpus_filters.py
       v
     deduplicate          duplicates over the whole corpus
       |                                                phases/relations/deduplicate.py
       v
     write_verdicts       each shard's verdicts, written once
       |                                                phases/relations/write_verdicts.py
       v
     count_lines,         the lines that occur in too many of the documents that are left
     frequent_lines                                     phases/relations/frequent_lines.py
       v
     repeated_substrings  the spans of bytes that occur again in what is left
       |                                                phases/relations/repeated_substrings.py
       v
     tokenize             what is left, as a stream -> tokens (or text/, without [tokens])
       |                                                phases/output/tokenize.py
       v
     assemble             -> tokens/<source>/train_00000.bin, val_00000.bin ... in a seeded order
       |                                                phases/output/assemble.py
       v
     manifest, lock       written last                              phases/output/write_manifest.py

A phase whose record holds its content key is not run again. Phases over shards run on worker
processes; those over the corpus wait for all planned shards.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.corpus import clusters
from gristmill.corpus.corpus import Corpus
from gristmill.corpus.funnel import Funnel
from gristmill.corpus.stored_corpus import corpus_at
from gristmill.engine import engine as engines
from gristmill.errors import RecipeError, SourceError
from gristmill.kernels.jit.build import prepare as compile_kernels
from gristmill.phases import gone_shards, part_of_shards
from gristmill.phases.all_phases import STOPS
from gristmill.phases.inputs import fetch, inputs, local_inputs, plan
from gristmill.phases.inputs.changed_inputs import Changes
from gristmill.phases.inputs.fetch_on_nodes import FetchOnNodes, make_node_fetcher
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output import tokenize, write_manifest
from gristmill.phases.output.append import only_grows
from gristmill.phases.output.settle import next_wave
from gristmill.phases.phase import State
from gristmill.phases.phase_runner import PhaseRunner
from gristmill.phases.process import process
from gristmill.phases.process_while_fetching import ProcessWhileFetching
from gristmill.phases.relations import deduplicate
from gristmill.phases.rounds import PhaseRounds, ShardsFailed
from gristmill.phases.running import repair
from gristmill.phases.running.progress import Progress
from gristmill.phases.tasks_on_nodes import make_storage
from gristmill.progress.counted_work import notebook_display
from gristmill.recipe import (
    Loaded,
    Recipe,
    check_pages,
    kernel_names,
    own_code,
    read_recipe,
    refuse_code,
    stored,
    with_classes,
    with_limit,
)
from gristmill.store.cache import Cache, default_cache
from gristmill.store.http.secrets import refuse_bucket
from gristmill.store.http.settings import Settings, merge_settings
from gristmill.store.http.transfer import Transfer
from gristmill.store.manifest import Manifest
from gristmill.store.parts import machine_errors
from gristmill.system.kernels_folder import kernels_folder
from gristmill.system.ownership import writable_by_others
from gristmill.user_input import local, store_url


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
    replace: bool = False,
    remove: bool = False,
    connections: int | None = None,
    checkpoint_bytes: int | None = None,
    cache_bytes: int | None = None,
    retry: bool = False,
    allow_env: Collection[str] = (),
    allow_hosts: Collection[str] = (),
    shards: str | None = None,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> Funnel:
    """Run a recipe (a path, or a list of files and URLs for a preset of recipes/) and return the
    funnel.

    `engine` is `local`, `spark://host:port`, or `spark` inside spark-submit: the same bytes. `show`
    gets progress as dictionaries (phases/running/progress.py); without it, a notebook shows bars
    and others nothing. `allow_env` names variables that the recipe may send to its hosts,
    `allow_hosts` hosts to which it may send what it reads here. `shards`, such as 3/16: one job of
    several that share the corpus' folder (phases/part_of_shards.py); its funnel is empty.

    Raises what errors.py draws.
    """
    if until is not None and until not in STOPS:
        raise RecipeError(f"--until {until}: no such phase; there are {', '.join(STOPS)}")
    fetching = merge_settings(connections, checkpoint_bytes, retry, allow_env, allow_hosts)
    loaded = read_recipe(recipe, tokenizer, settings, preset)
    if not allow_code:
        refuse_code(loaded.recipe)
    made = prepare(
        with_classes(loaded),
        out,
        limit,
        cache_dir,
        fetching,
        show or notebook_display(),
        engine=engine,
        workers=engines.worker_count(workers),
        asked=fetch.Asked(allow_missing, check_inputs, replace, remove),
        cache_bytes=cache_bytes,
        resume_only=resume_only,
    )
    engines.check(engine)
    if engine == "local":  # before a phase is shown, whose time would seem to be that of compiling
        compile_kernels(kernel_names(made.recipe))
    for folder in (made.transfer.cache.root, kernels_folder()):
        if line := writable_by_others(folder):
            made.progress.line(line)
    if shards is not None:
        return made.go_part(part_of_shards.parse(shards, engine), until)
    lock = made.corpus.hold(made.progress.line)
    try:
        return made.go(lock, until, Path(plan_file) if plan_file else None)
    finally:
        made.transfer.close()
        made.corpus.let_go(lock)


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
    allow_hosts: Collection[str] = (),
    replace: bool = False,
    remove: bool = False,
) -> list[fetch.Row]:
    """Return what `run` would fetch, and how much; of a corpus and a recipe nothing is changed.
    Lists are fetched into the cache.
    """
    fetching = merge_settings(connections, None, retry, allow_env, allow_hosts)
    loaded = read_recipe(recipe, tokenizer, settings, preset)
    asked = fetch.Asked(replace=replace, remove=remove)
    made = prepare(loaded, out, limit, cache_dir, fetching, None, asked=asked)
    try:
        made.corpus.look()
        planned = made.planned(made.corpus.finished(), Path(plan_file) if plan_file else None)
        return made.fetching(planned).preview()
    finally:
        made.transfer.close()


def prepare(
    loaded: Loaded,
    out: Path | str | None,
    limit: int | None,
    cache_dir: Path | str | None,
    fetching: Settings,
    show: Callable[[dict[str, Any]], None] | None,
    *,
    engine: str = "local",
    workers: int = 1,
    asked: fetch.Asked | None = None,
    cache_bytes: int | None = None,
    resume_only: bool = False,
) -> "Run":
    """Return a run of a recipe that nothing was done for yet; its transfer is to be closed."""
    if limit is not None:
        loaded = loaded._replace(recipe=with_limit(loaded.recipe, limit))
    if not out and (url := store_url(loaded.recipe.output)) is not None:
        refuse_bucket(url, fetching.allow_hosts)
    cache = Cache(local(cache_dir or default_cache(), "--cache-dir").absolute())
    return Run(
        recipe=loaded.recipe,
        folder=loaded.folder,
        corpus=corpus_at(out, loaded.recipe.output, loaded.folder, cache.root),
        transfer=Transfer(
            cache, fetching._replace(contact=loaded.recipe.contact), resume_only=resume_only
        ),
        progress=Progress(show),
        engine=engine,
        workers=workers,
        asked=asked or fetch.Asked(),
        cache_bytes=cache_bytes,
    )


class Planned(NamedTuple):
    """The corpus' plan, and the shards that the recipe names besides."""

    plan: Plan
    sources: plan.Sources
    # Files as they were when they had the digests of the plan, by name.
    seen: dict[str, local_inputs.Look]


class Run(NamedTuple):
    """One run of a recipe: what it was asked for. What it finds on the way is in a State."""

    recipe: Recipe
    folder: Path  # that the recipe's paths are relative to
    corpus: Corpus
    transfer: Transfer
    progress: Progress
    engine: str
    workers: int
    asked: fetch.Asked
    cache_bytes: int | None  # of the cache, at most; null: no limit

    def go(self, lock: int, until: str | None, plan_file: Path | None) -> Funnel:
        """Run the phases that are not done, then write the manifest. `lock`: the held lock."""
        corpus = self.corpus
        if until not in ("plan", "fetch"):
            check_pages(self.recipe)
        finished = self._recover()
        planned = self.planned(finished, plan_file)
        if self.transfer.resume_only:
            self.fetching(planned).refuse_new()
        state = self._state(planned.plan)
        write_manifest.write_plan(corpus, planned.plan)
        gone_shards.forget_gone(corpus, planned.plan)
        table = stored(self.recipe)
        named = write_manifest.manifest_inputs(
            self.recipe, state.inputs, state.tokenizer, state.older
        )
        self._tell_inputs(finished[0].inputs if finished else {}, named)
        if finished is not None and write_manifest.is_current(
            corpus, finished, state.plan, table, named, state.tokenizer
        ):
            return self._nothing_to_do(planned, finished[0])
        if until == "plan":
            return Funnel.empty()
        runs_code = bool(own_code(self.recipe))
        with (
            engines.start(self.engine, self.workers, lock, own_code=runs_code) as engine,
            closing(make_storage(corpus, engine, self.workers)) as storage,
        ):
            first = set(next_wave(planned.plan, self.recipe, {}, self.workers))
            first |= {shard.number for shard in planned.plan.shards if shard.sha256 is not None}
            runner = PhaseRunner(corpus, engine, self.progress, storage)
            early = None if until == "fetch" else runner
            nodes, begun = (
                make_node_fetcher(engine, self.transfer, corpus),
                process.is_begun(corpus),
            )
            state = self._fetched(planned, nodes, early, state, first)
            if until == "fetch":
                return Funnel.empty()
            here = [shard for shard in state.plan.shards if shard.number in state.paths]
            process.check_room(corpus, here, begun=begun)
            rounds = PhaseRounds(
                runner,
                self.asked.allow_missing,
                partial(self._fetched, planned, nodes, early),
                self.transfer.cache.drop_damaged,
                write_manifest.manifest_plan(finished[0]) if finished else Plan(),
                only_grows(finished[0] if finished else None, self.recipe),
                self.workers,
            )

            def through() -> Funnel:
                done = rounds.through(state, until)
                return write_manifest.write_manifest(done, table, named) if done else Funnel.empty()

            funnel = repair.mended(corpus, self.progress, through)
        if funnel.table:
            self.transfer.cache.release(corpus.root)
            self._evict()
        return funnel

    def planned(self, finished: tuple[Manifest, bytes] | None, plan_file: Path | None) -> Planned:
        """Extend the corpus' plan by what the recipe names; compare its files with it. Raises
        RecipeError.
        """
        before = finished[0].recipe["source"] if finished else []
        old = write_manifest.read_plan(self.corpus, plan_file, self.progress.line)
        note = local_inputs.read_note(self.corpus.work)
        compared = local_inputs.compare(
            old,
            self.folder,
            note,
            sources={source.name for source in self.recipe.source if source.enabled},
            every=self.asked.check_inputs,
            on_line=self.progress.line,
        )
        extension = plan.extend(
            old,
            self.recipe,
            self.folder,
            self.transfer,
            lists=plan.Lists(before, stored(self.recipe)["source"], self.transfer.resume_only),
            absent_again=not self.asked.allow_missing,
            finished=len(finished[0].raw_shards) if finished else 0,
            changes=Changes(
                compared.changed,
                self.asked.replace,
                self.asked.remove,
                not only_grows(finished[0] if finished else None, self.recipe),
                plan_file is not None,
                frozenset(note.elsewhere),
                self.progress.line,
            ),
        )
        planned = Planned(*extension, compared.same)
        deduplicate.refuse_appended(
            self.recipe.deduplicate, finished[0] if finished else None, len(planned.plan.shards)
        )
        return planned

    def fetching(self, planned: Planned, *more: Any) -> fetch.Fetch:
        """Return the fetch of what is planned; `more` as fetch.Fetch takes it."""
        return fetch.Fetch(
            planned.plan, planned.sources, self.folder, self.transfer, self.asked, *more
        )

    def go_part(self, part: part_of_shards.ShardsPart, until: str | None) -> Funnel:
        """Run the phases that work shard by shard for a part of the shards, as far as they go."""
        check_pages(self.recipe)
        try:
            with part_of_shards.held(self.corpus, part) as lock:
                state = self._state(write_manifest.read_plan(self.corpus, None))
                runs_code = bool(own_code(self.recipe))
                with engines.start(self.engine, self.workers, lock, own_code=runs_code) as engine:
                    runner = PhaseRunner(self.corpus, engine, self.progress)
                    part_of_shards.run_part(part, runner, state, self.transfer.cache, until)
        finally:
            self.transfer.close()
        return Funnel.empty()

    # -- before the phases

    def _recover(self) -> tuple[Manifest, bytes] | None:
        """Complete a state whose writing was begun; the manifest of the finished state."""
        corpus = self.corpus
        with machine_errors(corpus.root):
            corpus.recover(lambda line: self.progress.line(f"{line}: what made it is run again"))
            finished = corpus.finished()
            corpus.trust(finished[0].parts if finished else [])
            corpus.sweep()
        return finished

    def _state(self, planned: Plan) -> State:
        """Return what is known before the first phase: the raw shards' paths are not yet."""
        return State(
            corpus=self.corpus,
            recipe=self.recipe,
            folder=self.folder,
            plan=planned,
            paths={},
            tokenizer=tokenize.load_tokenizer(self.recipe, self.folder, self.transfer),
            inputs=inputs.gather(
                self.recipe, self.folder, self.transfer, self.corpus.root, planned
            ),
            older=deduplicate.open_all(self.recipe.deduplicate, self.folder),
            progress=self.progress,
            records={},
        )

    def _tell_inputs(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Say which models, lists, tokenizers and code are others than the finished corpus has."""
        for name, entry in now.items():
            if name in before and before[name]["sha256"] != entry["sha256"]:
                self.progress.line(
                    f"changed: {name} ({entry['name']}) is another than the corpus was made with; "
                    "what depends on it is made again"
                )

    def _nothing_to_do(self, planned: Planned, finished: Manifest) -> Funnel:
        if self.asked.check_inputs:
            self._report(self.fetching(planned).check(self.progress), len(planned.plan.shards))
        local_inputs.write_note(self.corpus.root, self.folder, planned.seen)
        clusters.forget_stopped(self.corpus)
        self.transfer.cache.release(self.corpus.root)
        self.progress.line(f"{self.corpus.name}: nothing to do, everything in it is up to date")
        return Funnel.stored(finished.funnel, fresh=False)

    def _fetched(
        self,
        planned: Planned,
        nodes: FetchOnNodes | None,
        early: PhaseRunner | None,
        state: State,
        wanted: Iterable[int],
    ) -> State:
        """Have raw shards of the plan here, and pin them; not those that were processed, where that
        would fetch them again. `nodes` fetch, where there are any; `early`: what processes shards
        while others are fetched.
        """
        planned, wanted = planned._replace(plan=state.plan), set(wanted)
        if not self.asked.check_inputs:
            wanted -= process.processed(state, self.fetching(planned).not_here(wanted))
        meanwhile = None
        if early is not None:
            begun = process.is_begun(self.corpus)
            meanwhile = ProcessWhileFetching(early, state, begun=begun)
        fetching = self.fetching(planned, wanted, nodes, meanwhile)
        new = [
            shard for shard in state.plan.shards if shard.missing is None and shard.sha256 is None
        ]
        looks = local_inputs.looks(
            {file.url for shard in new for file in shard.parts()}, self.folder
        )
        got = fetching.all(
            self.corpus.root,
            self.progress,
            lambda plan: write_manifest.write_plan(self.corpus, plan),
        )
        write_manifest.write_plan(self.corpus, got.plan)
        pinned = {
            file.url
            for shard in got.plan.shards
            if shard.sha256 is not None
            for file in shard.parts()
        }
        planned.seen.update({url: look for url, look in looks.items() if url in pinned})
        local_inputs.write_note(self.corpus.root, self.folder, planned.seen)
        self._evict()
        self._report(got.failed, len(got.plan.shards))
        return state._replace(plan=got.plan, paths=state.paths | got.paths)

    def _evict(self) -> None:
        """Keep the cache within its limit, as far as unfinished runs allow."""
        for line in self.transfer.cache.keep_within(self.cache_bytes):
            self.progress.line(line)

    def _report(self, failed: dict[str, SourceError], shards: int) -> None:
        """Say which shards failed; stop, unless --allow-missing has recorded them as absent."""
        for error in failed.values():
            self.progress.line(f"failed: {error}")
        if failed and not self.asked.allow_missing:
            raise ShardsFailed(
                f"{len(failed)} of {shards} raw shards failed; the others are done and kept. Run "
                "again to try them again, or with --allow-missing to go on without them"
            )
