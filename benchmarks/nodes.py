"""Simulate a network of 1,000 nodes; write the tables of docs/nodes.md and its plot docs/nodes.svg:
`python benchmarks/nodes.py`.

The numbers follow from names alone: each run writes the same bytes. It takes half a minute.
"""

import re
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
NODES, SHARDS, HOLDERS = 1000, 10_000, 3
GENESIS, RENDEZVOUS, INK, PALE = "#b3541e", "#1f6f8b", "#222222", "#d9d9d9"


def main() -> None:
    """Write the page's tables and the plot."""
    from simulate import coverage_lines, loss_lines, plateau_lines

    page = ROOT / "docs/nodes.md"
    text = page.read_text("utf-8")
    for name, lines in (
        ("coverage", coverage_lines(NODES, [3333, SHARDS, 600_000], HOLDERS)),
        ("losses", loss_lines(NODES, 3333, HOLDERS)),
        ("plateau", plateau_lines()),
    ):
        begin, end = f"<!-- {name}: benchmarks/nodes.py -->\n", f"<!-- end of {name} -->\n"
        found = re.search(re.escape(begin) + ".*?" + re.escape(end), text, re.DOTALL)
        if found is None:
            sys.exit(f"{page}: there is no table {name}")
        text = text.replace(found[0], begin + "\n" + "\n".join(lines) + "\n\n" + end)
    page.write_text(text, "utf-8")
    (ROOT / "docs/nodes.svg").write_text(plot(), "utf-8")


def plot() -> str:
    """Coverage by downloads, and readers of a shard, beside each other."""
    from simulate import simulate_genesis, simulate_rendezvous

    rotations = range(1, 7)
    theirs = [simulate_genesis(NODES, SHARDS, number) for number in rotations]
    ours = [simulate_rendezvous(NODES, SHARDS, HOLDERS, number) for number in rotations]
    left = Panel(60, "shards with a reader, %", "downloads of shards / shards", (0, 6), (0, 100))
    for runs, colour in ((theirs, GENESIS), (ours, RENDEZVOUS)):
        points = [(one.downloads / SHARDS, 100 * one.covered) for one in runs]
        left.line([(0.0, 0.0), *points], colour)
    right = Panel(440, "shards, %", "readers of a shard", (-0.6, 10.6), (0, 100))
    for run, colour, offset in ((theirs[2], GENESIS, -0.4), (ours[-1], RENDEZVOUS, 0.0)):
        counts = np.bincount(run.readers, minlength=11)[:11] / SHARDS * 100
        right.bars(counts.tolist(), colour, offset)
    keys = [
        f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>'
        f'<text x="{x + 18}" y="24">{text}</text>'
        for x, colour, text in (
            (60, GENESIS, "Genesis' rule"),
            (180, RENDEZVOUS, f"rendezvous hashing, {HOLDERS} holders"),
        )
    ]
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="330" viewBox="0 0 800 330" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">'
    )
    title = f"<title>{NODES:,} nodes, {SHARDS:,} shards, ten shards a rotation</title>"
    back = '<rect width="800" height="330" fill="white"/>'
    return "\n".join([head, title, back, *keys, *left.marks, *right.marks, "</svg>"]) + "\n"


class Panel:
    """Axes at a place of the drawing, 320 by 230, and what is drawn in them."""

    def __init__(
        self, x: int, upright: str, along: str, xs: tuple[float, float], ys: tuple[float, float]
    ) -> None:
        self._x, self._xs, self._ys = x, xs, ys
        self.marks: list[str] = []
        for number in range(0, 101, 20):
            _, y = self._at(xs[0], number)
            self.marks.append(
                f'<line x1="{x}" y1="{y:.1f}" x2="{x + 320}" y2="{y:.1f}" stroke="{PALE}"/>'
                f'<text x="{x - 6}" y="{y + 4:.1f}" text-anchor="end">{number}</text>'
            )
        for number in range(max(0, round(xs[0])), int(xs[1]) + 1):
            place, _ = self._at(number, 0)
            self.marks.append(f'<text x="{place:.1f}" y="296" text-anchor="middle">{number}</text>')
        self.marks.append(f'<text x="{x}" y="42">{upright}</text>')
        self.marks.append(f'<text x="{x + 160}" y="318" text-anchor="middle">{along}</text>')

    def _at(self, x: float, y: float) -> tuple[float, float]:
        """A point in the drawing."""
        across = (x - self._xs[0]) / (self._xs[1] - self._xs[0])
        up = (y - self._ys[0]) / (self._ys[1] - self._ys[0])
        return self._x + 320 * across, 280 - 230 * up

    def line(self, points: list[tuple[float, float]], colour: str) -> None:
        """A line through points, with a dot at each."""
        places = [self._at(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self.marks.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        self.marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places
        ]

    def bars(self, heights: list[float], colour: str, offset: float) -> None:
        """A bar at each whole number."""
        for number, height in enumerate(heights):
            x, y = self._at(number + offset, height)
            right, bottom = self._at(number + offset + 0.4, 0)
            self.marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{right - x:.1f}" '
                f'height="{bottom - y:.1f}" fill="{colour}"/>'
            )


if __name__ == "__main__":
    main()
