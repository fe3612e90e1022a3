"""An index for a stream, measured: `python index.py [--documents 20000] [--folder DIR]`.

The documents are make_corpus.py's: real prose in several languages, with copies, near copies and
junk. Each line is an index of its own, with `[deduplicate]`'s defaults, that takes all of them;
`one by one` takes the first fifth, and looks as many up. Documents a second are by the clock;
beside it by processor time, which another process on the machine does not change.
"""

import argparse
import functools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_corpus

from gristmill.dedup import DuplicateIndex, Near


def documents(count: int, seed: int = 1) -> list[str]:
    """Texts as of web pages, 1 to 12 KB."""
    maker = make_corpus.Maker(make_corpus.load_pools(make_corpus.data_folder()), seed, [count])
    return [maker.make(0, row).text.decode() for row in range(count)]


def timed(work: Callable[[], Any], count: int) -> tuple[float, float]:
    """(documents a second by the clock, by processor time)."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return count / (time.perf_counter() - wall), count / (time.process_time() - cpu)


def _add(index: DuplicateIndex, batches: list[list[str]]) -> None:
    for batch in batches:
        index.add_batch(batch)


def rows(texts: list[str], folder: Path) -> list[tuple[str, str, float, float, float | None]]:
    """(where, what, documents a second by the clock, by processor, bytes a document)."""
    found: list[tuple[str, str, float, float, float | None]] = []
    fifth = texts[: len(texts) // 5]
    places = [
        ("memory", None, {}),
        ("disk", folder / "full", {}),
        ("disk, normal", folder / "n", {"synchronous": "normal"}),
    ]
    for where, path, options in places:
        for size in (1000, 100):
            if path is not None:
                path.unlink(missing_ok=True)
            with DuplicateIndex(path, **options) as index:
                parts = [texts[start : start + size] for start in range(0, len(texts), size)]
                speed = timed(functools.partial(_add, index, parts), len(texts))
            found.append(
                (
                    where,
                    f"batches of {size}",
                    *speed,
                    path.stat().st_size / len(texts) if path else None,
                )
            )
        if path is not None:
            path.unlink()
        with DuplicateIndex(path, **options) as index:
            found.append(
                (
                    where,
                    "one by one",
                    *timed(lambda: [index.add(text) for text in fifth], len(fifth)),
                    None,
                )
            )
            found.append(
                (
                    where,
                    "look_up",
                    *timed(lambda: [index.look_up(text) for text in fifth], len(fifth)),
                    None,
                )
            )
    for verify in ("signatures", "none"):
        path = folder / verify
        with DuplicateIndex(path, near=Near(verify=verify)) as index:
            parts = [texts[start : start + 1000] for start in range(0, len(texts), 1000)]
            speed = timed(functools.partial(_add, index, parts), len(texts))
        found.append(
            (
                f'disk, verify = "{verify}"',
                "batches of 1000",
                *speed,
                path.stat().st_size / len(texts),
            )
        )
    return found


def table(found: list[tuple[str, str, float, float, float | None]]) -> list[str]:
    """The rows in Markdown."""
    lines = [
        "| where | how | documents/s | by processor | bytes a document |",
        "|---|---|--:|--:|--:|",
    ]
    for where, what, wall, cpu, size in found:
        lines.append(
            f"| {where} | {what} | {wall:,.0f} | {cpu:,.0f} | "
            f"{'' if size is None else f'{size:,.0f}'} |"
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--texts", type=Path, help="a JSON list of texts instead")
    parser.add_argument(
        "--folder", type=Path, help="where the index lies; a temporary folder if none"
    )
    asked = parser.parse_args()
    texts = (
        json.loads(asked.texts.read_text("utf-8")) if asked.texts else documents(asked.documents)
    )
    with DuplicateIndex(None) as index:  # kernels are loaded
        index.add_batch(texts[:100])
    size = sum(len(text.encode()) for text in texts)
    print(
        f"{len(texts):,} documents, {size / 1e6:,.1f} MB of text, {size / len(texts):,.0f} "
        "bytes each"
    )
    print()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        print("\n".join(table(rows(texts, Path(folder)))))


if __name__ == "__main__":
    main()
