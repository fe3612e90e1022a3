"""The same verdicts as datatrove: `python parity.py --peers PYTHON [--documents N] [--fuzz N]`;
writes PARITY.md.

Real documents of more than 500 characters, planted ones for reasons that they lack, and adversarial
ones with parameters that vary, go through datatrove's Gopher quality, Gopher repetition, C4 and
FineWeb filters (parity_peer.py) and through our steps. datatrove's words (spaCy's) are fed to our
kernels as word offsets, so that every verdict and reason must be equal. Beside that, with our own
words, the share that differs is counted.
"""

import argparse
import concurrent.futures
import datetime
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import make_corpus
import numpy as np
import pyarrow as pa
from wrapping import wrapped

from gristmill.filters.api.texts import BatchTexts
from gristmill.filters.rules.c4 import C4
from gristmill.filters.rules.fineweb import FineWeb
from gristmill.filters.rules.gopher import Quality
from gristmill.filters.rules.repetition import Repetition
from gristmill.kernels.filters import c4_lines
from gristmill.kernels.filters.sentences import count_sentences
from gristmill.kernels.text import words
from gristmill.tables.columns import utf8_buffers

HERE = Path(__file__).parent
STEPS = ("gopher", "repetition", "fineweb", "c4")
CHUNK = 250
LEAST_REASON = 50  # documents for each reason, and so many more
# datatrove's names of parameters, and ours.
NAMES = {
    "gopher": {
        "min_doc_words": "min_words",
        "max_doc_words": "max_words",
        "min_avg_word_length": "min_word_length",
        "max_avg_word_length": "max_word_length",
        "max_symbol_word_ratio": "max_symbol_ratio",
        "max_bullet_lines_ratio": "max_bullet_lines",
        "max_ellipsis_lines_ratio": "max_ellipsis_lines",
        "max_non_alpha_words_ratio": "min_letter_words",
        "min_stop_words": "min_stop_words",
        "stop_words": "stop_words",
    },
    "repetition": {
        "dup_line_frac": "max_lines",
        "dup_para_frac": "max_paragraphs",
        "dup_line_char_frac": "max_line_characters",
        "dup_para_char_frac": "max_paragraph_characters",
        "top_n_grams": "max_top",
        "dup_n_grams": "max_repeated",
    },
    "fineweb": {
        "line_punct_thr": "min_stopped_lines",
        "line_punct_exclude_zero": "keep_without_stops",
        "short_line_thr": "max_short_lines",
        "short_line_length": "short_line",
        "char_duplicates_ratio": "max_repeated",
        "new_line_ratio": "max_newlines",
    },
    "c4": {
        "remove_citations": "citations",
        "filter_no_terminal_punct": "line_stops",
        "min_num_sentences": "min_sentences",
        "min_words_per_line": "min_line_words",
        "max_word_length": "longest_word",
        "filter_lorem_ipsum": "lorem_ipsum",
        "filter_javascript": "javascript",
        "filter_curly_bracket": "curly_bracket",
        "filter_policy": "policy",
    },
}


def steps_of(parameters: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Our steps with datatrove's parameters."""
    ours: dict[str, dict[str, Any]] = {}
    for step, given in parameters.items():
        ours[step] = {NAMES[step][name]: value for name, value in given.items()}
        for name in ("max_top", "max_repeated"):
            if step == "repetition" and name in ours[step]:
                ours[step][name] = tuple(limit for _, limit in ours[step][name])
        if "stop_words" in ours[step]:
            ours[step]["stop_words"] = tuple(ours[step]["stop_words"])
    return {
        "gopher": Quality(rules="datatrove-0.10", **ours.get("gopher", {})),
        "repetition": Repetition(**ours.get("repetition", {})),
        "fineweb": FineWeb(**ours.get("fineweb", {})),
        "c4": C4(**ours.get("c4", {})),
    }


def bounds_of(offsets: np.ndarray, data: np.ndarray, places: list[list[int]]) -> words.WordBounds:
    """The lines of texts by our rule, their words as given."""
    own = words.find(offsets, data)
    flat = [
        np.array(one, np.int64).reshape(-1, 2) + start
        for one, start in zip(places, offsets[:-1], strict=True)
    ]
    both = np.concatenate([*flat, np.empty((0, 2), np.int64)]).astype(np.int32)
    word_offsets = np.cumsum([0, *map(len, flat)], dtype=np.int64)
    return own._replace(
        word_offsets=word_offsets,
        starts=np.ascontiguousarray(both[:, 0]),
        stops=np.ascontiguousarray(both[:, 1]),
    )


def reasons(step: Any, measured: Any) -> list[str | None]:
    """What a step decides."""
    return step.decide(measured.measures).reason.to_pylist()  # type: ignore[no-any-return]


def compare(task: dict[str, Any], told: list[dict[str, Any]], found: "Findings") -> None:
    """One task's texts through our steps, fed with datatrove's words and with our own."""
    steps = steps_of(task["parameters"])
    texts = pa.array(task["texts"], pa.string())
    offsets, data = utf8_buffers(texts)
    fed = bounds_of(offsets, data, [one["words"] for one in told])
    own = words.separate(offsets, data, words.find(offsets, data))
    passing = np.ones(len(texts), bool)
    for name in ("gopher", "repetition", "fineweb"):
        ours = reasons(steps[name], steps[name].measure(offsets, data, fed))
        plain = reasons(steps[name], steps[name].measure(offsets, data, own))
        theirs = [one[name] and one[name].removeprefix("gopher_") for one in told]
        passing &= np.array([reason is None for reason in theirs], bool)
        found.add(name, task["texts"], theirs, ours, plain)
    lines = steps["c4"].cut(BatchTexts(texts))
    sentences = np.array([sentences_of(one["c4_lines"]) for one in told], np.int64)
    bounds = words.find(lines.offsets, lines.data)
    kept = lines.fates[c4_lines.KEPT]
    # `measure` adds what str.splitlines does not see; the sentences are of all lines already.
    fed_c4 = steps["c4"].measure(lines, bounds, sentences - kept + np.diff(bounds.line_offsets))
    counted = count_sentences(
        lines.data, words.separate(lines.offsets, lines.data, bounds), whole_words=False
    )
    plain_c4 = steps["c4"].measure(lines, bounds, counted)
    theirs = [one["c4"] for one in told]
    passing &= np.array([reason is None for reason in theirs], bool)
    ours = reasons(steps["c4"], fed_c4)
    same_lines = [
        "\n".join(line for line, _ in one["c4_lines"])
        == lines.data[lines.offsets[i] : lines.offsets[i + 1]].tobytes().decode()
        for i, one in enumerate(told)
    ]
    for i, (text, one) in enumerate(zip(fed_c4.text.to_pylist(), told, strict=True)):
        # A text that is kept must be the same text.
        if ours[i] is None and one["c4"] is None and (text != one["c4_text"] or not same_lines[i]):
            ours[i] = "other text"
    found.add("c4", task["texts"], theirs, ours, reasons(steps["c4"], plain_c4))
    found.passing += int(passing.sum())


def sentences_of(lines: list[list[Any]]) -> int:
    """Our count of the sentences of lines, by datatrove's words."""
    if not lines:
        return 0
    texts = pa.array([line for line, _ in lines], pa.string())
    offsets, data = utf8_buffers(texts)
    bounds = bounds_of(offsets, data, [places for _, places in lines])
    counted = count_sentences(data, bounds, whole_words=True)
    return int(np.maximum(counted, 1).sum())


class Findings:
    """What was compared, and what differed."""

    def __init__(self) -> None:
        self.documents = 0
        self.passing = 0
        self.reasons: dict[str, Counter[str]] = {name: Counter() for name in STEPS}
        self.wrong: dict[str, int] = dict.fromkeys(STEPS, 0)
        self.others: dict[str, int] = dict.fromkeys(STEPS, 0)
        self.examples: list[dict[str, Any]] = []

    def add(
        self,
        name: str,
        texts: list[str],
        theirs: list[str | None],
        ours: list[str | None],
        plain: list[str | None],
    ) -> None:
        for text, their, our, other in zip(texts, theirs, ours, plain, strict=True):
            # A text without words raises in datatrove, whose readers drop it before.
            if their == "error":
                continue
            self.reasons[name][their or "kept"] += 1
            self.others[name] += their != other
            if their != our:
                self.wrong[name] += 1
                self.examples.append({"step": name, "theirs": their, "ours": our, "text": text})
        self.documents += len(texts) if name == "c4" else 0


# -- what is compared


def real_texts(most: int) -> list[str]:
    """Pieces of 500 to 6,000 characters of the real texts: pages and novels, in paragraphs or
    wrapped as they came.
    """
    folder = make_corpus.data_folder()
    pick = random.Random(1)
    sources: list[str] = []
    for path in sorted((folder / "I_prose").rglob("*.txt")):
        text = path.read_text("utf-8", "replace")
        sources.append(
            text if pick.random() < 0.3 else "\n".join(make_corpus.plain_paragraphs(text))
        )
    # English first of all: every third of the other languages' novels.
    for path in sorted((folder / "I_prose").rglob("*.xml"))[::3]:
        sources.append("\n".join(make_corpus.tei_paragraphs(path)))
    out = list(_near_duplicates(folder))
    for text in sources:
        at = 0
        while at + 500 < len(text):
            size = int(pick.triangular(500, 6000, 1200))
            piece = text[at : at + size]
            if len(piece) > 500:
                out.append(piece)
            at += size
    pick.shuffle(out)
    return out[:most]


def _near_duplicates(folder: Path) -> list[str]:
    import gzip

    out = []
    for path in sorted((folder / "C_neardup").rglob("docs.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            out += [
                text for text in (json.loads(line)["text"] for line in lines) if len(text) > 500
            ]
    return out


def planted(real: list[str]) -> list[str]:
    """Real documents made to break one rule: LEAST_REASON times a little more for every reason."""
    pick = random.Random(2)
    english = [
        text for text in real if text.isascii() and len(text.split()) > 150 and text.count("\n") > 2
    ]
    out = []
    for number in range(LEAST_REASON + 40):
        text = english[number * 7 % len(english)]
        tokens = text.split()
        sentence = " ".join(tokens[10:30])
        out += [
            " ".join(tokens[:40]) + " " + "... " * 5,
            " ".join(word[:2] for word in tokens),
            " ".join(word * 4 for word in tokens),
            " ".join(word + (" #" if pick.random() < 0.3 else "") for word in tokens),
            " ".join(word + (" …" if pick.random() < 0.3 else "") for word in tokens),
            "\n".join(
                f"{pick.choice('•-')} {' '.join(tokens[k : k + 6])}"
                for k in range(0, len(tokens) - 6, 6)
            ),
            "\n".join(
                f"{' '.join(tokens[k : k + 9])}{pick.choice(['...', '…', '.'])}"
                for k in range(0, len(tokens) - 9, 9)
            ),
            " ".join(word + (f" {number}{k}" if k % 3 else "") for k, word in enumerate(tokens)),
            " ".join(
                word
                for word in tokens
                if word.lower() not in ("the", "be", "to", "of", "and", "that", "have", "with")
            ),
            "\n\n".join([*[f"{sentence} {k}" for k in range(4)], *[sentence + "."] * 4]),
            "\n\n".join(
                [
                    text[:900],
                    *(f"Part {k} of it." for k in range(9)),
                    text[:500],
                    text[:500],
                    *(f"Piece {k}." for k in range(9)),
                ]
            ),
            "\n".join(
                [
                    *[f"{' '.join(tokens[k : k + 12])}" for k in range(0, 60, 12)],
                    *[sentence[:30]] * 6,
                ]
            ),
            "\n".join(
                [
                    *(" ".join(tokens[k : k + 5]) for k in range(0, 100, 5)),
                    *[" ".join(tokens[:60])] * 3,
                ]
            ),
            " ".join(f"{word} of the" if k % 3 == 0 else word for k, word in enumerate(tokens)),
            " ".join(
                f"{word} in that case" if k % 5 == 0 else word for k, word in enumerate(tokens)
            ),
            " ".join(
                f"{word} and so it goes" if k % 8 == 0 else word for k, word in enumerate(tokens)
            ),
        ]
        for size in range(5, 11):
            run = tokens[3 : 3 + size]
            gap = {5: 22, 6: 26, 7: 34, 8: 45, 9: 55, 10: 68}[size]
            pieces = [
                tokens[k : k + gap] + (run if k else [*run, "once"])
                for k in range(0, len(tokens), gap)
            ]
            out.append(" ".join(word for piece in pieces for word in piece))
        if number < LEAST_REASON + 15:
            out.append("\n".join(tokens[number : number + 90] * 1200)[: 640_000 + number])
        out += [
            text + f"\nLorem ipsum dolor sit amet number {number}.",
            text + "\nA set {1, 2} of numbers stands here.",
            ". ".join([" ".join(tokens[:80])] * 1),
            "\n".join(sentence + f" {k}" for k in range(30)) + ".",
            "\n".join([" ".join(tokens[k : k + 4]) + "." for k in range(0, 120, 4)] + [text[:400]]),
            text.replace("\n", " ") + "\n" + "\n".join([f"{sentence}."] * 2) + "\n" + text[:200],
            "\n".join(f"{' '.join(tokens[k : k + 2])} {'x' * 32}." for k in range(0, 200, 2)),
            "\n".join(["", *tokens[:150]]) + ".",
        ]
    return out


ALPHABET = (
    "a",
    "b",
    "ab",
    "bc",
    "abc",
    "the",
    "be",
    "of",
    "and",
    "word",
    "longerword",
    "é",
    "Straße",
    "日本",
    "ไทย",
    "don't",
    "U.S.",
    "3.14",
    "e.g.",
    ".",
    "!",
    "?",
    "…",
    "...",
    "..",
    "•",
    "-",
    "#",
    "'",
    '"',
    "”",
    "’",
    "(",
    ")",
    "[1]",
    "[edit]",
    "[citation needed]",
    "[",
    "]",
    "{",
    "}",
    "javascript",
    "java[2]script",
    "Lorem ipsum",
    "lorem  ipsum",
    "terms of use",
    "use coo\u212aies",
    "Privacy Policy",
    "x" * 1001,
    "١٢",
    "[١]",
    "\u200b",
    "\x1f",
    "\x85",
    "\u2028",
    "\u00a0",
    "\u3000",
    "。",
    "！",
    "．",
    "؟",
    "\U0001f600",
    "_",
    "http://a.b/c?d=e",
    "a@b.c",
    "--",
    "——",
)
GAPS = (
    " ",
    " ",
    " ",
    " ",
    "",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    "\t",
    "  ",
    " \n",
    "\n ",
    ". ",
    ".\n",
    "\x0b",
    "\x1c",
)


def adversarial(pick: random.Random, count: int) -> list[str]:
    """Short texts of few words and many edges."""
    out = []
    for _ in range(count):
        few = pick.sample(ALPHABET, pick.randint(2, 14))
        gaps = pick.choice((GAPS, (" ", "\n"), (" ",), (" ", ".\n"), ("\n\n", " ")))
        out.append(
            "".join(pick.choice(few) + pick.choice(gaps) for _ in range(pick.randint(1, 90)))
        )
    return [text for text in out if text.strip()]


def random_parameters(pick: random.Random) -> dict[str, dict[str, Any]]:
    """Parameters over their whole range; null disables."""

    def share() -> float | None:
        return pick.choice((None, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9))

    return {
        "gopher": {
            "min_doc_words": pick.choice((None, 1, 5, 20)),
            "max_doc_words": pick.choice((None, 30, 100)),
            "min_avg_word_length": pick.choice((None, 1, 2, 3)),
            "max_avg_word_length": pick.choice((None, 4, 10)),
            "max_symbol_word_ratio": share(),
            "max_bullet_lines_ratio": share(),
            "max_ellipsis_lines_ratio": share(),
            "max_non_alpha_words_ratio": share(),
            "min_stop_words": pick.choice((None, 1, 2, 3)),
            "stop_words": pick.sample(
                ["the", "be", "of", "and", "é", "longerword", "日本", "Straße", "…", "a"], 6
            ),
        },
        "repetition": {
            "dup_line_frac": share(),
            "dup_para_frac": share(),
            "dup_line_char_frac": share(),
            "dup_para_char_frac": share(),
            "top_n_grams": [(n, pick.choice((0.1, 0.2, 0.4, 0.7, 1.0, 2.0))) for n in (2, 3, 4)],
            "dup_n_grams": [
                (n, pick.choice((0.01, 0.1, 0.2, 0.4, 0.7, 1.0))) for n in range(5, 11)
            ],
        },
        "fineweb": {
            "line_punct_thr": pick.choice((0.0, 0.12, 0.3, 0.7)),
            "line_punct_exclude_zero": pick.random() < 0.3,
            "short_line_thr": pick.choice((0.1, 0.5, 0.67, 1.0)),
            "short_line_length": pick.choice((0, 3, 10, 30)),
            "char_duplicates_ratio": pick.choice((0.01, 0.1, 0.3, 1.0)),
            "new_line_ratio": pick.choice((0.1, 0.3, 1.0)),
        },
        "c4": {
            "remove_citations": pick.random() < 0.7,
            "filter_no_terminal_punct": pick.random() < 0.5,
            "min_num_sentences": pick.choice((0, 1, 2, 5)),
            "min_words_per_line": pick.choice((1, 2, 3)),
            "max_word_length": pick.choice((3, 8, 1000)),
            "filter_lorem_ipsum": pick.random() < 0.5,
            "filter_javascript": pick.random() < 0.5,
            "filter_curly_bracket": pick.random() < 0.5,
            "filter_policy": pick.random() < 0.7,
        },
    }


def run(python: str, tasks: list[dict[str, Any]], processes: int = 2) -> Findings:
    """Send tasks through both sides."""
    found = Findings()
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(processes) as pool,
    ):

        def theirs(number: int) -> Path:
            given, out = Path(folder) / f"{number}.in", Path(folder) / f"{number}.out"
            given.write_text("\n".join(map(json.dumps, tasks[number::processes])))
            subprocess.run([python, str(HERE / "parity_peer.py"), str(given), str(out)], check=True)
            return out

        for number, out in enumerate(pool.map(theirs, range(processes))):
            with open(out, encoding="utf-8") as lines:
                for task, line in zip(tasks[number::processes], lines, strict=True):
                    compare(task, json.loads(line), found)
    return found


def table(what: str, found: Findings) -> list[str]:
    """A section of PARITY.md."""
    out = [
        f"## {what}",
        "",
        f"{found.documents:,} documents; {found.passing:,} pass every rule of all four filters.",
        "",
        "| filter | compared | unequal | kept | rarest reason | differs by our own words |",
        "|---|---|---|---|---|---|",
    ]
    for name in STEPS:
        counts = found.reasons[name]
        total = sum(counts.values())
        rarest = min(
            ((count, reason) for reason, count in counts.items() if reason != "kept"),
            default=(0, "none"),
        )
        share = f"{found.others[name]:,} ({100 * found.others[name] / total:.2f} %)"
        out.append(
            f"| {name} | {total:,} | {found.wrong[name]:,} | {counts['kept']:,} | "
            f"{rarest[1]}, {rarest[0]:,} | {share} |"
        )
    out += ["", "Reasons:", ""]
    for name in STEPS:
        counts = found.reasons[name].most_common()
        shown = ", ".join(f"{reason} {count:,}" for reason, count in counts if reason != "kept")
        out.append(f"* {name}: {shown}.")
    return [*out, ""]


HEAD = """# The same verdicts as datatrove

Written by `benchmarks/parity.py`. datatrove's filters Gopher quality, Gopher repetition, FineWeb
and C4 and our steps with `rules = "datatrove-0.10"` judge the same documents. Our kernels get
spaCy's words, which datatrove uses, as word offsets. For each document and filter the first reason,
or its absence, must be equal, and so must the text that C4's rules leave. The last column shows the
effect of our own words (`str.split()`, and our own sentence rule for C4): the share of verdicts or
reasons that change.
"""


def more_planted(real: list[str]) -> list[str]:
    """More of the reasons that are dearest or hardest to plant: a text over 100,000 words, 9-grams
    that come back.
    """
    english = [text for text in real if text.isascii() and len(text.split()) > 150]
    out = []
    for number in range(LEAST_REASON + 15):
        tokens = english[number * 11 % len(english)].split()
        out.append(" ".join(word[:3] for word in tokens * (130_000 // len(tokens) + 1)))
        run = tokens[3:12]
        pieces = [
            tokens[k : k + 55] + (run if k else [*run, "once"]) for k in range(0, len(tokens), 55)
        ]
        out.append(" ".join(word for piece in pieces for word in piece))
    return out


SECTIONS = {
    "real": "Real documents, and planted ones for rare reasons",
    "more": "More planted documents",
    "adversarial": "Adversarial documents, parameters that vary",
}


def tasks_of(section: str, documents: int, fuzz: int) -> list[dict[str, Any]]:
    """What a section compares: texts with datatrove's own parameters, or adversarial ones with
    others.
    """
    if section == "adversarial":
        pick = random.Random(3)
        return [
            {"parameters": random_parameters(pick), "texts": adversarial(pick, 60)}
            for _ in range(fuzz // 60)
        ]
    real = real_texts(documents)
    texts = [*real, *planted(real)] if section == "real" else more_planted(real)
    size = CHUNK if section == "real" else 10
    return [{"parameters": {}, "texts": texts[at : at + size]} for at in range(0, len(texts), size)]


def main() -> int:
    """Compare the sections asked for; write parity.json and PARITY.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "sections", nargs="*", default=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS)
    )
    parser.add_argument("--peers", required=True)
    parser.add_argument("--documents", type=int, default=22_000)
    parser.add_argument("--fuzz", type=int, default=6_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE)
    asked = parser.parse_args()
    kept = asked.out / "parity.json"
    told = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    code = (
        "import importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in "
        "('datatrove', 'spacy', 'numpy')))"
    )
    versions = subprocess.run(
        [asked.peers, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    wrong = []
    for section in asked.sections:
        found = run(asked.peers, tasks_of(section, asked.documents, asked.fuzz), asked.processes)
        wrong += found.examples
        when = (
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}; {versions}, Python "
            f"{sys.version.split()[0]}."
        )
        told[section] = [*table(SECTIONS[section], found), when, ""]
    kept.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    text = (
        HEAD
        + "\n"
        + "\n".join("\n".join(wrapped(told[section])) for section in SECTIONS if section in told)
    )
    (asked.out / "PARITY.md").write_text(text, "utf-8")
    print(text)
    for example in wrong[:5]:
        print(json.dumps(example)[:1500])
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
