"""Charts as SVG: bars, histograms, curves. Positions are shares of the width, so that a chart fits
a phone and a sheet of paper, and its words keep their size; colours are those of the style sheet.
"""

import math
from collections.abc import Sequence

from gristmill.reports.page.distributions import Distribution
from gristmill.reports.page.markup import Html, joined, number, share, tag

HEIGHT = 92  # of a histogram, in pixels
CURVE = 40


def bar(kept: float, lost: float, whole: float, label: str) -> Html:
    """Return a bar of what is kept and, behind it, what is lost, of a whole."""
    if not whole:
        return Html("")
    first, second = 100 * kept / whole, 100 * lost / whole
    parts = '<rect class="track" width="100%" height="100%" rx="2"></rect>'
    parts += f'<rect class="kept" width="{first:.3f}%" height="100%" rx="2"></rect>'
    if lost:
        parts += f'<rect class="lost" x="{first:.3f}%" width="{second:.3f}%" height="100%"></rect>'
    role = "img" if label else None
    return tag("svg", Html(parts), class_="bar", role=role, aria_label=label or None)


def position(distribution: Distribution, value: float) -> float:
    """Return where a value is on the axis: 0 to 100, beyond where it is outside."""
    edges = distribution.edges
    low, high, at = edges[0], edges[-1], value
    if distribution.log:
        low = math.log10(edges[0]) if edges[0] > 0 else math.log10(edges[1]) - 0.1
        high = math.log10(high)
        at = math.log10(value) if value > 0 else low
    return 100 * (at - low) / (high - low)


def histogram(one: Distribution, other: Distribution | None = None, *, describe: str = "") -> Html:
    """Return the bars of a distribution, what its limits drop in another colour; a second corpus as
    a line over them, both as shares of their documents; below, how much each limit would drop.
    """
    places = [position(one, edge) for edge in one.edges]
    shares = [count / max(one.documents, 1) for count in one.counts]
    others = [count / max(other.documents, 1) for count in other.counts] if other else []
    top = _top([*shares, *others])
    bars = []
    for place, value in enumerate(shares):
        if not value:
            continue
        left, right = places[place], places[place + 1]
        height = min(max(1.0, (HEIGHT - 6) * value / top), HEIGHT)
        broken = any(
            _drops(rule.broken, (one.edges[place] + one.edges[place + 1]) / 2, rule.limit)
            for rule in one.rules
        )
        width = max(right - left - (0.12 if right - left > 0.5 else 0), 0.1)
        bars.append(
            f'<rect x="{left:.2f}%" width="{width:.2f}%" y="{HEIGHT - height:.1f}" '
            f'height="{height:.1f}" class="{"lost" if broken else "kept"}"></rect>'
        )
    lines = [
        f'<line x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="{HEIGHT}" class="limit"></line>'
        for at in (position(one, rule.limit) for rule in one.rules)
        if 0 <= at <= 100
    ]
    return tag(
        "svg",
        Html("".join(bars)),
        _outline(places, others, top) if other else None,
        Html(f'<line x1="0" x2="100%" y1="{HEIGHT}" y2="{HEIGHT}" class="axis"></line>'),
        Html("".join(lines)),
        *_higher(one, places, shares, top),
        *_ticks(one, HEIGHT + 15),
        class_="chart",
        height=HEIGHT + 20,
        width="100%",
        role="img",
        aria_label=describe,
    )


def curve(one: Distribution, places: Sequence[float], dropped: Sequence[int]) -> Html:
    """Return how much a limit would drop, over the same axis: a line from 0 % to 100 %."""
    falls = dropped[0] > dropped[-1]
    points = " ".join(
        f"{10 * min(max(position(one, value), 0), 100):.0f},"
        f"{100 - 100 * count / max(one.documents, 1):.1f}"
        for value, count in zip(places, dropped, strict=True)
    )
    x, dx, side = ("100%", -5, "end") if falls else (0, 5, "start")
    return Html(
        f'<svg class="chart low" height="{CURVE + 1}" width="100%" aria-hidden="true">'
        f"{_stretch(points, 'curve', CURVE)}"
        f'<line x1="0" x2="100%" y1="{CURVE}" y2="{CURVE}" class="axis"></line>'
        f'<text x="{x}" y="9" dx="{dx}" text-anchor="{side}">100 % dropped</text>'
        f'<line x1="-9" x2="-9" y1="0" y2="{CURVE}" class="mover"></line></svg>'
    )


def _stretch(points: str, kind: str, height: int) -> Html:
    """Return a line through points of 1000 by 100, over the whole width."""
    return Html(
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="{height}">'
        f'<polyline points="{points}" class="{kind}"></polyline></svg>'
    )


def _top(shares: Sequence[float]) -> float:
    """Return the share that is drawn in full height. One bar far above all others is drawn beyond
    it, with its figure, so that the others can be seen.
    """
    most = sorted(shares)[-2:]
    if len(most) == 2 and most[1] > 3 * most[0] > 0:
        return most[0]
    return max([*most, 1e-12])


def _higher(one: Distribution, places: list[float], shares: list[float], top: float) -> list[Html]:
    """Return the figure of a bar that is higher than the chart, and a gap in it."""
    marks = []
    for place, value in enumerate(shares):
        if value > top:
            left, right = places[place], places[place + 1]
            side = "end" if left > 60 else "start"
            at = left if side == "end" else right
            words, dx = share(one.counts[place], one.documents), -5 if side == "end" else 5
            more = {"dx": dx, "text_anchor": side, "class_": "higher"}
            marks.append(tag("text", words, x=f"{at:.2f}%", y=11, **more))
            x, width = f"{left - 0.3:.2f}%", f"{right - left + 0.6:.2f}%"
            marks.append(tag("rect", x=x, width=width, y=10, height=2, class_="gap"))
    return marks


def _drops(broken: str, value: float, limit: float) -> bool:
    return value < limit if broken.startswith("<") else value > limit


def _outline(places: list[float], shares: list[float], top: float) -> Html:
    """Return the line of the other corpus over the bars."""
    points = []
    for place, value in enumerate(shares):
        y = max(0.0, 100 - 100 * (HEIGHT - 6) / HEIGHT * value / top)
        points += [f"{10 * places[place]:.0f},{y:.1f}", f"{10 * places[place + 1]:.0f},{y:.1f}"]
    return _stretch(" ".join(points), "other", HEIGHT)


def _ticks(one: Distribution, y: int) -> list[Html]:
    """Round values below the axis."""
    labels = []
    last = -100.0
    for value in _tick_values(one):
        at = position(one, value)
        if not -0.01 <= at <= 100.01 or at - last < 14:
            continue
        last = at
        side = "start" if at < 4 else "end" if at > 96 else "middle"
        labels.append(tag("text", _tick(value), x=f"{at:.2f}%", y=y, text_anchor=side))
    return labels


def _tick(value: float) -> str:
    for limit, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * limit or (value >= limit and value % limit == 0):
            return f"{value / limit:g}{word}"
    return number(value)


def _tick_values(one: Distribution) -> list[float]:
    low, high = one.edges[0], one.edges[-1]
    if one.log:
        powers = range(math.floor(math.log10(max(low, 1e-6))), math.ceil(math.log10(high)) + 1)
        tens = [10.0**power for power in powers]
        return ([low] if low == 0 else []) + tens
    width = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(width))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= width * 0.99)
    first = math.ceil(low / step - 1e-9)
    return [round((first + place) * step, 12) for place in range(8)]


def columns(rows: Sequence[tuple[object, float, str]]) -> Html:
    """Return bars under each other with their names and figures: (name, value, figure)."""
    most = max((row[1] for row in rows), default=0) or 1
    return tag(
        "ul",
        *(
            tag(
                "li",
                tag("span", name, class_="name"),
                tag("span", bar(value, 0, most, ""), class_="track", aria_hidden="true"),
                tag("span", figure, class_="n"),
            )
            for name, value, figure in rows
        ),
        class_="columns",
    )


def legend(*names: tuple[str, str]) -> Html:
    """Return what the colours are: (class, words)."""
    return tag(
        "p",
        joined(
            tag("span", tag("span", "", class_=f"key {kind}", aria_hidden="true"), words)
            for kind, words in names
        ),
        class_="legend",
    )
