"""Count what peers' code does not have; a count may only fall. Used by `make check`.

    python scripts/english.py

Prints each count beside its limit, and where the first ones are; exit code 1: one is above its
limit. When a count has fallen, lower its limit here.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src/gristmill"
LIMITS = {
    "docstrings of functions without a verb": 362,
    "functions named by a participle": 339,
    "functions named *_of": 33,
    "assignments to `found`": 87,
    "assignments to `one`": 36,
}
# What a docstring begins with when it does not say what the function does.
NO_VERB = re.compile(
    r"[^A-Z]|[A-Z]+[\W\d]|[A-Z][a-z]*[A-Z]|[A-Z]?\w*-|\w+['’]s? |(About|All|An?|Anchors|Another|"
    r"Any|Arrays|As|At|Band|Benchmark|Bit|Both|By|Bytes|Columns|Consecutive|Depth|Digest|Document|"
    r"Documents|Each|Entries|Error|Every|Exact|Few|Files|Filters|For|Frequent|From|Half|Heads|How|"
    r"In|Items|Inputs|It|Its|Jobs|Keys|Lines|Memory|Metadata|Near|No|Nobody|Nothing|Numbers?|Of|On|"
    r"One|Options|Over|Pairs?|Part|Pieces|Plain|Ranks|Room|Rows|Seconds|Settings|Shards|Some|"
    r"Something|Sorted|Sources|Stretches|Texts|The|Their|Those|Threads?|Threshold|Tokens|Two|"
    r"Unusual|Utilisation|Values|What|When|Where|Whether|Which|Whole|Why|With|Without|Words|"
    r"Workers?)\b"
)
PARTICIPLE = re.compile(
    r"_?([a-z]*[^e_]ed|known|found|held|kept|proven|shown|taken|given|drawn|begun|written|left|made|"
    r"sent|met|meant|lost|told|chosen|hidden)(_[a-z0-9_]+)?$"
)
NO_PARTICIPLE = set("need feed seed speed embed shed exceed proceed red bed".split())


def count(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield what a module has: (the name of a count, the line, what it is)."""
    without, participle, of, *rest = LIMITS
    names = dict(zip(("found", "one"), rest, strict=True))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            text = ast.get_docstring(node)
            if text and NO_VERB.match(text):
                yield without, node.lineno, text.splitlines()[0]
            if node.name.endswith("_of"):
                yield of, node.lineno, node.name
            match = PARTICIPLE.match(node.name)
            if match and match[1] not in NO_PARTICIPLE:
                yield participle, node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names:
            yield names[node.id], node.lineno, node.id


def main() -> int:
    """Print the counts; return 1 if one is above its limit."""
    places: dict[str, list[str]] = {name: [] for name in LIMITS}
    for path in sorted(SOURCE.rglob("*.py")):
        for name, line, what in count(path):
            places[name].append(f"{path.relative_to(SOURCE)}:{line}: {what}")
    above = 0
    for name, limit in LIMITS.items():
        print(f"{len(places[name]):6,} of {limit:,}: {name}")
        if len(places[name]) > limit:
            above = 1
            print(*places[name] if "--all" in sys.argv else places[name][:10], sep="\n")
    return above


if __name__ == "__main__":
    raise SystemExit(main())
