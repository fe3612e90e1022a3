"""HTML out of values: everything that is not written here is escaped.

A text from outside becomes characters of the page: `<`, `>`, `&` and quotes as references, control,
bidirectional and other invisible characters in a spelled-out form (errors.printable). The page's
scripts get numbers alone, in attributes.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gristmill.errors import printable

LONGEST_WORD = 80  # characters without a place to break


class Html(NamedTuple):
    """Markup: text that is not escaped again."""

    markup: str

    def __str__(self) -> str:
        return self.markup

    def __bool__(self) -> bool:
        return bool(self.markup)


def text(value: object) -> Html:
    """Return a value as text of the page; markup stays markup."""
    if isinstance(value, Html):
        return value
    plain = str(value).replace("\r\n", "\n")
    shown = "".join(" " if unicodedata.category(c) == "Zs" else c for c in plain)
    return Html(html.escape(printable(shown, lines=True)))


def tag(name: str, *inner: object, **attributes: object) -> Html:
    """Return an element. `class_` and `for_` lose their underscores, others have dashes; an
    attribute that is None or False is left out.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{given}>{joined(inner)}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Return pieces, one behind the other; None is left out."""
    return Html(between.join(text(part).markup for part in parts if part is not None))


def anchor(name: str) -> str:
    """Return a name as an identifier in the page."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)


def number(value: float | int | None) -> str:
    """Return a figure: whole numbers in groups of three, others with four digits."""
    if value is None:
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace("-", "−")
    size = abs(value)
    shown = f"{value:,.1f}" if size >= 1000 else f"{value:.4g}"
    return shown.replace("-", "−")


def short(value: float) -> str:
    """Return a large figure in four places: 12.3 M."""
    for limit, word in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            shown = value / limit
            return f"{shown:.3g} {word}" if shown < 1000 else f"{shown:,.0f} {word}"
    return number(value)


def share(part: float, whole: float) -> str:
    """Return a part of a whole in per cent."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if part and percent < 0.1:
        return "< 0.1 %"
    if part < whole and percent > 99.9:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def signed(value: float) -> str:
    """Return a difference, with its sign."""
    return "±0" if not value else ("+" if value > 0 else "−") + number(abs(value))


def size(value: float) -> str:
    """Return bytes."""
    for limit, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.3g} {word}"
    return f"{int(value)} B"


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Sequence[int] = ()
) -> Html:
    """Return a table; the columns whose places are in `numeric` are figures."""

    def cells(kind: str, row: Sequence[object]) -> Html:
        return joined(
            tag(
                "td" if (kind == "td" and (place or not cell)) or not cell else "th",
                cell,
                class_="n" if place in numeric else None,
                scope=None
                if not cell
                else "col"
                if kind == "th"
                else "row"
                if place == 0
                else None,
            )
            for place, cell in enumerate(row)
        )

    top = tag("thead", tag("tr", cells("th", head)))
    body = tag("tbody", *(tag("tr", cells("td", row)) for row in rows))
    return tag("div", tag("table", top, body), class_="scroll", tabindex="0", role="group",
               aria_label="table")  # fmt: skip


def section(name: str, title: str, lead: object, *inner: object) -> Html:
    """Return a section of the page, with a sentence below its title."""
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        tag("p", lead, class_="lead") if lead else None,
        *inner,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def details(summary: object, *inner: Any, open_: bool = False) -> Html:
    """Return something that opens on request."""
    return tag("details", tag("summary", summary), *inner, open=open_)


def slider(label: str, most: int, value: int) -> Html:
    """Return a slider from 0 to `most`; the page's script shows it."""
    shown = tag("input", type="range", min=0, max=most, value=value, hidden=True, aria_label=label)
    return Html(shown.markup.removesuffix("</input>"))
