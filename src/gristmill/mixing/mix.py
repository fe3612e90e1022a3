"""What a recipe's `[mix]` reads of each source, stage by stage, and the loader's plan that does it.

    found = mix("recipe.toml")                     tokens and epochs of each source
    found = mix("recipe.toml", plan="plan.json")   and the plan for `Loader(corpus, plan=...)`

The tokens of sources are those of the finished corpus. Before there is one, they are what the
recipe promises (`target_tokens`, `target_shards`) or what the caller says.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.parameters import MOST_WINDOWS, whole_number
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import opened
from gristmill.mixing.shares import compute_shares
from gristmill.recipe import Recipe
from gristmill.recipe.mix_settings import Mix, MixStage, Shares
from gristmill.recipe.recipe import load
from gristmill.tokens.partitions import partition_source

FIRST = "train"  # the name of the first stage
SLACK = 1e-9  # of a limit of epochs, for rounding


class Stage(NamedTuple):
    """A stage of training, with what it reads."""

    name: str
    rule: Shares
    sequence_length: int
    batch_size: int
    steps: int
    budget: int  # the tokens that were asked for
    shares: dict[str, float]

    @property
    def tokens(self) -> int:
        """Return the tokens that it reads: the budget, rounded to whole steps."""
        return self.steps * self.batch_size * self.sequence_length


def mix(
    recipe: Path | str,
    *,
    corpus: Path | str | None = None,
    supply: Mapping[str, int] | None = None,
    plan: Path | str | None = None,
    seed: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Return tokens and epochs of each source by the `[mix]` of a recipe; writes a loader's plan.

    `corpus` is its folder (default: the recipe's `output`). `supply` are the tokens of sources that
    have none yet. `plan` is the file of the loader's plan to write, for which the corpus must be
    finished; its seed is `seed` (default: the recipe's), and with `force` it replaces a file that
    is no plan. The answer has `supply` ({source:
    tokens}), `known_by` (corpus, or recipe), `stages` (each with `name`, `rule`, `tokens`, `steps`,
    `sequence_length`, `batch_size`, and `sources`, each with `share`, `tokens`, `epochs`), `total`
    ({source: {tokens, epochs}}) and `plan`.

    Raises RecipeError for a mix that cannot be, VerificationError for a damaged corpus.
    """
    tokens, token_corpus, read = read_supply(recipe, corpus, supply)
    if read.mix is None:
        raise RecipeError(f"{recipe}: no [mix]: say the shares of its sources in one")
    stages = make_stages(read.mix, tokens)
    if plan is not None:
        if token_corpus is None:
            raise RecipeError(
                f"a loader's plan is of a finished corpus, and {recipe} has none: run it first, or "
                "name the corpus with --corpus"
            )
        plan_stages(stages, token_corpus, read.seed if seed is None else seed).save(
            plan, force=force
        )
    return {
        "corpus": None if token_corpus is None else str(token_corpus.root),
        "known_by": "recipe" if token_corpus is None else "corpus",
        "supply": tokens,
        "stages": [_stage_table(stage, tokens) for stage in stages],
        "total": {
            name: {"tokens": read, "epochs": read / tokens[name] if tokens[name] else 0.0}
            for name, read in _read(stages, tokens).items()
        },
        "plan": None if plan is None else str(plan),
    }


def make_stages(settings: Mix, tokens: Mapping[str, int]) -> list[Stage]:
    """Return the stages of a mix over sources with these tokens.

    Raises RecipeError where a source cannot supply what a rule asks for.
    """
    stages: list[Stage] = []
    length, batch = settings.sequence_length, settings.batch_size
    all_stages: list[Mix | MixStage] = [settings, *settings.stage]
    for rule in all_stages:
        name = FIRST if isinstance(rule, Mix) else rule.name
        length = rule.sequence_length or length
        batch = rule.batch_size or batch
        budget = rule.tokens or (sum(rule.targets.values()) if rule.targets else None)
        if budget is None and not isinstance(rule, Mix):
            raise RecipeError(f"mix: stage {name!r} says no tokens: how long is it?")
        if rule.targets and rule.tokens and rule.tokens != sum(rule.targets.values()):
            raise RecipeError(
                f"mix: stage {name!r}: tokens = {rule.tokens:,}, and its targets are "
                f"{sum(rule.targets.values()):,}: leave tokens out"
            )
        shares = compute_shares(rule, tokens, budget)
        budget = budget or _most_tokens(rule, shares, tokens)
        if budget < length * batch:
            raise RecipeError(
                f"mix: stage {name!r} reads {budget:,} tokens, less than one step of {batch:,} "
                f"windows of {length:,}: lower batch_size or sequence_length"
            )
        steps = round(budget / (length * batch))
        if steps * batch > MOST_WINDOWS:
            raise RecipeError(f"mix: stage {name!r}: more than {MOST_WINDOWS:,} windows")
        stages.append(Stage(name, rule, length, batch, steps, budget, shares))
        _check_supply(stages, tokens)
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        raise RecipeError(f"mix: two stages have one name; the first one is called {FIRST!r}")
    return stages


def plan_stages(stages: list[Stage], corpus: TokenCorpus | Path | str, seed: int) -> LoaderPlan:
    """Return the loader's plan of stages: a segment each, in order. Raises RecipeError."""
    corpus = opened(corpus)
    first = stages[0]
    made = LoaderPlan.start(
        corpus,
        sequence_length=first.sequence_length,
        batch_size=first.batch_size,
        seed=seed,
        weights=first.shares,
    )
    window = first.steps * first.batch_size
    for stage in stages[1:]:
        made = made.changed(
            corpus,
            from_window=window,
            weights=stage.shares,
            sequence_length=stage.sequence_length,
            batch_size=stage.batch_size,
        )
        window += stage.steps * stage.batch_size
    return made


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return what `mix` found, for people."""
    width = max(len(name) for name in (*found["supply"], "source"))
    out = []
    for stage in found["stages"]:
        out.append(
            f"{stage['name']}: {stage['tokens']:,} tokens in {stage['steps']:,} steps of "
            f"{stage['batch_size']:,} x {stage['sequence_length']:,} ({stage['rule']})"
        )
        out.append(f"  {'source':{width}}  {'share':>8}  {'tokens':>18}  {'epochs':>8}")
        for name, row in stage["sources"].items():
            out.append(
                f"  {name:{width}}  {row['share']:8.4f}  {row['tokens']:18,}  {row['epochs']:8.2f}"
            )
    if len(found["stages"]) > 1:
        out.append("all stages:")
        for name, row in found["total"].items():
            out.append(f"  {name:{width}}  {'':8}  {row['tokens']:18,}  {row['epochs']:8.2f}")
    if found["known_by"] == "recipe":
        out.append("Tokens of sources are those that the recipe promises: there is no corpus yet.")
    if found["plan"] is not None:
        out.append(f"{found['plan']} is written: Loader(corpus, plan={found['plan']!r})")
    return out


def read_supply(
    recipe: Path | str, corpus: Path | str | None, supply: Mapping[str, int] | None
) -> tuple[dict[str, int], TokenCorpus | None, Recipe]:
    """Return the tokens of each source of a recipe, its corpus if that is finished, and the recipe.

    Raises RecipeError where they are not known.
    """
    loaded = load(Path(recipe))
    root = loaded.folder / loaded.recipe.output if loaded.recipe.output else None
    if corpus is not None:
        root = Path(corpus)
    finished = root is not None and Corpus(root).finished() is not None
    token_corpus = TokenCorpus.open(root) if root is not None and (finished or corpus) else None
    return _tokens(loaded.recipe, token_corpus, supply, str(recipe)), token_corpus, loaded.recipe


def find_corpus(path: Path | str) -> Path:
    """Return the folder of a corpus: the path, or the output of the recipe that it is.

    Raises RecipeError for a recipe without an output.
    """
    path = Path(path)
    if not path.is_file():
        return path
    loaded = load(path)
    if loaded.recipe.output is None:
        raise RecipeError(f"{path}: it has no output: name the folder of its corpus")
    return loaded.folder / loaded.recipe.output


def _tokens(
    recipe: Recipe, corpus: TokenCorpus | None, supply: Mapping[str, int] | None, name: str
) -> dict[str, int]:
    """Return the tokens of each source."""
    if corpus is not None:
        if supply:
            raise RecipeError(f"{corpus.root} is finished: its tokens are known, and not given")
        return {source: corpus.stream(source).tokens for source in corpus.sources()}
    targets = recipe.targets()
    given = {key: whole_number(key, value) for key, value in (supply or {}).items()}
    # A part of a source is given by its whole name, web~science.
    names = [source.name for source in recipe.source if source.enabled]
    if unknown := [key for key in given if partition_source(key) not in names]:
        raise RecipeError(
            f"{name}: there is no source {unknown[0]!r}; there are {', '.join(names)}"
        )
    counts: dict[str, int] = {}
    for source in names:
        parts = {key: value for key, value in given.items() if partition_source(key) == source}
        if not parts and source not in targets:
            raise RecipeError(
                f"{name}: how many tokens source {source!r} has is known when its corpus is "
                f"finished. Run the recipe, give the source target_tokens, or say --supply "
                f"{source}=N"
            )
        counts |= parts or {source: targets[source]}
    return counts


def _most_tokens(rule: Shares, shares: Mapping[str, float], tokens: Mapping[str, int]) -> int:
    """Return the most tokens that can be read by these shares with no source read more often than
    the rule allows (once, if it says nothing).
    """
    most = rule.max_epochs or 1.0
    return math.floor(
        min(most * tokens[name] / share for name, share in shares.items() if share > 0)
    )


def _check_supply(stages: list[Stage], tokens: Mapping[str, int]) -> None:
    """Refuse a stage in which a source is read more often than its rule allows."""
    stage = stages[-1]
    most = stage.rule.max_epochs
    if most is None and stage.rule.kind == "targets":
        most = 1.0
    if most is None:
        return
    for name in tokens:
        asked = math.fsum(entry.shares[name] * entry.budget for entry in stages)
        if stage.shares[name] and asked > most * tokens[name] * (1 + SLACK) + 1:
            raise RecipeError(
                f"mix: source {name!r} cannot supply what stage {stage.name!r} asks for: "
                f"{asked:,.0f} tokens in all, and it has {tokens[name]:,}, to be read at most "
                f"{most:g} times (max_epochs). Lower its share or the stage's tokens, or raise "
                "max_epochs"
            )


def _read(stages: list[Stage], tokens: Mapping[str, int]) -> dict[str, int]:
    """Return the tokens of each source that the stages read."""
    return {
        name: round(math.fsum(stage.shares[name] * stage.tokens for stage in stages))
        for name in tokens
    }


def _stage_table(stage: Stage, tokens: Mapping[str, int]) -> dict[str, Any]:
    rule = {
        key: value
        for key, value in msgspec.to_builtins(stage.rule).items()
        if key in ("temperature", "max_epochs") and value is not None
    }
    said = ", ".join([stage.rule.kind, *(f"{key} = {value:g}" for key, value in rule.items())])
    read = _read([stage], tokens)
    return {
        "name": stage.name,
        "rule": said,
        "tokens": stage.tokens,
        "steps": stage.steps,
        "sequence_length": stage.sequence_length,
        "batch_size": stage.batch_size,
        "sources": {
            name: {
                "share": stage.shares[name],
                "tokens": read[name],
                "epochs": read[name] / tokens[name] if tokens[name] else 0.0,
            }
            for name in tokens
        },
    }
