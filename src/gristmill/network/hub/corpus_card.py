"""What is said of a corpus in Markdown: the blocks that its own card (`gristmill card`) and the
card of a data set on the hub (data_card.py) share. From the manifest alone; no clock is in it.
"""

from collections.abc import Sequence
from typing import Any

from gristmill.corpus.funnel import Funnel
from gristmill.errors import NOT_ABSENT, printable
from gristmill.network.hub.dataset_facts import Sample, languages, licences, source_tables
from gristmill.phases.output.write_manifest import recipe_bytes
from gristmill.recipe import is_custom, make_step, step_name
from gristmill.store.manifest import Manifest
from gristmill.tables.schema import document_name

LANGUAGES = 20  # that the card names, of those whose duplicates are looked for otherwise


def about(manifest: Manifest) -> list[str]:
    """Return what is in it, from where, under which licences, and what was dropped how."""
    blocks = [
        "## What was dropped\n\n"
        + _fence("\n".join(Funnel(manifest.funnel).lines()) if manifest.funnel else "nothing")
    ]
    if steps := _steps(manifest):
        blocks.append("## Steps\n\n" + steps)
    if duplicates := _duplicates(manifest):
        blocks.append("## Duplicates\n\n" + duplicates)
    blocks += ["## Sources\n\n" + _sources(manifest), "## Licences\n\n" + _licences(manifest)]
    if spoken := languages(manifest):
        words = ", ".join(f"`{word}`" for word in spoken)
        blocks.append(f"## Languages\n\nThe step language keeps {words}.")
    return blocks


def recipe(manifest: Manifest) -> list[str]:
    """Return the recipe, as it is stored."""
    if not manifest.recipe:
        return []
    text = recipe_bytes(manifest.recipe).decode()
    return ["## Recipe\n\n" + _fence(text.strip(), "toml")]


def tokens(manifest: Manifest) -> list[str]:
    """Return how tokens are to be read."""
    facts = manifest.tokens
    if facts is None:
        return []
    side = {"after": ", after each document", "before": ", before each document", "none": ""}
    rows = [
        ("vocabulary", f"{facts.vocabulary:,}"),
        ("end of text", f"{facts.end_of_text}{side[facts.end_of_text_side]}"),
        *(
            [("begin of text", f"{facts.begin_of_text}, before each document")]
            if isinstance(facts.begin_of_text, int)
            else []
        ),
        ("tokenizer", f"`{facts.tokenizer}` (sha256)"),
    ]
    return ["## Tokens\n\n" + table(("", ""), rows)]


def digests(manifest: Manifest, digest: str) -> list[str]:
    """Return the digests of the manifest, the parts and the inputs."""
    rows = [
        ("manifest.json", f"`{digest}`"),
        ("all parts of the corpus", f"`{manifest.content}`"),
        ("recipe", f"`{manifest.recipe_sha256}`"),
        *((name, f"`{entry['sha256']}`") for name, entry in manifest.inputs.items()),
    ]
    return ["## Digests\n\n" + table(("what", "sha256"), rows)]


def samples(found: Sequence[Sample]) -> list[str]:
    """Return the beginnings of some documents."""
    if not found:
        return []
    shown = ["The beginnings of documents; personal data is redacted in them."]
    for sample in found:
        name = document_name(sample.document)
        shown.append(f"{sample.source}, document {name}:\n\n{_fence(sample.text)}")
    return ["## Samples\n\n" + "\n\n".join(shown)]


def limits(manifest: Manifest) -> list[str]:
    """Return what a reader must not expect."""
    steps = {step_name(step) for step in manifest.recipe.get("step", [])}
    lines = []
    if "private" not in steps:
        lines.append("Personal data was not redacted: the recipe has no step private.")
    else:
        lines.append(
            "E-mail addresses, IP addresses, phone, card and bank numbers were redacted where the "
            "step private finds them; names of people were not, unless the recipe asks for it."
        )
    if "decontaminate" not in steps:
        lines.append("Benchmark items were not looked for.")
    if not manifest.recipe.get("deduplicate"):
        lines.append("Duplicates were not looked for.")
    unknown = [name for name, note in licences(manifest).items() if note is None]
    if unknown:
        lines.append(f"The recipe notes no licence for: {', '.join(map(_cell, unknown))}.")
    absent = sum(shard.missing not in NOT_ABSENT for shard in manifest.raw_shards)
    if absent:
        lines.append(f"{absent:,} of {len(manifest.raw_shards):,} raw shards are absent.")
    return ["## Limits\n\n" + "\n".join(f"* {line}" for line in lines)] if lines else []


def _steps(manifest: Manifest) -> str:
    """Return the steps in order, with the parameters that decide."""
    rows = []
    for place, stored in enumerate(manifest.recipe.get("step", [])):
        name, shown = step_name(stored), "code of its own"
        if not is_custom(stored):
            step = make_step(place, stored)
            values = {key: stored.get(key) for key in sorted(step.thresholds)}
            shown = ", ".join(
                f"{key} {_value(value)}" for key, value in values.items() if value is not None
            )
        only = stored.get("sources")
        rows.append((name, ", ".join(only) if only else "all", shown or "none"))
    return table(("step", "sources", "thresholds"), rows) if rows else ""


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value[:12])) + (" ..." if len(value) > 12 else "")
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _duplicates(manifest: Manifest) -> str:
    settings = manifest.recipe.get("deduplicate")
    if not settings:
        return ""
    rows = [("equal URLs", "dropped" if settings.get("url") else "kept")]
    rows.append(("equal texts", "dropped" if settings.get("exact", True) else "kept"))
    near = settings.get("near")
    if near:
        shown = f"dropped from a similarity of {near['threshold']:g} on, by MinHash and the texts"
        rows.append(("similar texts", shown))
    rows.append(("compared within", str(settings.get("scope", "corpus"))))
    rows += [(f"in {label}", _differing(entry)) for label, entry in _by_language(settings)]
    return table(("", ""), rows)


def _by_language(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the languages with settings of their own, the first few."""
    entries: list[tuple[str, Any]] = list((settings.get("by_language") or {}).items())
    if len(entries) > LANGUAGES:
        entries[LANGUAGES:] = [(f"{len(entries) - LANGUAGES} more languages", {})]
    return entries


def _differing(entry: Any) -> str:
    """Return what differs in a language, in words."""
    if entry is False:
        return "equal and similar texts are kept"
    phrases = []
    if (exact := entry.get("exact")) is not None:
        phrases.append(f"equal texts are {'dropped' if exact else 'kept'}")
    if (near := entry.get("near")) is not None:
        similar = "kept" if near is False else f"dropped from {near['threshold']:g} on"
        phrases.append(f"similar texts are {similar}")
    return ", ".join(phrases) or "settings of their own: recipe.toml"


def _sources(manifest: Manifest) -> str:
    rows = []
    for source in source_tables(manifest):
        shards = [raw for raw in manifest.raw_shards if raw.source == source["name"]]
        documents = sum(raw.documents for raw in shards)
        kept = sum(raw.unique_documents for raw in shards)
        origin = source.get("commoncrawl") or source.get("paths") or ""
        if not origin:
            origin = ", ".join([*source.get("urls", []), *source.get("files", [])][:3])
        rows.append((source["name"], origin, str(len(shards)), f"{documents:,}", f"{kept:,}"))
    if not rows:
        return "Its tokens were imported."
    return table(("source", "origin", "raw shards", "documents", "kept"), rows)


def _licences(manifest: Manifest) -> str:
    rows = [(name, note or "not noted in the recipe") for name, note in licences(manifest).items()]
    return table(("source", "licence"), rows) if rows else "None is noted."


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def _fence(text: str, word: str = "") -> str:
    """Return a text in a fence that nothing in it can end."""
    shown = "\n".join(printable(line) for line in text.splitlines())
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}{word or 'text'}\n{shown}\n{fence}"
