"""Make recipes/languages/fineweb2.toml: FineWeb2's thresholds and stop words, as a recipe's
`[languages]` reads them.

    git clone https://github.com/huggingface/fineweb-2
    python scripts/fineweb2_languages.py fineweb-2 100 > recipes/languages/fineweb2.toml
    python scripts/fineweb2_languages.py fineweb-2 > every.toml     # some 1,900 languages

The facts are those of its folder configs/ (Apache License 2.0; Penedo et al. 2025), which
fineweb-2-pipeline.py gives to datatrove's filters. The languages are those with the most bytes in
its fineweb2-language-distribution.csv. Two numbers are written as this project means them:
line_punct_thr of -1 as 0, which no document breaks either, and lengths of words as floats.
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import yaml

HEAD = """\
# Thresholds and stop words of FineWeb2 by language: facts of https://github.com/huggingface/fineweb-2
# (configs/, Apache License 2.0), in the words of this project's steps. Written by
# scripts/fineweb2_languages.py; {what}.
"""


def largest(folder: Path, count: int | None) -> list[str]:
    """The languages with the most bytes, sorted by label."""
    with open(folder / "fineweb2-language-distribution.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train"]
    there = [row for row in rows if (folder / f"configs/{row['subset']}.yml").exists()]
    there.sort(key=lambda row: -int(row["utf8_bytes"]))
    return sorted(row["subset"] for row in there[:count])


def steps_of(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of each step."""
    return {
        "language": {"min_score": facts["language_score"]},
        "repetition": {
            "max_lines": facts["dup_line_frac"],
            "max_top": [limit for _, limit in facts["top_n_grams"]],
            "max_repeated": [limit for _, limit in facts["dup_n_grams"]],
        },
        "fineweb": {
            "min_stopped_lines": max(0.0, float(facts["line_punct_thr"])),
            "max_newlines": facts["new_line_ratio"],
        },
        "gopher": {
            "min_word_length": float(facts["min_avg_word_length"]),
            "max_word_length": float(facts["max_avg_word_length"]),
            "min_letter_words": facts["max_non_alpha_words_ratio"],
            "stop_words": [str(word) for word in facts["stopwords"]],
        },
    }


def main() -> None:
    """Write the file to standard output."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    what = f"the {count} languages with the most text" if count else "all of them"
    print(HEAD.format(what=what), end="")
    for label in largest(folder, count):
        facts = yaml.safe_load((folder / f"configs/{label}.yml").read_text("utf-8"))
        print(f"\n[{label}]")
        for step, parameters in steps_of(facts).items():
            for name, value in parameters.items():
                print(f"{step}.{name} = {json.dumps(value, ensure_ascii=False)}")


if __name__ == "__main__":
    main()
