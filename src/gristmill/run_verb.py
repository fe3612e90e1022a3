"""The verb `gristmill run`: thin, as cli.py."""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.arguments import Json, bytes_of, settings_of
from gristmill.errors import RecipeError
from gristmill.terminal import hear_ctrl_c, say


def run(
    what: Annotated[
        list[str], typer.Argument(help="A recipe (.toml), or files, folders and URLs for a preset.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The corpus' folder (else the recipe's `output`).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: one a processor).")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="local, spark://host:port, or spark inside spark-submit: the same bytes."
        ),
    ] = "local",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A recipe key: tokens.validation=0.01, step.language.min_score=0.5."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="No more than N documents a source.")
    ] = None,
    shingle_width: Annotated[
        int | None, typer.Option(help="The recipe's deduplicate.near.shingle.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Stop after plan, fetch, process, deduplicate or tokenize.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Run a stored plan (a corpus' plan.json).")
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where fetched shards rest, shared by runs.")
    ] = None,
    cache_bytes: Annotated[
        str | None,
        typer.Option(help="No more of it than so much (200GB): what was used longest ago goes."),
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, help="Downloads at once (default: 8, 4 from one host).")
    ] = None,
    checkpoint_bytes: Annotated[
        str | None,
        typer.Option(help="Bytes between two checkpoints of a download (default: 64MiB)."),
    ] = None,
    resume_only: Annotated[
        bool,
        typer.Option("--resume-only", help="Fetch nothing that is neither in the cache nor begun."),
    ] = False,
    check_inputs: Annotated[
        bool,
        typer.Option(
            "--check-inputs", help="Ask whether pinned raw shards are still what they were."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be fetched, and how much; do nothing."),
    ] = False,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Wait for a host that does not answer at all (default: four seconds)."
        ),
    ] = False,
    allow_env: Annotated[
        list[str] | None,
        typer.Option("--allow-env", help="A variable that the recipe may send to its hosts."),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option(help="Record shards that fail as absent, and go on.")
    ] = False,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run the recipe's own filters: package.module:Name."),
    ] = False,
    tokenizer: Annotated[
        str | None, typer.Option(help="gpt2, or a tokenizer's path or URL.")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="For files: c4, clean-small, datatrove-0.10, fineweb-edu, fineweb-v1, gopher, lab."
        ),
    ] = "clean-small",
    as_json: Json = False,
) -> None:
    """Run a recipe: raw shards in, a verified corpus out.

    Running it again does only what is not done.
    """
    if not dry_run:
        from gristmill.engine.server import start

        start()
    from gristmill.pipeline import run as run_recipe
    from gristmill.recipe import for_files
    from gristmill.terminal import Display
    from gristmill.user_input import is_scheme

    settings = settings_of(set_) | (
        {"deduplicate.near.shingle": str(shingle_width)} if shingle_width is not None else {}
    )
    if len(what) == 1 and what[0].endswith(".toml"):
        recipe: Any = Path(what[0])
    else:
        recipe = what
        if out is None:
            raise RecipeError(
                "files alone need --out DIR, the corpus' folder (the name of a recipe ends "
                "in .toml)"
            )
        if recipes := [name for name in what if name.endswith(".toml") and not is_scheme(name)]:
            raise RecipeError(f"{recipes[0]}: a recipe stands alone, and names its files itself")
        if not as_json:
            text = for_files(what, tokenizer, settings, preset)[1]
            say(None, False, [f"# recipes/{preset}.toml", *text.split("\n")])
    fetching: Any = {
        "cache_dir": cache_dir,
        "connections": connections,
        "retry": retry,
        "allow_env": allow_env or (),
        "tokenizer": tokenizer,
        "plan_file": plan,
        "preset": preset,
    }
    if dry_run:
        _preview(as_json, recipe, out=out, settings=settings, limit=limit, **fetching)
        return
    ctrl_c = hear_ctrl_c()
    try:
        with Display(as_json) as display:
            funnel = run_recipe(
                recipe,
                out=out,
                workers=workers,
                engine=engine,
                settings=settings,
                limit=limit,
                until=until,
                allow_missing=allow_missing,
                allow_code=allow_code,
                resume_only=resume_only,
                check_inputs=check_inputs,
                checkpoint_bytes=bytes_of("--checkpoint-bytes", checkpoint_bytes),
                cache_bytes=bytes_of("--cache-bytes", cache_bytes),
                show=ctrl_c.within(display.show),
                **fetching,
            )
    except KeyboardInterrupt:
        print(
            "gristmill: interrupted; what is done is kept, run the same command again to go on",
            file=sys.stderr,
        )
        raise SystemExit(130) from None
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # all is done: the interpreter's end is nothing to interrupt
    say({"event": "funnel", **funnel.table, "rates": funnel.rates}, as_json, funnel.lines())


def _preview(as_json: bool, recipe: Any, **asked: Any) -> None:
    """Tell what a run would fetch, and how much."""
    from gristmill.phases.inputs.fetch import preview_lines
    from gristmill.pipeline import dry_run

    for told, line in preview_lines(dry_run(recipe, **asked)):
        say(told, as_json, [line])
