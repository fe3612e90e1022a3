"""What a model learns of a banner in a fraction p of its documents.

    GRISTMILL_DATA=~/data python examples/does_cleaning_pay.py --out pay
    python examples/duplicated_banner.py --out pay

A textbook's experiment, with models: the documents are beginnings of those that
does_cleaning_pay.py has kept (filtered, without duplicates), and a banner is put at a line of a
fraction p of them. For each p a small model is trained on them for the same tokens: how well it
knows the banner (bits per byte of the banner, of which it is given the line end before it), and
what that costs on held-out text. `removed` is the same with [deduplicate.lines], which cuts lines
that more than --most documents have; the tokens that it saves are in the table by p. It leaves the
same text for every p, so one run a seed is for all of them.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import small_gpt
import torch
from small_gpt import Budget, Results

import gristmill
from gristmill import GristmillError, RecipeError, TokenCorpus, Tokenizer

BANNER = (
    "This website stores cookies on your device so that it works, remembers your choices and "
    "measures how you use it. Accept all of them, refuse those that are not necessary, or manage "
    "your preferences on our privacy page at any time."
)
FRACTIONS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
REMOVED = "removed"
RECIPE = """seed = 1
[[source]]
name = "web"
files = ["banner/p{p:g}.jsonl"]
{lines}[tokens]
tokenizer = "tokenizer.json"
validation = 0.0
"""
LINES = """[deduplicate]
exact = false
[deduplicate.lines]
most = {most}
least_characters = 40
"""


def beginnings(corpus: Path, count: int, size: int) -> list[str]:
    """The first lines of documents of a corpus, of about `size` characters, by their hashes.

    Raises RecipeError where there are too few.
    """
    texts = []
    for document in gristmill.Corpus(corpus).documents():
        taken: list[str] = []
        for line in document["text"].split("\n"):
            if sum(map(len, taken)) + len(line) > size and taken:
                break
            taken.append(line)
        texts.append("\n".join(taken)[: 2 * size])
    if len(texts) < count:
        raise RecipeError(f"{corpus} has {len(texts):,} documents, and --documents is {count:,}")
    return sorted(texts, key=lambda text: hashlib.blake2b(text.encode()).digest())[:count]


def with_banner(texts: list[str], p: float) -> list[str]:
    """Texts with the banner at a line of each of the first p of them, in an order by chance: a
    larger p adds banners and moves none.
    """
    random = np.random.default_rng(1)
    order, places = random.permutation(len(texts)), random.random(len(texts))
    out = list(texts)
    for number in order[: round(p * len(texts))].tolist():
        lines = texts[number].split("\n")
        lines.insert(int(places[number] * (len(lines) + 1)), BANNER)
        out[number] = "\n".join(lines)
    return out


def make_corpora(options: argparse.Namespace) -> tuple[dict[str, Path], dict[float, int]]:
    """The corpora by variant, and the tokens that are left for each p where lines are cut.

    Raises GristmillError where what is left is not the same for every p.
    """
    out = options.out
    texts = beginnings(out / "corpora/deduplicated", options.documents, options.size)
    most = options.most or max(2, options.documents // 200)
    found, left, digests = {}, {}, set()
    for p in FRACTIONS:
        path = out / f"banner/p{p:g}.jsonl"
        path.parent.mkdir(exist_ok=True)
        rows = (json.dumps({"text": text}) + "\n" for text in with_banner(texts, p))
        path.write_text("".join(rows), encoding="utf-8")
        for name, lines in ((f"p{p:g}", ""), (f"lines-p{p:g}", LINES.format(most=most))):
            recipe = out / f"banner-{name}.toml"
            recipe.write_text(RECIPE.format(p=p, lines=lines), encoding="utf-8")
            corpus = out / "banner" / name
            gristmill.run(recipe, out=corpus, cache_dir=out / "cache", workers=options.workers)
            found[name] = corpus
        stream = TokenCorpus.open(found[f"lines-p{p:g}"]).stream("web")
        left[p] = stream.tokens
        if round(p * len(texts)) > most:
            tokens = stream.read(0, stream.tokens).astype("<u2")
            digests.add(hashlib.sha256(tokens.tobytes()).hexdigest())
    if len(digests) > 1:
        raise GristmillError("the lines that are left differ between fractions of the banner")
    found[REMOVED] = found[f"lines-p{FRACTIONS[-1]:g}"]
    return found, left


def report(
    results: Results, corpora: dict[str, Path], left: dict[float, int], asked: argparse.Namespace
) -> list[str]:
    """The table, in Markdown."""
    budget = small_gpt.budget_of(asked)
    first = next(iter(results.runs.values()))
    seeds = len(results.values("p0"))
    size = len(BANNER.encode())
    made = (
        f"{asked.documents:,} documents, a banner of {size} bytes ({first['banner_tokens']} "
        f"tokens), {first['parameters']:,} parameters, {budget.tokens:,} tokens a run, {seeds} "
        f"seeds, {budget.device}, {small_gpt.versions()}."
    )
    heads = ("p", "tokens", "of which the banner", "left when lines are cut", "saved")
    judged = ("bits per byte of the banner", "of held-out text", "less p = 0")
    lines = [made, "", *small_gpt.heading((*heads, *judged))]
    plain = TokenCorpus.open(corpora["p0"]).stream("web").tokens
    for p in FRACTIONS:
        tokens = TokenCorpus.open(corpora[f"p{p:g}"]).stream("web").tokens
        cells = [f"{p:g}", f"{tokens:,}", f"{1 - plain / tokens:.2%}", f"{left[p]:,}"]
        cells.append(f"{1 - left[p] / tokens:.2%}")
        lines.append("| " + " | ".join([*cells, *figures(results, f"p{p:g}")]) + " |")
    cells = ["any, cut", f"{left[FRACTIONS[-1]]:,}", "0.00%", "", ""]
    lines.append("| " + " | ".join([*cells, *figures(results, REMOVED)]) + " |")
    return lines


def figures(results: Results, variant: str) -> list[str]:
    """The losses of a variant, for the table."""
    size = len(BANNER.encode())
    phrase = results.values(variant, lambda run: run["phrase"] / size)
    held = results.values(variant, lambda run: run["curve"][-1]["all"])
    before = results.values("p0", lambda run: run["curve"][-1]["all"])
    less = [one - other for one, other in zip(held, before, strict=False)]
    shown = [small_gpt.said(phrase), small_gpt.said(held)]
    return [*shown, "" if variant == "p0" else small_gpt.said(less, "+")]


def plot(results: Results, path: Path) -> None:
    """The banner's loss and the held-out loss against p."""
    from gristmill.mixing.plot import figure, write

    size = len(BANNER.encode())
    kinds: list[tuple[str, Any]] = [
        ("bits per byte of the banner", lambda run: run["phrase"] / size),
        ("bits per byte of held-out text", lambda run: run["curve"][-1]["all"]),
    ]
    drawn, panels = figure(2)
    for panel, (title, value) in zip(panels, kinds, strict=True):
        found = [small_gpt.interval(results.values(f"p{p:g}", value)) for p in FRACTIONS]
        means, halves = [mean for mean, _ in found], [half for _, half in found]
        panel.errorbar(FRACTIONS, means, yerr=halves, fmt="o-", markersize=3, label="as it is")
        mean, _ = small_gpt.interval(results.values(REMOVED, value))
        panel.axhline(mean, linestyle="--", color="C1", label="lines cut")
        panel.set_xscale("symlog", linthresh=0.01)
        panel.set_xlim(-0.002, 1.3)
        panel.set_xticks(FRACTIONS, [f"{p:g}" for p in FRACTIONS])
        panel.set_xlabel("p, fraction of documents with the banner")
        panel.set_ylabel(title)
    panels[0].legend()
    write(drawn, path)


def asked() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    small_gpt.arguments(parser, tokens=200_000)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--size", type=int, default=500, help="characters of a document, about")
    parser.add_argument("--most", type=int, help="documents a line may be in (default: 1 in 200)")
    parser.set_defaults(points=1)
    return parser.parse_args()


def main() -> None:
    """Make the corpora, train what is not trained yet, and report."""
    options = asked()
    budget: Budget = small_gpt.budget_of(options)
    tokenizer = Tokenizer(str(options.out / "tokenizer.json"))
    phrase = tokenizer.encode_text("\n" + BANNER).tolist()
    if len(phrase) > options.length + 1:
        raise RecipeError(f"--length {options.length}: the banner has {len(phrase):,} tokens")
    kept = {key: getattr(options, key) for key in ("documents", "size", "most", "vocabulary")}
    results = Results(options.out / "banner.json", {**budget._asdict(), **kept})
    corpora, left = make_corpora(options)
    held_out = options.out / "corpora/held_out"
    for seed in range(1, options.seeds + 1):
        for name in (*(f"p{p:g}" for p in FRACTIONS), REMOVED):
            if f"{name}/{seed}" not in results.runs:
                print(f"{name}, seed {seed}", flush=True)
                found = small_gpt.train(corpora[name], held_out, budget, seed, phrase=phrase)
                results.add(f"{name}/{seed}", found | {"banner_tokens": len(phrase) - 1})
    lines = report(results, corpora, left, options)
    print("\n".join(lines))
    if options.report is not None:
        small_gpt.write_section(options.report, "banner", lines)
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    try:
        main()
    except GristmillError as error:
        sys.exit(f"error: {error}")
