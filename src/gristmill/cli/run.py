"""The verb `gristmill run`: thin, as app.py."""

import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from gristmill.cli.arguments import Json, parse_bytes, read_settings
from gristmill.cli.completion import PRESETS, STOPS, among
from gristmill.engine.allocation import let_go_of_code, without_collections
from gristmill.errors import KEPT_NOTHING, RecipeError
from gristmill.progress.terminal import print_result, warn
from gristmill.system.arrow_setup import set_up_libraries
from gristmill.system.interrupts import handle_ctrl_c
from gristmill.user_input import is_scheme

if TYPE_CHECKING:
    from gristmill.recipe import Loaded


def run(
    what: list[str] = Argument(
        ..., help="A recipe (.toml), or files, folders and URLs for a preset."
    ),
    out: Path | None = Option(
        None,
        help="The folder of the corpus, or s3://BUCKET/PREFIX, gs://, az:// (default: the "
        "recipe's `output`).",
    ),
    workers: int | None = Option(
        None, min=1, help="The number of worker processes (default: one for each processor)."
    ),
    engine: str = Option(
        "local",
        help="local, spark://host:port, or spark inside spark-submit; or `module:VALUE`, one "
        "of your own. All write the same bytes.",
    ),
    set_: list[str] | None = Option(
        None,
        "--set",
        help="Set a key of the recipe, as in tokens.validation=0.01 or "
        "step.language.min_score=0.5.",
    ),
    limit: int | None = Option(None, min=1, help="Read at most N documents of each source."),
    shingle_width: int | None = Option(
        None, help="Words of a shingle: sets deduplicate.near.shingle."
    ),
    until: str | None = Option(
        None,
        help="Stop after plan, fetch, process, deduplicate, tokenize or assemble.",
        autocompletion=among(STOPS),
    ),
    shards: str | None = Option(
        None,
        help="I/N: do part I of N of the raw shards, a job of an array on a shared folder; a "
        "run without it ends the work (docs/clusters.md).",
    ),
    plan: Path | None = Option(None, help="Run a stored plan: the plan.json of a corpus."),
    cache_dir: Path | None = Option(
        None, help="The folder for fetched shards, which all runs share."
    ),
    cache_bytes: str | None = Option(
        None,
        help="The largest size of the cache (200GB): the least recently used files are removed.",
    ),
    connections: int | None = Option(
        None, min=1, help="The number of downloads at once (default: 8, of them 4 from one host)."
    ),
    checkpoint_bytes: str | None = Option(
        None, help="Bytes between two checkpoints of a download (default: 64MiB)."
    ),
    resume_only: bool = Option(
        False, "--resume-only", help="Fetch only what is in the cache or partly downloaded."
    ),
    check_inputs: bool = Option(
        False,
        "--check-inputs",
        help="Ask the servers whether pinned raw shards are unchanged; read every local one, "
        "also those whose size and times are as they were.",
    ),
    replace: bool = Option(
        False,
        "--replace",
        help="Read input files that changed again, under new numbers, and make what depends "
        "on them again (without it, they are refused).",
    ),
    remove: bool = Option(
        False,
        "--remove",
        help="Take the documents of raw shards that the recipe no longer names out of the "
        "corpus (without it, they are refused).",
    ),
    dry_run: bool = Option(
        False, "--dry-run", help="Show what a run would fetch, and how many bytes; change nothing."
    ),
    retry: bool = Option(
        False, "--retry", help="Keep trying a host that never answered (default: for four seconds)."
    ),
    allow_env: list[str] | None = Option(
        None, "--allow-env", help="An environment variable that the recipe may send to its hosts."
    ),
    allow_host: list[str] | None = Option(
        None,
        "--allow-host",
        help="A host that the recipe may send lines of a local list, or its output, to.",
    ),
    allow_missing: bool = Option(False, help="Record shards that fail as absent, and continue."),
    allow_code: bool = Option(
        False, "--allow-code", help="Run the custom filters of the recipe: package.module:Name."
    ),
    tokenizer: str | None = Option(None, help="gpt2, or the path or URL of a tokenizer."),
    preset: str = Option(
        "clean-small",
        help=f"For files, a preset: {', '.join(PRESETS)}.",
        autocompletion=among(PRESETS),
    ),
    as_json: Json = False,
) -> None:
    """Run a recipe: raw shards in, a verified corpus out.

    A second run does only what is not done. Exit codes: 0 done, 2 usage, 3 raw shards failed, 4
    verification failed, 5 disk, memory or permissions, 6 done and nothing was kept, 130
    interrupted.
    """
    settings = read_settings(set_)
    if shingle_width is not None:
        settings["deduplicate.near.shingle"] = str(shingle_width)
    loaded = _read(what, out, tokenizer, settings, preset, show=not as_json)
    fetching: Any = {
        "cache_dir": cache_dir,
        "connections": connections,
        "retry": retry,
        "allow_env": allow_env or (),
        "allow_hosts": allow_host or (),
        "plan_file": plan,
        "replace": replace,
        "remove": remove,
    }
    if dry_run:
        _preview(as_json, loaded, out=out, limit=limit, **fetching)
        return
    if engine == "local":
        load_and_fork(loaded)
    _run(
        as_json,
        loaded,
        out=out,
        workers=workers,
        engine=engine,
        limit=limit,
        until=until,
        shards=shards,
        allow_missing=allow_missing,
        allow_code=allow_code,
        resume_only=resume_only,
        check_inputs=check_inputs,
        checkpoint_bytes=parse_bytes("--checkpoint-bytes", checkpoint_bytes),
        cache_bytes=parse_bytes("--cache-bytes", cache_bytes),
        **fetching,
    )


def _read(
    what: list[str],
    out: Path | None,
    tokenizer: str | None,
    settings: dict[str, str],
    preset: str,
    *,
    show: bool,
) -> "Loaded":
    """Return the recipe in a file, or a preset's for files, which is printed if `show` is true.

    Raises RecipeError.
    """
    set_up_libraries()
    with without_collections():
        from gristmill.recipe import for_files, read_recipe

    if len(what) == 1 and what[0].endswith(".toml"):
        return read_recipe(Path(what[0]), tokenizer, settings, preset)
    if out is None:
        raise RecipeError(
            "files alone need --out DIR, the corpus' folder (the name of a recipe ends in .toml)"
        )
    if recipes := [name for name in what if name.endswith(".toml") and not is_scheme(name)]:
        raise RecipeError(f"{recipes[0]}: a recipe is the only argument: it names its files itself")
    loaded, text = for_files(what, tokenizer, settings, preset)
    if show:
        print_result(None, False, [f"# recipes/{preset}.toml", *text.split("\n")])
    return loaded


def load_and_fork(recipe: "Loaded | None" = None, rooms: Collection[str] = ()) -> None:
    """Load what a run takes, then fork what workers come from: so nothing is loaded twice. The
    recipe is that of the run, if it is known; `rooms` of kernels/ are needed whatever it says.
    """
    set_up_libraries()
    with without_collections():
        import gristmill.pipeline  # noqa: F401
        from gristmill.engine import server
        from gristmill.kernels.jit.build import prepare as compile_kernels
        from gristmill.recipe import kernel_names, own_code
        from gristmill.system.arrow_setup import without_pandas

    if recipe is not None and not own_code(recipe.recipe):
        without_pandas()
    # Here, before a phase is shown, whose time would seem to be that of compiling.
    compile_kernels({*rooms, *(kernel_names(recipe.recipe) if recipe is not None else ())})
    server.fork()
    let_go_of_code()  # what loading has read: the run reads little of it


def _run(as_json: bool, recipe: "Loaded", **options: Any) -> None:
    """Run a recipe with progress on the terminal; then print the funnel."""
    from gristmill.pipeline import run as run_recipe
    from gristmill.progress.terminal import Display

    ctrl_c = handle_ctrl_c()
    try:
        with Display(as_json) as display:
            funnel = run_recipe(recipe, show=ctrl_c.within(display.show), **options)
    except KeyboardInterrupt:
        print(
            "gristmill: interrupted; what is done is kept, run the same command again to go on",
            file=sys.stderr,
        )
        raise SystemExit(130) from None
    # All is done: the end of the interpreter is nothing to interrupt.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print_result(
        {"event": "funnel", **funnel.table, "rates": funnel.rates}, as_json, funnel.lines()
    )
    if funnel.table and not as_json:
        from gristmill.reports.next_steps import next_lines, next_lines_in_store
        from gristmill.user_input import output, store_url

        out, recipes = options["out"], recipe.recipe.output
        url = store_url(out or recipes)
        for line in (
            next_lines(output(out, recipes, recipe.folder))
            if url is None
            else next_lines_in_store(url)
        ):
            warn(line)
    if (said := funnel.nothing_kept()) is not None:
        from gristmill.reports.documents.reasons import remedy

        warn(f"gristmill: {'. '.join(filter(None, (said, remedy(funnel.worst()[0]))))}")
        raise SystemExit(KEPT_NOTHING)


def _preview(as_json: bool, recipe: "Loaded", **options: Any) -> None:
    """Show what a run would fetch, and how many bytes."""
    from gristmill.phases.inputs.fetch_preview import preview_lines
    from gristmill.pipeline import dry_run

    for row, line in preview_lines(dry_run(recipe, **options)):
        print_result(row, as_json, [line])
