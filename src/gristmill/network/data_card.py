"""The card of a data set on the hub: README.md, whose front matter the hub and `datasets` read.

Source: https://huggingface.co/docs/hub/datasets-cards and the hub's datasetcard.md. No clock is in
it: equal corpora have equal cards.
"""

import json
from collections.abc import Sequence
from typing import Any

from gristmill.corpus.funnel import Funnel
from gristmill.errors import printable
from gristmill.network.dataset_facts import (
    DatasetFacts,
    hub_licence,
    languages,
    licences,
    sources_of,
)
from gristmill.phases.output.write_manifest import recipe_bytes
from gristmill.schema import document_name

SIZES = (  # of the hub: rows below, and the word
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
    (10_000_000_000, "1B<n<10B"),
    (100_000_000_000, "10B<n<100B"),
    (1_000_000_000_000, "100B<n<1T"),
)
LARGEST = "n>1T"


def data_card(facts: DatasetFacts) -> str:
    """README.md."""
    return f"---\n{_yaml(front_matter(facts))}---\n\n{_body(facts)}"


def front_matter(facts: DatasetFacts) -> dict[str, Any]:
    """What the hub and `datasets` read of a card."""
    found: dict[str, Any] = {}
    notes = list(dict.fromkeys(licences(facts.manifest).values())) or [None]
    words = list(dict.fromkeys(map(hub_licence, notes)))
    found["license"] = words[0] if len(words) == 1 else words
    if "other" in words:
        others = [note for note in notes if note is not None and hub_licence(note) == "other"]
        found["license_name"] = "-".join(", ".join(others).lower().split())[:100]
        found["license_link"] = "#licences"
    if spoken := languages(facts.manifest):
        found["language"] = spoken
    found["pretty_name"] = facts.name.partition("/")[2]
    found["size_categories"] = [size_word(sum(facts.rows.values()))]
    found["task_categories"] = ["text-generation"]
    found["tags"] = ["gristmill", *(["tokenized"] if facts.kind == "tokens" else [])]
    found["configs"] = [
        {
            "config_name": config.name,
            **({"default": True} if config.name == "default" else {}),
            "data_files": [{"split": split, "path": path} for split, path in config.files.items()],
        }
        for config in facts.configs
    ]
    return found


def size_word(rows: int) -> str:
    """The hub's word for a number of rows."""
    return next((word for limit, word in SIZES if rows < limit), LARGEST)


def _yaml(table: dict[str, Any]) -> str:
    """YAML in which every value is JSON, which YAML 1.2 contains; block lists, as the hub shows
    them.
    """
    lines = []
    for key, value in table.items():
        if isinstance(value, list):
            lines.append(f"{key}:")
            lines += [f"- {json.dumps(one, ensure_ascii=False)}" for one in value]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "".join(f"{line}\n" for line in lines)


def _body(facts: DatasetFacts) -> str:
    manifest = facts.manifest
    what = (
        "The kept documents as text, with all their fields"
        if facts.kind == "text"
        else "The tokens of the kept documents, a row for each document"
    )
    blocks = [
        f"# {facts.name}",
        (
            f"{what}, made by [gristmill](https://pypi.org/project/gristmill/) from raw data. "
            "Every byte can be checked: `SHA256SUMS` lists the files of this repository, and "
            "`corpus/manifest.json` those of the corpus and its inputs."
        ),
        f'```python\nfrom datasets import load_dataset\n\nload_dataset("{facts.name}")\n```',
        "## Size\n\n" + _table(("split", "rows"), [(k, f"{v:,}") for k, v in facts.rows.items()]),
        "## What was dropped\n\n"
        + _fenced("\n".join(Funnel(manifest.funnel).lines()) if manifest.funnel else "nothing"),
        "## Sources\n\n" + _sources(facts),
        "## Licences\n\n" + _licences(facts),
    ]
    if manifest.recipe:
        recipe = recipe_bytes(manifest.recipe).decode()
        blocks.append("## Recipe\n\n" + _fenced(recipe.strip(), "toml"))
    if manifest.tokens is not None and facts.kind == "tokens":
        blocks.append("## Tokens\n\n" + _tokens(facts))
    blocks.append("## Digests\n\n" + _digests(facts))
    if facts.samples:
        blocks.append("## Samples\n\n" + _samples(facts))
    return "\n\n".join(blocks) + "\n"


def _sources(facts: DatasetFacts) -> str:
    rows = []
    for one in sources_of(facts.manifest):
        shards = [raw for raw in facts.manifest.raw_shards if raw.source == one["name"]]
        documents = sum(raw.documents for raw in shards)
        kept = sum(raw.unique_documents for raw in shards)
        origin = one.get("commoncrawl") or one.get("paths") or ""
        if not origin:
            origin = ", ".join([*one.get("urls", []), *one.get("files", [])][:3])
        rows.append((one["name"], origin, str(len(shards)), f"{documents:,}", f"{kept:,}"))
    if not rows:
        return "Its tokens were imported."
    return _table(("source", "origin", "raw shards", "documents", "kept"), rows)


def _licences(facts: DatasetFacts) -> str:
    rows = [
        (name, note or "not noted in the recipe") for name, note in licences(facts.manifest).items()
    ]
    return _table(("source", "licence"), rows) if rows else "None is noted."


def _tokens(facts: DatasetFacts) -> str:
    found = facts.manifest.tokens
    assert found is not None
    rows = [
        ("vocabulary", f"{found.vocabulary:,}"),
        ("end of text", f"{found.end_of_text}, after each document"),
        ("tokenizer", f"`{found.tokenizer}` (sha256)"),
    ]
    return _table(("", ""), rows)


def _digests(facts: DatasetFacts) -> str:
    rows = [
        ("manifest.json", f"`{facts.digest}`"),
        ("all parts of the corpus", f"`{facts.manifest.content}`"),
        ("recipe", f"`{facts.manifest.recipe_sha256}`"),
        *((name, f"`{one['sha256']}`") for name, one in facts.manifest.inputs.items()),
    ]
    return _table(("what", "sha256"), rows)


def _samples(facts: DatasetFacts) -> str:
    shown = ["The beginnings of documents; personal data is redacted in them."]
    for sample in facts.samples:
        name = document_name(sample.document)
        shown.append(f"{sample.source}, document {name}:\n\n{_fenced(sample.text)}")
    return "\n\n".join(shown)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def _fenced(text: str, word: str = "") -> str:
    """A text in a fence that nothing in it can end."""
    shown = "\n".join(printable(line) for line in text.splitlines())
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}{word or 'text'}\n{shown}\n{fence}"
