"""How many tokens and parameters a compute budget is best spent on, and what a corpus suffices for.

    C = 6 N D                    compute in FLOPs for N parameters and D tokens
    D = 20 N                     the rule of thumb
    L = E + A / N^a + B / D^b    a fitted law of the loss, least for a given C at
                                 N = G (C / 6)^(b / (a + b)),  D = C / (6 N),
                                 G = (a A / (b B))^(1 / (a + b))

The rule, C and the first law are of Hoffmann et al. 2022 (arXiv 2203.15556, the law is their
approach 3), the second law of Besiroglu et al. 2024 (arXiv 2404.10102), who fitted it to the same
runs again and found the first fit to be far off for large models. Repeated tokens are worth less
than new ones: Muennighoff et al. 2023 (arXiv 2305.16264).
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError

TOKENS_PER_PARAMETER = 20
FLOPS = 6  # of one parameter and one token
FEW_EPOCHS = 4  # repeated so often, tokens are nearly worth new ones (Muennighoff et al.)
# D' = U + U R* (1 - exp(-R / R*)), for U different tokens that are repeated R times more
# (Muennighoff et al., section 3.1 and appendix A).
REPEATED = 15.387756
# Values beyond which an answer means nothing.
PARAMETERS = (1e3, 1e16)
BUDGETS = (1e9, 1e36)
EPOCHS = (1e-3, 1e4)
# What Hoffmann et al. trained: 70 million to 16 billion parameters.
FITTED = (7e7, 1.6e10)


class Law(NamedTuple):
    """A fitted law of the loss; `offset` is its E, which does not move the optimum."""

    name: str
    offset: float
    a: float  # factor of the parameters' term
    b: float  # factor of the tokens' term
    alpha: float
    beta: float

    @property
    def _scale(self) -> float:
        ratio = self.alpha * self.a / (self.beta * self.b)
        return float(ratio ** (1.0 / (self.alpha + self.beta)))

    def parameters_of(self, flops: float) -> float:
        """Return the parameters on which a budget is best spent."""
        power = self.beta / (self.alpha + self.beta)
        return float(self._scale * (flops / FLOPS) ** power)

    def flops_of(self, parameters: float) -> float:
        """Return the compute budget (FLOPs) for which this number of parameters is optimal."""
        power = (self.alpha + self.beta) / self.beta
        return float(FLOPS * (parameters / self._scale) ** power)

    def flops_of_tokens(self, tokens: float) -> float:
        """Return the compute budget (FLOPs) for which this number of tokens is optimal."""
        power = (self.alpha + self.beta) / self.alpha
        return float(FLOPS * (self._scale * tokens) ** power)

    def loss(self, parameters: float, tokens: float) -> float:
        """Return the loss in nats a token, on the text and tokenizer that the law was fitted to."""
        return float(self.offset + self.a / parameters**self.alpha + self.b / tokens**self.beta)


# Not rounded, as the source of the paper has them and Besiroglu et al. quote them: the rounded ones
# of its text (1.69, 406.4, 410.7, 0.34, 0.28) give 1.6 times the tokens at 10 billion
# parameters.
HOFFMANN = Law(
    "Hoffmann et al. 2022, approach 3", 1.69337368, 406.401018, 410.722827, 0.33917084, 0.2849083
)
BESIROGLU = Law("Besiroglu et al. 2024", 1.8172, 482.01, 2085.43, 0.3478, 0.3658)
LAWS = (HOFFMANN, BESIROGLU)
RULE = f"{TOKENS_PER_PARAMETER} tokens a parameter"


def chinchilla(
    *,
    params: float | str | None = None,
    flops: float | str | None = None,
    corpus: Path | str | None = None,
    epochs: float | str | None = None,
) -> dict[str, Any]:
    """Compute-optimal tokens and parameters, for a model of `params` parameters or a budget of
    `flops`; and what the training tokens of `corpus` suffice for, read `epochs` times (default: 1).

    Numbers may be strings such as "1.3e9" or "1.3B". Raises RecipeError for numbers that make no
    sense, or nothing to answer.
    """
    if params is not None and flops is not None:
        raise RecipeError("--params and --flops: choose one; the other follows from it")
    if params is None and flops is None and corpus is None:
        raise RecipeError("nothing to answer: give --params, --flops or --corpus")
    if epochs is not None and corpus is None:
        raise RecipeError("--epochs: of which corpus? Give --corpus too")
    result: dict[str, Any] = {"params": None, "flops": None, "optimal": None, "corpus": None}
    if params is not None:
        result["params"] = number = parse_number("--params", params, PARAMETERS)
        result["optimal"] = _of_parameters(number)
    if flops is not None:
        result["flops"] = number = parse_number("--flops", flops, BUDGETS)
        result["optimal"] = _of_budget(number)
    if corpus is not None:
        opened = TokenCorpus.open(corpus)
        tokens = sum(opened.stream(source).tokens for source in opened.sources())
        times = 1.0 if epochs is None else parse_number("--epochs", epochs, EPOCHS)
        result["corpus"] = _of_corpus(tokens, times, result["optimal"])
    result["remarks"] = _remarks(result)
    return result


def parse_number(option: str, given: float | str, limits: tuple[float, float]) -> float:
    """Return a number such as 1.3e9, "1.3e9" or "1.3B" within limits. Raises RecipeError."""
    text = str(given).strip()
    factor = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}.get(text[-1:].lower(), 1.0)
    try:
        value = float(text[:-1] if factor > 1.0 else text) * factor
    except ValueError:
        raise RecipeError(f"{option} {text}: write a number, such as 1.3e9 or 1.3B") from None
    if not math.isfinite(value) or not limits[0] <= value <= limits[1]:
        raise RecipeError(f"{option} {text}: expected a number from {limits[0]:g} to {limits[1]:g}")
    return value


def _row(name: str, parameters: float, tokens: float) -> dict[str, Any]:
    return {
        "by": name,
        "parameters": parameters,
        "tokens": tokens,
        "flops": FLOPS * parameters * tokens,
        "tokens_per_parameter": tokens / parameters,
    }


def _of_parameters(parameters: float) -> list[dict[str, Any]]:
    """Return the tokens that a model is best trained on."""
    rows = [_row(RULE, parameters, TOKENS_PER_PARAMETER * parameters)]
    for law in LAWS:
        rows.append(_row(law.name, parameters, law.flops_of(parameters) / FLOPS / parameters))
    return rows


def _of_budget(flops: float) -> list[dict[str, Any]]:
    """Return the model and tokens on which a budget is best spent."""
    parameters = math.sqrt(flops / FLOPS / TOKENS_PER_PARAMETER)
    rows = [_row(RULE, parameters, TOKENS_PER_PARAMETER * parameters)]
    for law in LAWS:
        parameters = law.parameters_of(flops)
        rows.append(_row(law.name, parameters, flops / FLOPS / parameters))
    return rows


def _of_tokens(tokens: float) -> list[dict[str, Any]]:
    """Return the models for which this number of tokens is optimal."""
    rows = [_row(RULE, tokens / TOKENS_PER_PARAMETER, tokens)]
    for law in LAWS:
        rows.append(_row(law.name, law.parameters_of(law.flops_of_tokens(tokens)), tokens))
    return rows


def _of_corpus(tokens: int, epochs: float, optimal: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return what `tokens` training tokens suffice for."""
    figures: dict[str, Any] = {
        "train_tokens": tokens,
        "epochs": epochs,
        "read": tokens * epochs,
        "worth": worth(tokens, epochs),
        "suffices_for": _of_tokens(tokens * epochs) if tokens else [],
        "needed": None,
    }
    if optimal is not None and tokens:
        figures["needed"] = [
            {"by": row["by"], "epochs": row["tokens"] / tokens, "tokens": row["tokens"]}
            for row in optimal
        ]
    return figures


def worth(tokens: float, epochs: float) -> float:
    """Return how many new tokens `tokens` are worth that are read `epochs` times."""
    if epochs <= 1.0:
        return tokens * epochs
    return tokens + tokens * REPEATED * -math.expm1((1.0 - epochs) / REPEATED)


def _remarks(result: dict[str, Any]) -> list[str]:
    remarks = []
    corpus = result["corpus"]
    rows = [*(result["optimal"] or []), *(corpus["suffices_for"] if corpus else [])]
    if any(not FITTED[0] <= row["parameters"] <= FITTED[1] for row in rows):
        remarks.append(
            "the laws were fitted to models of 70 million to 16 billion parameters: beyond them "
            "they extrapolate, and differ"
        )
    epochs = []
    if corpus:
        epochs = [corpus["epochs"], *(row["epochs"] for row in corpus["needed"] or [])]
    if any(count > FEW_EPOCHS for count in epochs):
        remarks.append(
            f"more than {FEW_EPOCHS} epochs: up to {FEW_EPOCHS}, repeated tokens are nearly worth "
            "new ones; beyond, ever less (Muennighoff et al. 2023, arXiv 2305.16264)"
        )
    elif any(count > 1.0 for count in epochs):
        remarks.append(
            f"up to {FEW_EPOCHS} epochs repeated tokens are nearly worth new ones (Muennighoff et "
            "al. 2023, arXiv 2305.16264)"
        )
    return remarks


def lines(result: dict[str, Any]) -> list[str]:
    """For people."""
    out = []
    if result["optimal"] is not None:
        what = (
            f"a model of {_short(result['params'])} parameters"
            if result["params"] is not None
            else f"a budget of {result['flops']:.3g} FLOPs"
        )
        out += [f"compute-optimal for {what}", *_table(result["optimal"])]
    corpus = result["corpus"]
    if corpus is not None:
        out += [""] if out else []
        read = f"{corpus['train_tokens']:,} training tokens"
        if corpus["epochs"] != 1.0:
            read += (
                f", {corpus['epochs']:g} epochs: {_short(corpus['read'])} tokens read, worth "
                f"{_short(corpus['worth'])} new ones"
            )
        out.append(f"the corpus: {read}")
        if corpus["suffices_for"]:
            out += ["it suffices for", *_table(corpus["suffices_for"])]
        if corpus["needed"] is not None:
            out.append("epochs that the model above needs")
            out += [f"  {row['by']:<34}{row['epochs']:>14,.2f}" for row in corpus["needed"]]
    return out + [f"note: {remark}" for remark in result["remarks"]]


def _table(rows: list[dict[str, Any]]) -> list[str]:
    head = f"  {'by':<34}{'parameters':>12}{'tokens':>12}{'tokens/param.':>15}{'FLOPs':>12}"
    return [head] + [
        f"  {row['by']:<34}{_short(row['parameters']):>12}{_short(row['tokens']):>12}"
        f"{row['tokens_per_parameter']:>15,.1f}{row['flops']:>12.2e}"
        for row in rows
    ]


def _short(number: float) -> str:
    """1300000000 as 1.3B."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:,.4g}{letter}" if number < 1e4 * size else f"{number:.3g}"
    return f"{number:.4g}"
