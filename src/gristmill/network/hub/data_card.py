"""The card of a data set on the hub: README.md, whose front matter the hub and `datasets` read.

Source: https://huggingface.co/docs/hub/datasets-cards and the hub's datasetcard.md. No clock is in
it: equal corpora have equal cards.
"""

import json
from typing import Any

from gristmill.network.hub import corpus_card
from gristmill.network.hub.dataset_facts import DatasetFacts, hub_licence, languages, licences

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
    """Return what the hub and `datasets` read of a card."""
    header: dict[str, Any] = {}
    notes = list(dict.fromkeys(licences(facts.manifest).values())) or [None]
    words = list(dict.fromkeys(map(hub_licence, notes)))
    header["license"] = words[0] if len(words) == 1 else words
    if "other" in words:
        others = [note for note in notes if note is not None and hub_licence(note) == "other"]
        header["license_name"] = "-".join(", ".join(others).lower().split())[:100]
        header["license_link"] = "#licences"
    if spoken := languages(facts.manifest):
        header["language"] = spoken
    header["pretty_name"] = facts.name.partition("/")[2]
    header["size_categories"] = [size_word(sum(facts.rows.values()))]
    header["task_categories"] = ["text-generation"]
    header["tags"] = ["gristmill", *(["tokenized"] if facts.kind == "tokens" else [])]
    header["configs"] = [
        {
            "config_name": config.name,
            **({"default": True} if config.name == "default" else {}),
            "data_files": [{"split": split, "path": path} for split, path in config.files.items()],
        }
        for config in facts.configs
    ]
    return header


def size_word(rows: int) -> str:
    """Return the hub's word for a number of rows."""
    return next((word for limit, word in SIZES if rows < limit), LARGEST)


def _yaml(table: dict[str, Any]) -> str:
    """YAML in which every value is JSON, which YAML 1.2 contains; block lists, as the hub shows
    them.
    """
    lines = []
    for key, value in table.items():
        if isinstance(value, list):
            lines.append(f"{key}:")
            lines += [f"- {json.dumps(entry, ensure_ascii=False)}" for entry in value]
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
    rows = [(split, f"{count:,}") for split, count in facts.rows.items()]
    blocks = [
        f"# {facts.name}",
        (
            f"{what}, made by gristmill from raw data. "
            "Every byte can be checked: `SHA256SUMS` lists the files of this repository, and "
            "`corpus/manifest.json` those of the corpus and its inputs."
        ),
        f'```python\nfrom datasets import load_dataset\n\nload_dataset("{facts.name}")\n```',
        "## Size\n\n" + corpus_card.table(("split", "rows"), rows),
        *corpus_card.about(manifest),
        *corpus_card.recipe(manifest),
        *(corpus_card.tokens(manifest) if facts.kind == "tokens" else []),
        *corpus_card.limits(manifest),
        *corpus_card.digests(manifest, facts.digest),
        *corpus_card.samples(facts.samples),
    ]
    return "\n\n".join(blocks) + "\n"
