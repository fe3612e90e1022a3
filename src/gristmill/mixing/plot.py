"""Pictures of a fitted mix, drawn by matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.errors import MachineError, RecipeError
from gristmill.mixing.laws import EXTRA
from gristmill.mixing.runs import Swarm
from gristmill.system.ownership import refuse_file

if TYPE_CHECKING:
    from gristmill.mixing.fit import Fitted

FORMATS = (".svg", ".png", ".pdf")
MADE_BY = "gristmill mix"  # the metadata by which a picture is known
# Where each format has it.
METADATA: dict[str, dict[str, str | None]] = {
    ".svg": {"Creator": MADE_BY, "Date": None},
    ".png": {"Software": MADE_BY},
    ".pdf": {"Creator": MADE_BY, "CreationDate": None},
}
# As the files say it: an SVG's title of its maker, a PNG's text chunk, a PDF's entry.
MARKS = (
    b"<dc:title>" + MADE_BY.encode(),
    b"tEXtSoftware\0" + MADE_BY.encode(),
    b"/Creator (" + MADE_BY.encode(),
)
MOST_METRICS = 4  # panels
MOST_POINTS = 2000  # of a line


def figure(columns: int) -> tuple[Any, Sequence[Any]]:
    """Return a figure with panels side by side. Raises MachineError without the extra."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MachineError(EXTRA) from error
    mpl.use("Agg", force=False)
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(4.2 * columns, 3.6), layout="constrained")
    panels = [drawn.add_subplot(1, columns, place + 1) for place in range(columns)]
    return drawn, panels


def refuse_picture(path: Path, *, force: bool) -> None:
    """Raise RecipeError for a file that is there and no picture of gristmill's, unless `force`."""
    refuse_file(path, _is_ours, "mix", force=force, option="--plot")


def _is_ours(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return any(mark in data for mark in MARKS)


def write(drawn: Any, path: Path) -> None:
    """Write a figure; the same values give the same bytes. Raises RecipeError, MachineError."""
    if path.suffix not in FORMATS:
        raise RecipeError(f"{path}: a picture is {', '.join(FORMATS)}")
    import matplotlib as mpl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context({"svg.hashsalt": "gristmill"}):
            drawn.savefig(path, metadata=METADATA[path.suffix], dpi=150)
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from error


def plot_fit(path: Path, runs: Swarm, fitted: Sequence["Fitted"], found: Mapping[str, Any]) -> None:
    """The best mix beside the natural one, and each metric as predicted and as measured."""
    shown = fitted[:MOST_METRICS]
    drawn, panels = figure(1 + len(shown))
    bars = panels[0]
    rows = found["mix"]
    places = range(len(rows))
    shares = [row["share"] for row in rows.values()]
    reach = [
        [max(0.0, row["share"] - row["low"]) for row in rows.values()],
        [max(0.0, row["high"] - row["share"]) for row in rows.values()],
    ]
    bars.barh([place + 0.2 for place in places], shares, 0.4, xerr=reach, label="best mix")
    natural = [row["natural"] for row in rows.values()]
    bars.barh([place - 0.2 for place in places], natural, 0.4, label="natural")
    bars.set_yticks(list(places), [_plain(name) for name in rows])
    bars.set_xlabel("share of tokens (bar: 5 to 95 % of resamples)")
    bars.legend()
    for panel, fit in zip(panels[1:], shown, strict=True):
        measured = runs.values[:, runs.metrics.index(fit.metric)]
        panel.plot(measured, fit.predicted, "o", markersize=3)
        ends = [float(measured.min()), float(measured.max())]
        panel.plot(ends, ends, "-", linewidth=0.8)
        panel.set_xlabel(f"{_plain(fit.metric)}, measured")
        panel.set_ylabel(f"predicted ({fit.kind}), run unseen")
    write(drawn, path)


def plot_weights(path: Path, sources: Sequence[str], weights: np.ndarray) -> None:
    """The weights (steps, sources) of each step, and their means so far."""
    drawn, panels = figure(2)
    steps = np.arange(1, len(weights) + 1)
    shown = np.unique(np.linspace(0, len(weights) - 1, MOST_POINTS).astype(np.int64))
    means = np.cumsum(weights, axis=0) / steps[:, None]
    for place, name in enumerate(sources):
        panels[0].plot(steps[shown], weights[shown, place], label=_plain(name))
        panels[1].plot(steps[shown], means[shown, place])
    panels[0].set_ylabel("weight of a step")
    panels[1].set_ylabel("mean so far")
    for panel in panels:
        panel.set_xlabel("step")
        panel.set_ylim(0, 1)
    panels[0].legend()
    write(drawn, path)


def _plain(name: str) -> str:
    """Return a name as it is: matplotlib reads dollar signs as formulas."""
    return name[:40].replace("$", r"\$")
