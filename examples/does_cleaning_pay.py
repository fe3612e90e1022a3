r"""Does cleaning pay? The same small model, for the same tokens, on raw and on cleaned text.

    GRISTMILL_DATA=~/data python examples/does_cleaning_pay.py --out pay
    python examples/does_cleaning_pay.py --out pay --tokens 100000000 --parameters 30000000 \
        --device cuda

Each variant is a recipe that this script writes and runs; each but the last adds one thing to the
one before it:

    raw            the whole text of the pages, with menus, banners and copies
    filtered       main text, English alone, the rules of Gopher for quality and for repetition
    deduplicated   ... without exact and near duplicates
    perplexity     ... without the fifth of the documents that a bigram model of Wikipedia finds
                   most surprising
    mixed          `deduplicated` and books, by fixed weights of the recipe's [mix]

The text is real (crawled_pages.py). A model is judged by bits per byte of held-out text that is in
none of the corpora: documents that share a fifth of a held-out text's 13-grams are removed from
every variant, from `raw` as well. Seeds decide the first parameters and the order of windows;
differences are between runs of one seed. Finished runs are kept in results.json: started again, the
script goes on with the next one.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import crawled_pages
import small_gpt
import torch
from small_gpt import Budget, Results

import gristmill
from gristmill import GristmillError, RecipeError, TokenCorpus, mix

EXTRACTED = ("pages", "manuals")  # the sources that are HTML
WEB = ("pages", "government", "manuals", "postgresql")
WHOLE = f"""[[step]]
use = "extract"
main_content = false
sources = {list(EXTRACTED)}
"""
MAIN = f"""[[step]]
use = "extract"
rules = "gristmill"
sources = {list(EXTRACTED)}
"""
APART = """[[step]]
use = "decontaminate"
ngram = 13
threshold = 0.2
[[step.benchmarks]]
name = "articles"
file = "inputs/held_out/articles.jsonl"
fields = ["text"]
[[step.benchmarks]]
name = "manuals"
file = "inputs/held_out/manuals.jsonl"
fields = ["text"]
[[step.benchmarks]]
name = "prose"
file = "inputs/held_out/prose.jsonl"
fields = ["text"]
"""
FILTERS = """[[step]]
use = "language"
keep = ["en"]
[[step]]
use = "repetition"
rules = "datatrove-0.10"
[[step]]
use = "gopher"
rules = "datatrove-0.10"
"""
PERPLEXITY = """[[step]]
use = "perplexity"
model = "wikipedia.model"
drop_highest = 0.2
"""
NEAR = """[deduplicate]
exact = true
near = {}
"""
MIX = """[mix]
tokens = %d
sequence_length = %d
batch_size = %d
weights = { pages = 0.30, government = 0.05, manuals = 0.15, postgresql = 0.15, books = 0.35 }
"""
# Of each variant: the sources, and what its recipe has beside them.
VARIANTS = {
    "raw": (WEB, WHOLE + APART),
    "filtered": (WEB, MAIN + APART + FILTERS),
    "deduplicated": (WEB, MAIN + APART + FILTERS + NEAR),
    "perplexity": (WEB, MAIN + APART + FILTERS + PERPLEXITY + NEAR),
    "mixed": ((*WEB, "books"), MAIN + APART + FILTERS + NEAR),
}
BEFORE = {
    "filtered": "raw",
    "deduplicated": "filtered",
    "perplexity": "deduplicated",
    "mixed": "deduplicated",
}
HELD_OUT = {name: [f"inputs/held_out/{name}.jsonl"] for name in ("articles", "manuals", "prose")}


def recipe(files: dict[str, list[str]], sources: Sequence[str], steps: str, tokens: bool) -> str:
    """The text of a recipe."""
    named = "".join(f'[[source]]\nname = "{name}"\nfiles = {files[name]}\n' for name in sources)
    end = '[tokens]\ntokenizer = "tokenizer.json"\nvalidation = 0.0\n' if tokens else ""
    return f"seed = 1\n{named}{steps}{end}"


def make(out: Path, name: str, text: str, workers: int) -> Path:
    """Write a recipe and run it; a corpus that is there is left as it is."""
    path = out / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    print(f"corpus {name}", flush=True)
    gristmill.run(path, out=out / "corpora" / name, cache_dir=out / "cache", workers=workers)
    return out / "corpora" / name


def make_corpora(options: argparse.Namespace, variants: Sequence[str]) -> dict[str, Path]:
    """The corpora of the variants and of the held-out text, made where they are not there."""
    out, workers = options.out, options.workers
    files = crawled_pages.write_inputs(
        options.data, out / "inputs", options.one_in, options.extractor
    )
    files = {
        name: [one if one.startswith("/") else f"inputs/{one}" for one in found]
        for name, found in files.items()
    }
    if not (out / "tokenizer.json").is_file():
        # Of the raw text: what one has before cleaning.
        text = make(out, "untokenized", recipe(files, WEB, WHOLE + APART, tokens=False), workers)
        gristmill.train_tokenizer(
            [text], out / "tokenizer.json", vocabulary=options.vocabulary, workers=workers
        )
    if not (out / "wikipedia.model").is_file():
        wikipedia = [out / "inputs/wikipedia.txt"]
        gristmill.train_perplexity(wikipedia, out / "wikipedia.model", order=2)
    found = {"held_out": make(out, "held_out", recipe(HELD_OUT, list(HELD_OUT), "", True), workers)}
    for name in variants:
        sources, steps = VARIANTS[name]
        more = MIX % (options.tokens, options.length, options.batch) if name == "mixed" else ""
        found[name] = make(out, name, recipe(files, sources, steps + more, tokens=True), workers)
    return found


def sizes(corpora: dict[str, Path]) -> dict[str, dict[str, int]]:
    """The documents and tokens of each source of the corpora."""
    found = {}
    for name, path in corpora.items():
        opened = TokenCorpus.open(path)
        found[name] = {source: opened.stream(source).tokens for source in opened.sources()}
    return found


def report(results: Results, corpora: dict[str, dict[str, int]], budget: Budget) -> list[str]:
    """The tables, in Markdown."""
    variants = [name for name in VARIANTS if results.values(name)]
    first = next(iter(results.runs.values()))
    held = list(HELD_OUT)
    seeds = len(results.values(variants[0]))
    made = (
        f"{first['parameters']:,} parameters, {budget.steps * budget.length * budget.batch:,} "
        f"tokens a run in {budget.steps:,} steps of {budget.batch} windows of {budget.length}, "
        f"{seeds} seeds a variant, {budget.device}, {small_gpt.versions()}."
    )
    heads = ("variant", "tokens of the corpus", "epochs of a run", "by source")
    lines = [made, "", *small_gpt.heading(heads)]
    for name in variants:
        total = sum(corpora[name].values())
        parts = ", ".join(f"{source} {count:,}" for source, count in corpora[name].items())
        lines.append(f"| {name} | {total:,} | {budget.tokens / total:.2f} | {parts} |")
    said = (
        "Bits per byte of held-out text at the end: means with intervals of 95 % over seeds; the "
        "differences are between runs of one seed, below 0 where the variant is better."
    )
    heads = ("variant", *held, "mean", "less raw", "less the variant before")
    lines += ["", said, "", *small_gpt.heading(heads)]
    end = {name: [row(results, name, key) for key in (*held, "all")] for name in variants}
    for name in variants:
        cells = [small_gpt.said(values) for values in end[name]]
        for other in ("raw", BEFORE.get(name, "")):
            cells.append(compared(end, name, other))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "The mean over held-out sources by tokens read:", ""]
    reads = [point["tokens"] for point in first["curve"]]
    lines += small_gpt.heading(("variant", *(f"{count:,}" for count in reads)))
    for name in variants:
        means = [
            small_gpt.said(results.values(name, lambda run, at=at: run["curve"][at]["all"]))
            for at in range(len(reads))
        ]
        lines.append(f"| {name} | {' | '.join(means)} |")
    return [*lines, "", *verdicts(end)]


def row(results: Results, variant: str, key: str) -> list[float]:
    """A figure at the end of each seed's run."""
    return results.values(variant, lambda run: run["curve"][-1][key])


def compared(end: dict[str, list[list[float]]], name: str, other: str) -> str:
    """The difference of two variants' means, by seed."""
    if other not in end or other == name:
        return ""
    pairs = zip(end[name][-1], end[other][-1], strict=False)
    return small_gpt.said([one - two for one, two in pairs], "+")


def verdicts(end: dict[str, list[list[float]]]) -> list[str]:
    """What the differences say of each step, by their intervals."""
    lines = []
    for name, other in BEFORE.items():
        if name not in end or other not in end:
            continue
        said = []
        for place, key in enumerate((*HELD_OUT, "the mean")):
            pairs = zip(end[name][place], end[other][place], strict=False)
            mean, half = small_gpt.interval([one - two for one, two in pairs])
            word = "better" if mean + half < 0 else "worse" if mean - half > 0 else "no difference"
            said.append(f"{key} {word}")
        lines.append(f"* `{name}` against `{other}`: {', '.join(said)}.")
    return lines


def plot(results: Results, path: Path) -> None:
    """Held-out bits per byte by tokens, with intervals."""
    from gristmill.mixing.plot import figure, write

    drawn, panels = figure(2)
    for name in VARIANTS:
        runs = results.values(name)
        if not runs:
            continue
        reads = [point["tokens"] for point in runs[0]["curve"]]
        for panel, keys in zip(panels, (("all",), ("articles",)), strict=True):
            found = [
                small_gpt.interval(
                    [sum(run["curve"][at][key] for key in keys) / len(keys) for run in runs]
                )
                for at in range(len(reads))
            ]
            means = [mean for mean, _ in found]
            panel.plot(reads, means, "o-", markersize=3, label=name)
            low = [mean - half for mean, half in found]
            panel.fill_between(reads, low, [mean + half for mean, half in found], alpha=0.2)
    for panel, title in zip(panels, ("all held-out text", "articles"), strict=True):
        panel.set_title(title)
        panel.set_xlabel("tokens read")
        panel.set_ylabel("bits per byte")
    panels[0].legend()
    write(drawn, path)


def asked() -> argparse.Namespace:
    """The words of the command line, checked. Raises RecipeError."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    small_gpt.arguments(parser, tokens=600_000)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--one-in", type=int, default=4, help="of manuals, one page in N")
    parser.add_argument(
        "--extractor",
        choices=("resiliparse", "trafilatura", "gristmill"),
        default="resiliparse",
        help="of the held-out manuals",
    )
    parser.add_argument("--section", default="variants", help="of the page for --report")
    options = parser.parse_args()
    if unknown := [name for name in options.variants if name not in VARIANTS]:
        raise RecipeError(f"no variant {unknown[0]!r}; there are {', '.join(VARIANTS)}")
    return options


def main() -> None:
    """Make the corpora, train what is not trained yet, and report."""
    options = asked()
    budget = small_gpt.budget_of(options)
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(
        options.out / "results.json",
        {
            **budget._asdict(),
            "one_in": options.one_in,
            "vocabulary": options.vocabulary,
            "extractor": options.extractor,
        },
    )
    corpora = make_corpora(options, options.variants)
    for seed in range(1, options.seeds + 1):
        for name in options.variants:
            if (key := f"{name}/{seed}") in results.runs:
                continue
            print(f"{name}, seed {seed}", flush=True)
            plan = None
            if name == "mixed":
                plan = options.out / f"plan-{seed}.json"
                mix(options.out / "mixed.toml", corpus=corpora[name], plan=plan, seed=seed)
            found = small_gpt.train(corpora[name], corpora["held_out"], budget, seed, plan=plan)
            results.add(key, found)
    lines = report(results, sizes(corpora), budget)
    print("\n".join(lines))
    if options.report is not None:
        small_gpt.write_section(options.report, options.section, lines)
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    try:
        main()
    except GristmillError as error:
        sys.exit(f"error: {error}")
