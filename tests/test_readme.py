"""The first page: it is short, and each figure in its table is that of benchmarks/results.json."""

import json
import re
import statistics
from typing import Any

from tests.support import ROOT

PAGE = (ROOT / "README.md").read_text("utf-8")
SECTIONS = json.loads((ROOT / "benchmarks/results.json").read_text())["sections"]


def rows(section: str, **where: object) -> list[dict[str, Any]]:
    found = SECTIONS[section]["rows"]
    return [row for row in found if all(row.get(key) == value for key, value in where.items())]


def digits(value: float) -> str:
    """As in RESULTS.md: three digits, or all before the point."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def speed(section: str, who: str) -> float:
    """MB/s of processor time, of the largest corpus."""
    row = max(rows(section, who=who), key=lambda row: row["megabytes"])
    return float(row["megabytes"] / row["cpu"])


def beside(ours: dict[str, Any], peer: dict[str, Any]) -> tuple[float, str, float, float | None]:
    """Our wall time, the peer, its wall time, how many times ours; of a peer in turns with ours
    medians of these rounds.
    """
    name = {"datatrove": "datatrove", "daft": "Daft"}[peer["tool"]]
    if "beside" not in peer:
        return ours["wall"], name, peer["wall"], None
    rounds = list(zip(peer["runs"], peer["beside"], strict=True))
    times = statistics.median(theirs["wall"] / own["wall"] for theirs, own in rounds)
    return statistics.median(own["wall"] for _, own in rounds), name, peer["wall"], times


def table() -> list[str]:
    """The rows of the table, as the results make them."""
    processor = {
        name: "x" if "Xeon" in section["machine"]["processor"] else "e"
        for name, section in SECTIONS.items()
    }

    def line(
        section: str,
        work: str,
        unit: str,
        ours: float,
        peer: str,
        theirs: float,
        ratio: float | None = None,  # the median of rounds, where both took turns
    ) -> str:
        times = ratio or (theirs / ours if unit == "s" else ours / theirs)
        return (
            f"| {work}, {unit} [{processor[section]}] | {digits(ours)} | {peer} {digits(theirs)} "
            f"| {digits(times)} |"
        )

    encode = rows("encode", tokenizer="gpt2", text="english", state="cold")
    encoders = {row["peer"]: row for row in encode}
    (gopher,) = rows("filters", peer="Gopher quality: datatrove as shipped")
    dedup = {(row["who"], row.get("documents")): row for row in rows("dedup")}
    ours, daft = "gristmill, 14 x 8, 2 workers", "Daft, its guide's script, 14 x 8"
    datatrove = "datatrove, its four stages, 14 x 8"
    reads = {row["way"]: row["speed"] for row in rows("read", kind="WET.gz")}
    loads = {
        row["way"]: row["cpu"] / 1e6 for row in rows("loader") if "way" in row and "cpu" in row
    }
    found = [
        line(name, work, "MB/s", speed(name, "gristmill"), "datatrove", speed(name, "datatrove"))
        for name, work in (
            ("whole", "WET to GPT-2 tokens: language, Gopher, near duplicates¹"),
            ("fineweb", "the same with all rules of FineWeb¹"),
        )
    ]
    found += [
        line(
            "dedup",
            "near duplicates, Parquet to documents²",
            "s",
            *beside(dedup[ours, 100_000], dedup[peer, 100_000]),
        )
        for peer in (datatrove, daft)
    ]
    found.append(
        line(
            "filters",
            "Gopher's rules³",
            "MB/s",
            gopher["ours"],
            "datatrove",
            gopher["theirs"],
            gopher["ratio"],
        )
    )
    found += [
        line(
            "encode",
            "GPT-2 tokens of English",
            "MB/s",
            row["ours"],
            name,
            row["theirs"],
            row["ratio"],
        )
        for name in ("gigatoken", "tiktoken")
        for row in [encoders[name]]
    ]
    found.append(
        line("read", "reading WET.gz", "MB/s", reads["gristmill"], "fastwarc", reads["fastwarc"])
    )
    found.append(
        line(
            "loader",
            "random batches",
            "M tokens/s",
            loads["gristmill"],
            "grain",
            loads[next(way for way in loads if way.startswith("grain"))],
        )
    )
    return found


def test_the_table_is_made_from_the_results() -> None:
    shown = re.findall(r"^\| .*\[[xe]\] \|.*\|$", PAGE, re.MULTILINE)
    assert shown == table()


def test_what_is_said_below_the_table() -> None:
    notes = PAGE[PAGE.index("¹ ours") :].replace("\n", " ")
    found = []
    for section in ("whole", "fineweb"):
        ours, small = sorted(rows(section, who="gristmill"), key=lambda row: -row["megabytes"])
        (theirs,) = rows(section, who="datatrove")
        found.append(theirs["cpu"] / small["cpu"])
        assert f"ours on {ours['megabytes']:.0f} MB" in notes
        assert f"datatrove on {theirs['megabytes']:.1f} MB" in notes
        assert f"{theirs['cpu']:.0f}" in notes
    assert f"ours is {found[0]:.1f} and {found[1]:.0f} times as fast" in notes
    (split,) = rows("filters", peer="Gopher quality: datatrove with `split()`")
    assert f"ours is {digits(split['ratio'])} times as fast" in notes
    (daft,) = rows("dedup", tool="daft")
    (datatrove,) = rows("dedup", tool="datatrove", documents=100_000)
    lost = f"{daft['lost']:,} documents and {datatrove['lost']:,} that are no copies"
    assert f"lost {lost}" in notes


def test_the_first_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 150
