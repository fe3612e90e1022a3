"""`gristmill mix fit`: the two files, the laws, the best mix under limits, how sure it is."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.mixing.fit import fit_mix, lines
from gristmill.mixing.runs import read_runs
from gristmill.mixing.search import within
from tests.support import strategies

SOURCES = ["web", "code", "books", "math"]
# Of y = 2 + exp(t . x): code helps the one, books the other.
SLOPES = {"code_bpb": [0.2, -1.5, 0.4, 0.3], "text_bpb": [0.1, 0.5, -1.2, 0.4]}


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """A CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def swarm(
    folder: Path,
    runs: int,
    noise: float,
    slopes: Mapping[str, Sequence[float]] = SLOPES,
    seed: int = 7,
) -> tuple[Path, Path]:
    """The two files of a swarm whose metrics follow the law, and noise."""
    random = np.random.default_rng(seed)
    mixes = random.dirichlet(np.full(len(SOURCES), 1.5), runs)
    measured = np.stack([2 + np.exp(mixes @ np.array(t)) for t in slopes.values()], axis=1)
    measured += random.normal(0, noise, measured.shape)
    names = [f"r{number}" for number in range(runs)]
    ratios = write(
        folder / "ratios.csv",
        ["run", "name", "index", *SOURCES],
        [[name, f"s-{name}", n, *mixes[n]] for n, name in enumerate(names)],
    )
    # The other order, and one run more.
    metrics = write(
        folder / "metrics.csv",
        ["run", "name", "index", *slopes],
        [[name, name, 0, *measured[n]] for n, name in reversed(list(enumerate(names)))]
        + [["extra", "x", 0, *measured[0]]],
    )
    return ratios, metrics


def optimum(caps: Sequence[float]) -> np.ndarray:
    """The best mix of the true law, on a fine grid: no search of gristmill's."""
    steps = 50
    grid = np.array(
        [
            (a, b, c, steps - a - b - c)
            for a in range(steps + 1)
            for b in range(steps + 1 - a)
            for c in range(steps + 1 - a - b)
        ]
    )
    points = grid / steps
    points = points[(points <= np.array(caps) + 1e-9).all(axis=1)]
    values = sum(np.exp(points @ np.array(t)) for t in SLOPES.values())
    return np.asarray(points[int(np.argmin(values))])


def test_the_best_mix_of_a_known_law(tmp_path: Path) -> None:
    ratios, metrics = swarm(tmp_path, 32, 0.003)
    found = fit_mix(ratios, metrics, resamples=3, plot=tmp_path / "fit.svg")
    shares = [found["mix"][name]["share"] for name in SOURCES]
    assert shares == pytest.approx(optimum([1.0] * 4), abs=0.06)
    assert sum(shares) == pytest.approx(1)
    assert {row["law"] for row in found["metrics"].values()} == {"log_linear"}
    assert min(row["r2"] for row in found["metrics"].values()) > 0.97
    assert found["improves"] == 1.0
    assert found["unmatched"] == ["extra"]
    assert b"<svg" in (tmp_path / "fit.svg").read_bytes()
    said = lines(found)
    tenths = [float(line.rpartition("=")[2]) for line in said[said.index("[mix.weights]") + 1 : -1]]
    assert round(sum(tenths), 9) == 1.0


def covered(row: Mapping[str, float], share: float, near: float = 1e-4) -> bool:
    return row["low"] - near <= share <= row["high"] + near


def test_intervals_cover_the_estimate(tmp_path: Path) -> None:
    """Exact data that no law has, of which trees are the best: their mix is the mean of the best
    mixes, and its interval is of the same mean. Then exact data of a law: it is sure.
    """
    mixes = np.random.default_rng(7).dirichlet(np.full(len(SOURCES), 1.5), 64)
    exact = 2 + ((mixes - [0.02, 0.4, 0.5, 0.08]) ** 2).sum(axis=1)
    files = (
        write(tmp_path / "r.csv", ["run", *SOURCES], [[n, *row] for n, row in enumerate(mixes)]),
        write(tmp_path / "m.csv", ["run", "loss"], list(enumerate(exact))),
    )
    mix = fit_mix(*files, law="boosted", resamples=8)["mix"]
    assert all(covered(row, row["share"]) for row in mix.values()), mix
    assert all(row["low"] < row["high"] for row in mix.values())
    mix = fit_mix(*swarm(tmp_path, 32, 0.0), law="log_linear", resamples=4)["mix"]
    assert all(covered(row, row["share"]) for row in mix.values()), mix
    assert all(row["high"] - row["low"] < 1e-3 for row in mix.values())


@pytest.mark.soak
def test_soak_intervals_cover_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    """Noisy data of a law whose best mix is known, ten times: 5 to 95 % is nine times of ten."""
    truth, hits = dict(zip(SOURCES, best_code_and_books(), strict=True)), []
    for turn in range(10):
        folder = tmp_path / str(turn)
        folder.mkdir()
        mix = fit_mix(*swarm(folder, 32, 0.02, seed=turn), law="log_linear", resamples=30)["mix"]
        assert all(covered(row, row["share"], 0.01) for row in mix.values()), mix
        hits += [covered(mix[name], truth[name]) for name in ("code", "books")]
    assert 0.7 <= sum(hits) / len(hits) <= 1.0


def best_code_and_books() -> list[float]:
    """The best mix of SLOPES, which has two sources alone, to five digits."""
    code = np.linspace(0, 1, 100_001)
    points = np.stack([0 * code, code, 1 - code, 0 * code], axis=1)
    values = sum(np.exp(points @ np.array(t)) for t in SLOPES.values())
    share = float(code[int(np.argmin(values))])
    return [0.0, share, 1 - share, 0.0]


def test_epochs_limit_a_source(tmp_path: Path) -> None:
    ratios, metrics = swarm(tmp_path, 32, 0.003)
    supply = {"web": 10_000, "code": 500, "books": 1000, "math": 1000}
    found = fit_mix(ratios, metrics, supply=supply, tokens=10_000, resamples=0)
    caps = [1.0, 0.2, 0.4, 0.4]
    assert [found["mix"][name]["most"] for name in SOURCES] == caps
    shares = [found["mix"][name]["share"] for name in SOURCES]
    assert shares == pytest.approx(optimum(caps), abs=0.06)
    assert max(row["epochs"] for row in found["mix"].values()) <= 4 + 1e-9
    with pytest.raises(RecipeError, match="all sources read 4 times have 50,000"):
        fit_mix(ratios, metrics, supply=supply, tokens=60_000, resamples=0)
    with pytest.raises(RecipeError, match="how many tokens has source 'math'"):
        fit_mix(ratios, metrics, supply={"web": 1, "code": 1, "books": 1}, resamples=0)


@strategies.fuzz(100)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=2, max_size=8))
def test_fuzz_a_mix_under_its_caps(drawn: list[tuple[float, float]]) -> None:
    mix, caps = np.array(drawn).T
    caps = caps / min(1.0, caps.sum())
    found = within(mix, caps)
    assert found.sum() == pytest.approx(1)
    assert (found <= caps + 1e-12).all()
    assert (found >= 0).all()
    if mix.sum() > 0 and (mix / mix.sum() <= caps).all():
        assert found == pytest.approx(mix / mix.sum())


def test_a_share_as_small_as_floats_go_takes_what_is_left() -> None:
    assert within(np.array([1.0, 5e-324]), np.array([0.5, 1.0])).tolist() == [0.5, 0.5]


def test_noise_is_called_a_guess(tmp_path: Path) -> None:
    flat = {"loss": [0.0, 0.0, 0.0, 0.0]}
    found = fit_mix(*swarm(tmp_path, 24, 0.5, flat), resamples=5)
    assert found["metrics"]["loss"]["r2"] < 0.1
    assert any("no more than a guess" in warning for warning in found["warnings"])


@pytest.mark.parametrize("law", ["linear", "boosted"])
def test_other_laws_find_what_helps(tmp_path: Path, law: str) -> None:
    ratios, metrics = swarm(tmp_path, 64, 0.003)
    found = fit_mix(ratios, metrics, objective={"code_bpb": 1.0}, law=law, resamples=0)
    assert max(found["mix"], key=lambda name: found["mix"][name]["share"]) == "code"
    assert fit_mix(ratios, metrics, objective={"code_bpb": 1.0}, law=law, resamples=0) == found
    worst = fit_mix(
        ratios, metrics, objective={"code_bpb": 1.0}, law=law, resamples=0, maximize=True
    )
    assert worst["mix"]["code"]["share"] < 0.1
    assert worst["predicted"] > found["predicted"]


def test_runs_as_others_write_them(tmp_path: Path) -> None:
    ratios = tmp_path / "r.csv"
    # pandas' index column, a byte order mark, run_id, blank lines, CRLF.
    ratios.write_bytes(b"\xef\xbb\xbf,run_id,a,b\r\n0,x,0.25,0.75\r\n\r\n1,y,0.503,0.5\r\n")
    metrics = tmp_path / "m.csv"
    metrics.write_text("run,loss,Unnamed: 0\ny,2.5,0\nx,3.5,1\n")
    found = read_runs(ratios, metrics)
    assert (found.names, found.sources, found.metrics) == (["x", "y"], ["a", "b"], ["loss"])
    assert found.values.tolist() == [[3.5], [2.5]]
    assert found.ratios.sum(axis=1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("ratios", "metrics", "said"),
    [
        ("run,a,b\nx,0.5,0.4\n", "run,m\nx,1\n", "r.csv, line 2: run 'x': its ratios sum to 0.9"),
        ("run,a,b\nx,1.5,-0.5\n", "run,m\nx,1\n", "run 'x' has a ratio below 0"),
        ("run,a\nx,1\n", "run,m\ny,1\n", "none of its runs is in"),
        ("run,a\nx,1\nx,1\n", "run,m\nx,1\n", "line 3: run 'x' is already in line 2"),
        ("run,a\nx,1\n", "run,m\nx,nan\n", "m.csv, line 2: m is nan: leave a run out"),
        ("run,a\nx,1\n", "run,m\nx,good\n", "m = 'good' is no number"),
        ("run,a\nx,1,2\n", "run,m\nx,1\n", "3 cells, and the first line has 2"),
        ("a,b\n1,0\n", "run,m\nx,1\n", "no column run"),
        ("run,name\nx,1\n", "run,m\nx,1\n", "no column of numbers"),
        ("run,a,a\nx,1,0\n", "run,m\nx,1\n", "a column is there twice"),
        ("", "run,m\nx,1\n", "an empty file"),
        ("run,a\n", "run,m\nx,1\n", "no run"),
    ],
)
def test_files_that_do_not_match(tmp_path: Path, ratios: str, metrics: str, said: str) -> None:
    (tmp_path / "r.csv").write_text(ratios)
    (tmp_path / "m.csv").write_text(metrics)
    with pytest.raises(RecipeError, match=re.escape(said)):
        read_runs(tmp_path / "r.csv", tmp_path / "m.csv")


def test_too_few_runs_and_unknown_metrics(tmp_path: Path) -> None:
    ratios, metrics = swarm(tmp_path, 7, 0.0)
    with pytest.raises(
        RecipeError, match="7 runs are in both files; a regression needs at least 8"
    ):
        fit_mix(ratios, metrics)
    ratios, metrics = swarm(tmp_path, 8, 0.0)
    with pytest.raises(RecipeError, match="no metric 'mmlu'; there are code_bpb, text_bpb"):
        fit_mix(ratios, metrics, objective={"mmlu": 1.0})
    with pytest.raises(RecipeError, match="law 'cubic'"):
        fit_mix(ratios, metrics, law="cubic")
    with pytest.raises(RecipeError, match=re.escape("a picture is .svg, .png, .pdf")):
        fit_mix(ratios, metrics, law="linear", resamples=0, plot=tmp_path / "x.bmp")
