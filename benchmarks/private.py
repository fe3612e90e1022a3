"""Precision and recall of redaction, as Markdown for docs/private.md: `python private.py [--peers
PYTHON]`.

Labelled texts are presidio's (F_pii). A labelled value is found if a span of its kind covers it; a
span is false if it touches no labelled value of its kind. For text without labels the finds are
counted: prose (novels), code (the running Python's standard library) and tables (pages of Debian's
documentation with 40 cells or more).
"""

import argparse
import json
import random
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KINDS = {
    "email": "EMAIL_ADDRESS",
    "phone": "PHONE_NUMBER",
    "ssn": "US_SSN",
    "ip": "IP_ADDRESS",
    "card": "CREDIT_CARD",
    "iban": "IBAN_CODE",
}
SETS = ("presidio_synth_dataset_v2.json", "presidio_generated_small.json")
THEIRS = [
    "US",
    "GB",
    "DE",
    "FR",
    "IL",
    "IN",
    "CA",
    "BR",
]  # the regions that presidio asks unless it is told others
PIECE = 20_000  # characters of a novel that make a document
Spans = list[list[tuple[str, int, int]]]


def ours(texts: list[str], **table: Any) -> Spans:
    """Spans by the step, in code points."""
    from gristmill.filters.api.step import Input
    from gristmill.filters.pii.private import SUFFIXES, Private

    place = str(Path(find_spec("tldextract").submodule_search_locations[0]) / ".tld_set_snapshot")
    find, _ = Private(**table)._finder({SUFFIXES: Input("", place, "")})
    return [[tuple(span) for span in find(text)] for text in texts]


def presidio(texts: list[str]) -> Spans:
    """Spans by presidio's recognisers of the same kinds, whatever their score; its own Python runs
    this.
    """
    from presidio_analyzer import predefined_recognizers as known

    recognisers = {
        "email": known.EmailRecognizer(),
        "phone": known.PhoneRecognizer(),
        "ssn": known.UsSsnRecognizer(),
        "ip": known.IpRecognizer(),
        "card": known.CreditCardRecognizer(),
        "iban": known.IbanRecognizer(),
    }
    return [
        [
            (kind, found.start, found.end)
            for kind, recogniser in recognisers.items()
            for found in recogniser.analyze(text, [KINDS[kind]], None) or []
        ]
        for text in texts
    ]


def by_peer(python: Path, texts: list[str]) -> Spans:
    """`presidio`, run by the peers' Python."""
    with tempfile.TemporaryDirectory() as name:
        given, told = Path(name) / "texts.json", Path(name) / "spans.json"
        given.write_text(json.dumps(texts))
        subprocess.run(
            [python, __file__, "--answer", given, told], check=True, stderr=subprocess.DEVNULL
        )
        return [[tuple(span) for span in row] for row in json.loads(told.read_text())]


def score(rows: list[dict[str, Any]], found: Spans) -> dict[str, tuple[int, int, int, int]]:
    """Of each kind: labelled, of them found whole, spans found, of them false."""
    out = {}
    for kind, label in KINDS.items():
        counts = [0, 0, 0, 0]
        for row, spans in zip(rows, found, strict=True):
            gold = [
                (s["start_position"], s["end_position"])
                for s in row["spans"]
                if s["entity_type"] == label
            ]
            mine = [(start, stop) for name, start, stop in spans if name == kind]
            counts[0] += len(gold)
            counts[1] += sum(any(a <= start and stop <= b for a, b in mine) for start, stop in gold)
            counts[2] += len(mine)
            counts[3] += sum(
                not any(a < stop and start < b for start, stop in gold) for a, b in mine
            )
        out[kind] = tuple(counts)
    return out


def unlabelled(folder: Path) -> dict[str, list[str]]:
    """Prose, code and tables, together about 1,000 documents, drawn by a seed."""
    novels = []
    for path in sorted((folder / "I_prose").rglob("*")):
        if path.suffix in (".txt", ".xml"):
            text = path.read_text("utf-8", "replace")
            text = (
                re.sub(r"<[^>]+>", "", text.partition("<text")[2])
                if path.suffix == ".xml"
                else text
            )
            novels += [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    library = Path(sysconfig.get_paths()["stdlib"])
    code = [
        path.read_text("utf-8", "replace")
        for path in sorted(library.rglob("*.py"))
        if "site-packages" not in path.parts
    ]
    from resiliparse.extract.html2text import extract_plain_text

    tables = []
    with (
        subprocess.Popen(
            ["zstd", "-dcq", folder / "J_debian_docs/html.tar.zst"], stdout=subprocess.PIPE
        ) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            page = archive.extractfile(member).read() if member.isfile() else b""
            if page.count(b"<td") >= 40:
                tables.append(extract_plain_text(page.decode("utf-8", "replace")))
    draw = random.Random(1)
    return {
        name: draw.sample(texts, min(400, len(texts)))
        for name, texts in (("prose", novels), ("code", code), ("tables", tables))
    }


def main() -> None:
    """Print the tables."""
    if sys.argv[1:2] == ["--answer"]:
        Path(sys.argv[3]).write_text(
            json.dumps(presidio(json.loads(Path(sys.argv[2]).read_text())))
        )
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=Path, default=Path(__file__).parent / ".peers/bin/python")
    parser.add_argument(
        "--show",
        action="store_true",
        help="what is found in text without labels, with its surroundings",
    )
    asked = parser.parse_args()
    import make_corpus

    folder = make_corpus.data_folder()
    print(
        '| set | kind | labelled | ours: found, false | ours with `regions = ["US"]` | ... '
        "with presidio's eight | presidio: found, false |\n|---|---|---|---|---|---|---|"
    )
    for name in SETS:
        rows = json.loads((folder / "F_pii" / name).read_text("utf-8"))
        texts = [row["full_text"] for row in rows]
        scores = [
            score(rows, spans)
            for spans in (ours(texts), ours(texts, regions=["US"]), ours(texts, regions=THEIRS))
        ]
        peer = score(rows, by_peer(asked.peers, texts)) if asked.peers.exists() else {}
        for kind in KINDS:
            cells = [
                f"{one[kind][1]}, {one[kind][3]}" if one else "not measured"
                for one in (*scores, peer)
            ]
            print(f"| {name} | {kind} | {scores[0][kind][0]} | {' | '.join(cells)} |")
    rows = [
        json.loads(line)
        for line in (folder / "F_pii/debian_changelogs.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    found = ours([row["text"] for row in rows], kinds=["email"])
    addresses = [
        (spans, start, stop)
        for row, spans in zip(rows, found, strict=True)
        for *_, start, stop in row["trailer_emails"]
    ]
    print(
        "\nDebian changelogs: "
        f"{sum(any(a <= s and e <= b for _, a, b in spans) for spans, s, e in addresses)} of "
        f"{len(addresses)} addresses.\n"
    )
    print(
        '| text | documents | MB | found | phones with `regions = ["US"]` | ... with '
        "presidio's eight | MB/s |\n|---|---|---|---|---|---|---|"
    )
    for name, texts in unlabelled(folder).items():
        size = sum(len(text.encode()) for text in texts)
        found = ours(texts)
        regional = [ours(texts, kinds=["phone"], regions=regions) for regions in (["US"], THEIRS)]
        counts = Counter(kind for row in found for kind, *_ in row)
        print(
            f"| {name} | {len(texts)} | {size / 1e6:.1f} | "
            f"{', '.join(f'{kind} {n}' for kind, n in sorted(counts.items())) or 'nothing'} "
            f"| {' | '.join(str(sum(map(len, spans))) for spans in regional)} | {rate(texts):.0f} |"
        )
        if asked.show:
            for text, row in zip(texts, found, strict=True):
                for kind, start, stop in row:
                    print(
                        "   ",
                        kind,
                        repr(text[max(0, start - 25) : start]),
                        repr(text[start:stop]),
                        repr(text[stop : stop + 15]),
                    )


def rate(texts: list[str]) -> float:
    """MB of text a second by the step, the best of three."""
    import pyarrow as pa

    from gristmill.filters.api.step import Input
    from gristmill.filters.pii.private import SUFFIXES, Private
    from gristmill.tables import schema

    place = str(Path(find_spec("tldextract").submodule_search_locations[0]) / ".tld_set_snapshot")
    measure = Private().load({SUFFIXES: Input("", place, "")})
    batch = pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
    )
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        measure(batch)
        best = min(best, time.process_time() - start)
    return sum(len(text.encode()) for text in texts) / best / 1e6


if __name__ == "__main__":
    main()
