"""The last sections: tokens, speed, provenance."""

from typing import Any

from gristmill.phases.output.write_manifest import recipe_bytes
from gristmill.reports.page import charts
from gristmill.reports.page.facts import Facts
from gristmill.reports.page.figures import MOST_TOKENS
from gristmill.reports.page.markup import (
    Html,
    details,
    joined,
    number,
    section,
    share,
    short,
    table,
    tag,
)

TOP = 12


def tokens(one: Facts) -> Html:
    """Return tokens by source and language, and the most frequent ones."""
    funnel = one.manifest.funnel
    if one.manifest.tokens is None or "tokens" not in funnel:
        return Html("")
    parts: list[Html] = []
    if one.stats is None:
        if funnel["tokens"] > MOST_TOKENS:
            parts.append(
                tag(
                    "p",
                    "CorpusTables by source and language take a while for so large a corpus: ",
                    tag("code", f"gristmill stats {one.folder}"),
                )
            )
    else:
        parts += [_rates(one.stats), _frequent(one.stats)]
    vocabulary = one.manifest.tokens
    text = (
        f"{number(funnel['tokens'])} tokens of a vocabulary of {number(vocabulary.vocabulary)}, as "
        f"{vocabulary.dtype}: {number(funnel.get('train_tokens'))} in "
        f"{number(funnel.get('train_shards'))} shards for training, "
        f"{number(funnel.get('validation_tokens'))} for validation."
    )
    return section("tokens", "Tokens", text, *parts)


def _rates(found: dict[str, Any]) -> Html:
    """Return tokens a byte, by source and language."""
    rows: list[tuple[object, ...]] = []
    for what in ("sources", "languages"):
        for row in (found.get(what) or [])[:TOP]:
            name = row["name"] or "(no language)"
            rows.append(
                (
                    tag("span", name, tag("span", f" {what[:-1]}", class_="muted")),
                    short(row["tokens"]),
                    share(row["share"], 1.0),
                    *_per(row),
                )
            )
    rows.append(("all", short(found["tokens"]), "", *_per(found)))
    head = ("", "tokens", "share", "tokens a byte", "characters a token")
    return table(head, rows, (1, 2, 3, 4))


def _per(row: dict[str, Any]) -> tuple[str, str]:
    """Return tokens a byte and characters a token, where they are known."""
    if "tokens_per_byte" not in row:
        return "–", "–"
    return f"{row['tokens_per_byte']:.3f}", f"{row['characters_per_token']:.2f}"


def _frequent(found: dict[str, Any]) -> Html:
    rows = [
        (tag("code", repr(row.get("text", row["token"]))), row["count"], share(row["share"], 1))
        for row in found["top_tokens"][:TOP]
    ]
    used = found["vocabulary"]
    return details(
        f"The most frequent tokens; {share(used['used'], used['size'])} of the vocabulary is used",
        charts.columns(rows),
    )


def speed(one: Facts) -> Html:
    """Return seconds by phase, MB a second by step."""
    seconds = one.run.get("phase_seconds") or {}
    rates = one.run.get("megabytes_per_second") or {}
    if not seconds and not rates:
        return Html("")
    blocks = []
    if seconds:
        rows = [(name, took, f"{took:,.1f} s") for name, took in seconds.items()]
        blocks.append(_card("Seconds by phase", "of the run that wrote the manifest", rows))
    if rates:
        rows = [(name, rate, f"{rate:,.1f} MB/s") for name, rate in rates.items()]
        note = "MB of text a second of processor time, all that the step was given"
        blocks.append(_card("Text by step", note, rows))
    lead = f"On {one.run.get('machine', 'a machine that is not named')}."
    return section("speed", "Speed", lead, tag("div", *blocks, class_="cards"))


def _card(title: str, note: str, rows: list[tuple[str, float, str]]) -> Html:
    return tag(
        "article",
        tag("h3", title),
        tag("p", note, class_="note"),
        charts.columns(rows),
        class_="card",
    )


def provenance(one: Facts) -> Html:
    """Return what it was made from, by which code, and how to check it."""
    manifest = one.manifest
    rows = [
        ("manifest.json", one.digest),
        ("all parts", manifest.content),
        ("recipe", manifest.recipe_sha256),
        *((name, entry["sha256"]) for name, entry in manifest.inputs.items() if "sha256" in entry),
    ]
    shown = [(name, tag("code", digest, class_="digest")) for name, digest in rows]
    missing: dict[str, int] = {}
    for shard in manifest.raw_shards:
        if shard.missing is not None:
            missing[shard.missing] = missing.get(shard.missing, 0) + 1
    parts = [table(("", "sha256"), shown)]
    if missing:
        words = ", ".join(f"{number(count)} {reason}" for reason, count in missing.items())
        parts.append(tag("p", f"Raw shards that are absent: {words}."))
    parts += [
        details("Versions", table(("", "version"), list(manifest.versions.items()))),
        _shards(one),
    ]
    if manifest.recipe:
        recipe = recipe_bytes(manifest.recipe).decode()
        parts.append(details("Recipe, as the corpus stores it", tag("pre", recipe, tabindex="0")))
    commands = joined(
        tag("code", line)
        for line in (
            f"gristmill verify {one.folder}",
            f"gristmill why {one.folder} DOCUMENT",
            f"gristmill rejudge RECIPE --out {one.folder}",
        )
    )
    parts.append(tag("p", commands, class_="commands"))
    return section("provenance", "Where it comes from", "", *parts)


def _shards(one: Facts) -> Html:
    shards = one.manifest.raw_shards
    rows = [
        (
            f"{shard.number}",
            shard.source,
            tag("span", shard.url, class_="url"),
            number(shard.documents),
            number(shard.unique_documents),
        )
        for shard in shards[:100]
    ]
    more = tag("p", f"and {number(len(shards) - 100)} more: plan.json", class_="note")
    return details(
        f"{number(len(shards))} raw shards",
        table(("", "source", "file", "documents", "kept"), rows, (0, 3, 4)),
        more if len(shards) > 100 else None,
    )
