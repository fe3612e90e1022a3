"""Write docs/reference/ from the code (recipe keys, filters, verdicts, commands, Python), and the
stub of `gristmill.filters`, and tables of other pages.

    python scripts/reference.py            write the files
    python scripts/reference.py --check    fail where a file is not what the code says

What a page says comes from one place in the code: of a recipe's key or a filter's parameter the
comment of its field, of a filter's example, its reasons and its measures the filter's class, of an
option its help, of a Python name its docstring. scripts/reference_examples.py has other examples.
tests/test_reference.py compares the files.
"""

import argparse
import re
import sys
from functools import partial
from pathlib import Path

import filter_stub
from reference_examples import TABLES as EXAMPLES
from reference_names import commands_page, filled, linked, python_page

from gristmill.filters.api import registry
from gristmill.filters.api.step import Step
from gristmill.recipe import PHASES, keys
from gristmill.reports.documents.reasons import DEDUPLICATE, READ, TARGET, Reason
from gristmill.source import source_format
from gristmill.trainer_formats import FORMATS, IMPORTED
from gristmill.trainer_formats.kept_texts import TextFormat
from gristmill.trainer_formats.token_format import TrainerFormat

TABLES = EXAMPLES | {
    phase.name: f"[{phase.name}]\n{phase.example}" for phase in PHASES.built_in() if phase.settings
}
ROOT = Path(__file__).parent.parent
COMMAND = "python scripts/reference.py"
MARK = f"<!-- Written by `{COMMAND}` from the code: change the code, then run it. -->\n"


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [row(*heads), "|" + "---|" * len(heads), *(row(*one) for one in rows), ""]


def anchor(place: str) -> str:
    """An anchor for links, such as recipe.md#tokens.validation."""
    return f'<a id="{place}"></a>'


def code(kind: str, text: str) -> list[str]:
    return [f"```{kind}", text.strip("\n"), "```", ""]


def key_rows(place: str, found: list[keys.Key]) -> list[tuple[str, ...]]:
    prefix = f"{place}." if place else ""
    return [
        (
            f"[`{key.name}`]({SECTIONS[prefix + key.name]})"
            if prefix + key.name in SECTIONS
            else f"{anchor(prefix + key.name)}`{key.name}`",
            key.kind,
            "**required**" if key.default is None else shown_default(key),
            linked(key.meaning),
        )
        for key in found
    ]


def shown_default(key: keys.Key) -> str:
    return key.default if key.default == "unset" else f"`{key.default}`"


SECTIONS = {name: f"#{name}" for name in keys.tables()} | {"step": "filters.md"}
KEYS = ("Key", "Type", "Default", "Meaning")


def paragraphs(text: str | None) -> list[str]:
    """A text in Markdown with paragraphs and lists, in lines of at most 98 columns."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", linked((text or "").strip())):
        for item in re.split(r"\n(?=\* )", block):
            lines += filled(" ".join(item.split()))
        lines.append("")
    return lines


def page(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


RECIPE_INTRO = """
A recipe is one TOML file. Only `[[source]]` must be there. *Unset* means that the key has no value
until you write one; TOML has no null. An unknown key is an error that names the line and the key
that was probably meant. Every key can be set from the command line as well: `gristmill run
recipe.toml --set deduplicate.near.threshold=0.9`. All keys are of gristmill 0.1.0; a key that comes
later says so. The parameters of `[[step]]` are on the page of the [filters](filters.md).
"""


def recipe_page() -> str:
    lines = ["# Recipe: every key", "", MARK, *paragraphs(RECIPE_INTRO)]
    lines += table(
        ("Table", "What it is"),
        [
            (f"[{heading(place)}](#{place or 'top'})", linked(first_sentence(kind.__doc__)))
            for place, kind in keys.tables().items()
        ],
    )
    for place, kind in keys.tables().items():
        lines += [f"## {anchor(place or 'top')}{heading(place)}", "", *paragraphs(kind.__doc__)]
        lines += code("toml", TABLES[place])
        found = keys.table_keys(kind)
        own = [key for key in found if place != "mix.stage" or key.name in keys.OWN_OF_A_STAGE]
        lines += table(KEYS, key_rows(place, own))
        if len(own) < len(found):
            names = ", ".join(f"[`{key.name}`](#mix.{key.name})" for key in found if key not in own)
            lines += [*filled(f"And as in `[mix]`: {names}."), ""]
    return page(lines)


def heading(place: str) -> str:
    if not place:
        return "Keys of the recipe itself"
    return f"`[[{place}]]`" if place in keys.LISTS else f"`[{place}]`"


def first_sentence(text: str | None) -> str:
    return re.split(r"(?<=[.])\s", " ".join((text or "").split()))[0]


FILTERS_INTRO = """
Each `[[step]]` of a recipe names one of these with `use`, or a filter of your own ([custom
filters](../custom-filters.md)). [Filters](../filters.md) says how they work together.

* *Parameters* are keys of the `[[step]]` table; *unset* means no value until you write one. A limit
  may be `None` in Python, and is then not checked; TOML has no null, so write a limit that no
  document breaks. Every step has `sources` as well: the names of the sources that it applies to
  (unset: all). A parameter marked **r** can be changed by `gristmill rejudge`, from the stored
  measures, without reading any text. A step that judges documents one by one also has
  `by_language` and `language_of`: parameters that [differ by
  language](../filters.md#parameters-by-language).
* *Reasons* are why it drops a document; the verdict says `STEP.REASON`. What to do about each is on
  the page of the [verdicts](verdicts.md).
* *Measures* are the columns of `measures/`, `STEP.MEASURE`, for every document that the step sees.
"""


def filters_page() -> str:
    steps = list(registry.all_built_in())
    lines = ["# Filters: parameters, reasons and measures", "", MARK, *paragraphs(FILTERS_INTRO)]
    listed = (f"* [`{step.name}`](#{step.name}): {first_sentence(step.__doc__)}" for step in steps)
    lines += paragraphs("\n".join(listed))
    for step in steps:
        kinds = registry.variants(step)
        lines += [f"## {anchor(step.name)}`{step.name}`", ""]
        for place, kind in enumerate(kinds):
            if len(kinds) > 1:
                lines += [f"### {anchor(kind.__name__)}{variant_name(kind)}", ""]
            lines += paragraphs(kind.__doc__)
            lines += code("toml", kind.example_table())
            lines += step_tables(kind, place)
    return page(lines)


def variant_name(kind: type[Step]) -> str:
    """The value of `rules` that means a variant: the default's says so."""
    found = (
        next(key for key in keys.table_keys(kind) if key.name == "rules")
        if ("rules" in kind.__struct_fields__)
        else None
    )
    if found is None:
        return "Without `rules`"
    default = f" (default `{found.default}`)" if found.default else ""
    return f"`rules` = {found.kind}{default}"


def step_tables(kind: type[Step], place: int) -> list[str]:
    own = [key for key in keys.table_keys(kind) if key.name != "sources"]
    name = f"{kind.name}" if place == 0 else kind.__name__
    rows = [
        (key + " **r**" if name_of(key) in kind.thresholds else key, *rest)
        for key, *rest in key_rows(name, own)
    ]
    lines = table(("Parameter", "Type", "Default", "Meaning"), rows) if rows else []
    for hint in keys.tables_inside(kind):
        lines += [f"Keys of `{hint[0]}`:", ""]
        lines += table(KEYS, key_rows(f"{name}.{hint[0]}", keys.table_keys(hint[1])))
    if kind.reasons:
        lines += table(
            ("Reason", "The document"),
            [
                (f"[`{kind.name}.{reason}`](verdicts.md#{kind.name}.{reason})", said)
                for reason, said in kind.reasons.items()
            ],
        )
    if kind.measures:
        lines += table(
            ("Measure", "What it is"),
            [(f"`{kind.name}.{measure}`", said) for measure, said in kind.measures.items()],
        )
    return lines


def name_of(cell: str) -> str:
    return cell.rpartition("</a>")[2].strip("`")


VERDICTS_INTRO = """
Every document has one row in `verdicts/`: kept (`reason` is null), or dropped for the first reason
that applied. `gristmill why CORPUS DOCUMENT` shows the verdict of a document with its measures,
`gristmill status CORPUS` the numbers for each reason. The columns are in [the
format](../format.md).

`gristmill rejudge CORPUS --set step.NAME.PARAMETER=VALUE` says what other thresholds would keep,
from the stored measures. For all other parameters change the recipe and run it again: only what
they change is done again.

* [read](#read): the row of a raw shard is not a readable document.
* [filters](#filters): a `[[step]]` dropped it.
* [deduplicate](#deduplicate): it is a copy of a document that is kept.
* [target](#target): its source had enough.
"""
READ_NOTE = """
The verdict's `value` is the byte (or the row) at which it starts in the shard; for `http_status` it
is the status.
"""
FILTERS_NOTE = """
The verdict's `value` is the measure that decided, `threshold` what it was compared with. A step
that rewrites text drops a document of which nothing is left as `STEP.empty`. A filter of your own
gives reasons of its own.
"""
DEDUPLICATE_NOTE = """
The verdict's `keeper` is the document that is kept, `similarity` how similar the two are.
"""
TARGET_NOTE = "`value` is the source's tokens, `threshold` the target."


def verdicts_page() -> str:
    lines = ["# Verdicts: every reason to drop a document", "", MARK, *paragraphs(VERDICTS_INTRO)]
    rooms = (
        ("read", "`read`: rows that are not documents", READ, READ_NOTE),
        ("deduplicate", "`deduplicate`: copies", DEDUPLICATE, DEDUPLICATE_NOTE),
        ("target", "`target`: a source had enough", TARGET, TARGET_NOTE),
    )
    written = {
        name: [f"## {anchor(name)}{title}", "", *paragraphs(note), *room_rows(name, reasons)]
        for name, title, reasons, note in rooms
    }
    lines += written["read"]
    lines += [f"## {anchor('filters')}Filters", "", *paragraphs(FILTERS_NOTE)]
    rows: list[tuple[str, ...]] = []
    for step in registry.all_built_in():
        for kind in registry.variants(step):
            for reason, said in kind.reasons.items():
                full = f"{kind.name}.{reason}"
                mark = "" if any(f'"{full}"' in one[0] for one in rows) else anchor(full)
                rows.append((f"{mark}`{full}`", said, remedy(kind, said, kind is step)))
    lines += table(("Reason", "The document", "What to do"), rows)
    return page([*lines, *written["deduplicate"], *written["target"]])


def room_rows(name: str, reasons: "dict[str, Reason]") -> list[str]:
    rows = [
        (f"{anchor(f'{name}.{reason}')}`{name}.{reason}`", said.meaning, said.remedy)
        for reason, said in reasons.items()
    ]
    return table(("Reason", "The document", "What to do"), rows)


def remedy(kind: type[Step], said: str, first: bool) -> str:
    """What to do about a filter's reason: which parameter decides, and how to try another value."""
    fields = [key.name for key in keys.table_keys(kind)]
    named = [word for word in re.findall(r"`(\w+)`", said) if word in fields]
    tried = [word for word in named if word in kind.thresholds]
    if tried:
        return f"Try `rejudge --set step.{kind.name}.{tried[-1]}=...`"
    place = kind.name if first else kind.__name__
    links = " or ".join(f"[`{word}`](filters.md#{place}.{word})" for word in named)
    return f"Change {links}, and run again" if named else ""


def source_formats() -> list[str]:
    """The formats of raw shards."""
    found = sorted(source_format.FORMATS.built_in(), key=lambda one: (one.order, one.name))
    cells = [(f"`{one.name}`", one.recognised, one.row) for one in found]
    return table(("kind", "recognised by", "a row is"), cells)


def trainer_formats() -> list[str]:
    """The formats of tokens that are written."""
    cells = [
        (
            f"`{one.name}`",
            one.files,
            one.holds,
            one.side,
            "one stream" if one.one_stream else "apart",
            one.checked,
        )
        for one in FORMATS.built_in()
        if isinstance(one, TrainerFormat)
    ]
    return table(("`--to`", "files", "token", "end of text", "sources", "checked with"), cells)


def text_formats() -> list[str]:
    """The formats of text that are written."""
    found = [one for one in FORMATS.built_in() if isinstance(one, TextFormat)]
    cells = [(f"`{one.name}`", one.files, one.fields) for one in found]
    return table(("`--to`", "files", "fields"), cells)


def imported_formats() -> list[str]:
    """The formats of tokens that are read."""
    found = IMPORTED.built_in()
    cells = [(f"`{one.name}`", one.files, one.boundaries, one.end_of_text) for one in found]
    return table(("`--from`", "which files", "document boundaries", "end of text"), cells)


# Tables of other pages, between the comments `<!-- NAME -->` and `<!-- end -->`.
WITHIN = {
    "docs/format.md": {"source formats": source_formats},
    "docs/trainer-formats.md": {
        "formats of tokens": trainer_formats,
        "formats of text": text_formats,
        "imported formats": imported_formats,
    },
}


def page_with_tables(name: str) -> str:
    """The text of a page, with the tables that are written from the code."""
    text = (ROOT / name).read_text("utf-8")
    for title, rows in WITHIN[name].items():
        before, mark, rest = text.partition(f"<!-- {title} -->\n")
        after = rest[rest.index("<!-- end -->") :]
        text = before + mark + "\n" + "\n".join(rows()) + "\n" + after
    return text


PAGES = {
    **{name: partial(page_with_tables, name) for name in WITHIN},
    "docs/reference/recipe.md": recipe_page,
    "docs/reference/filters.md": filters_page,
    "docs/reference/verdicts.md": verdicts_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/python.md": python_page,
    filter_stub.PATH: filter_stub.stub,
}


def wrong() -> list[str]:
    """Return the files that are not what the code says."""
    return [
        name
        for name, page in PAGES.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text("utf-8") != page()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/reference/ and a stub.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where it differs")
    if parser.parse_args().check:
        if found := wrong():
            sys.exit(f"{', '.join(found)}: not as the code says: run {COMMAND}")
        return
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
