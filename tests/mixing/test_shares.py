"""Shares of sources by each rule, and what a recipe's `[mix]` may say."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.mixing.shares import compute_shares
from gristmill.recipe.mix_settings import Shares
from gristmill.recipe.recipe import parse
from tests.support import strategies

TOKENS = {"web": 9000, "code": 900, "books": 100}
supplies = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 10**12), min_size=1)


def naive_unimax(tokens: dict[str, int], budget: int, most: Fraction) -> dict[str, Fraction]:
    """Chung et al. 2023, algorithm 1, in exact numbers."""
    left, shares = Fraction(budget), {}
    names = sorted(tokens, key=lambda name: (tokens[name], name))
    for done, name in enumerate(names):
        equal = left / (len(names) - done)
        shares[name] = min(equal, most * tokens[name])
        left -= shares[name]
    return {name: value / sum(shares.values()) for name, value in shares.items()}


@strategies.fuzz(100)
@given(supplies, st.integers(1, 16), st.data())
def test_fuzz_unimax(tokens: dict[str, int], most: int, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, most * sum(tokens.values())))
    found = compute_shares(Shares(rule="unimax", max_epochs=most), tokens, budget)
    wanted = naive_unimax(tokens, budget, Fraction(most))
    assert found == pytest.approx({name: float(share) for name, share in wanted.items()})
    for name, share in found.items():
        assert share * budget <= most * tokens[name] * (1 + 1e-9)


@strategies.fuzz(100)
@given(supplies, st.floats(0.3, 100.0))
def test_fuzz_temperature(tokens: dict[str, int], temperature: float) -> None:
    rule = Shares(temperature=temperature)
    found = compute_shares(rule, tokens)
    assert math.fsum(found.values()) == pytest.approx(1)
    total = sum(count ** (1 / temperature) for count in tokens.values())
    wanted = {name: count ** (1 / temperature) / total for name, count in tokens.items()}
    assert found == pytest.approx(wanted)
    backwards = dict(reversed(tokens.items()))
    assert compute_shares(rule, backwards) == pytest.approx(found)


def test_rules_by_hand() -> None:
    assert compute_shares(Shares(), TOKENS) == {"web": 0.9, "code": 0.09, "books": 0.01}
    assert compute_shares(Shares(temperature=1.0), TOKENS) == pytest.approx(
        compute_shares(Shares(), TOKENS)
    )
    hot = compute_shares(Shares(temperature=1e6), TOKENS)
    assert hot == pytest.approx(dict.fromkeys(TOKENS, 1 / 3), rel=1e-4)
    # The lesson's mix, and the same in percent.
    lesson = {"web": 50.0, "code": 37.0, "books": 13.0}
    assert compute_shares(Shares(weights=lesson), TOKENS) == {
        "web": 0.5,
        "code": 0.37,
        "books": 0.13,
    }
    targets = Shares(targets={"code": 300, "books": 100})
    assert compute_shares(targets, TOKENS) == {"web": 0.0, "code": 0.75, "books": 0.25}


def test_a_name_means_its_parts() -> None:
    tokens = {"web~science": 300, "web~sport": 100, "code": 100, "webs": 50}
    assert compute_shares(Shares(weights={"web": 0.8, "code": 0.2}), tokens) == pytest.approx(
        {"web~science": 0.6, "web~sport": 0.2, "code": 0.2, "webs": 0.0}
    )
    with pytest.raises(RecipeError, match=r"web~sport is named twice, as 'web' and as 'web~sport'"):
        compute_shares(Shares(weights={"web": 0.5, "web~sport": 0.5}), tokens)


@pytest.mark.parametrize(
    ("given_mix", "said"),
    [
        ("weights = {web = 0.5, code = 0.4}", "weights are shares that sum to 1 (or to 100)"),
        ("weights = {web = -1}", "Expected `float` >= 0.0"),
        ("weights = {web = nan}", "Expected `float` >= 0.0"),
        ("temperature = 0", "Expected `float` > 0.0"),
        ("temperature = 2\nweights = {web = 1}", "weights"),
        ('rule = "unimax"', 'rule = "unimax" needs max_epochs'),
        ('rule = "weights"', 'rule = "weights" needs weights'),
        ('rule = "proportional"\nweights = {web = 1}', 'weights is not for rule = "proportional"'),
        ("targets = {}", "targets names no source"),
        ("targets = {web = 0}", "Expected `int` >= 1"),
        ("weigths = {web = 1}", "did you mean 'weights'?"),
        ("[[mix.stage]]\ntokens = 5", "missing required field `name`"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(given_mix: str, said: str) -> None:
    text = f'[[source]]\nname = "web"\nfiles = ["x.jsonl"]\n[mix]\n{given_mix}\n'
    with pytest.raises(RecipeError, match=re.escape(said)):
        parse(text, "recipe.toml")


@pytest.mark.parametrize(
    ("rule", "tokens", "said"),
    [
        (Shares(weights={"wbe": 1.0}), TOKENS, "no source 'wbe'; did you mean 'web'?"),
        (Shares(weights={"web~art": 1.0}), {"web~news": 5}, "there is no source 'web~art'"),
        (Shares(weights={"web": 1.0}), {"web": 0, "code": 5}, "source 'web' has no tokens"),
        (Shares(), {"web": 0}, "no source has tokens"),
        (Shares(weights={"web": 0.0, "code": 1.0}), {"web": 1, "code": 0}, "'code' has no tokens"),
    ],
)
def test_sources_that_cannot_supply(rule: Shares, tokens: dict[str, int], said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        compute_shares(rule, tokens)


def test_unimax_beyond_the_supply() -> None:
    with pytest.raises(RecipeError, match="all sources read 2 times have 20,000"):
        compute_shares(Shares(rule="unimax", max_epochs=2.0), TOKENS, 20_001)
