"""The statistics of a corpus as lines of text."""

from typing import Any

BAR = 30  # characters of the longest bar of the histogram


def lines(result: dict[str, Any]) -> list[str]:
    """For people."""
    vocabulary, lengths = result["vocabulary"], result["lengths"]
    out = [
        f"{'tokens':<24}{result['tokens']:>16,}",
        f"{'documents':<24}{result['documents']:>16,}",
        (
            f"{'vocabulary':<24}{vocabulary['size']:>16,}  {vocabulary['used']:,} ids occur "
            f"({100 * vocabulary['share']:.1f} %), {vocabulary['never_used']:,} never"
        ),
    ]
    if "characters" in result:
        reference = result["reference"]
        out += [
            f"{'characters':<24}{result['characters']:>16,}",
            f"{'bytes':<24}{result['bytes']:>16,}",
            f"{'characters a token':<24}{result['characters_per_token']:>16.3f}",
            f"{'bytes a token':<24}{result['bytes_per_token']:>16.3f}",
            (
                f"{'tokens a byte':<24}{result['tokens_per_byte']:>16.4f}  {reference['name']}: "
                f"{reference['tokens_per_byte']:.2f}"
            ),
        ]
    out += ["", *_lengths(lengths)]
    for name, rows in (("split", result["splits"]), ("source", result["sources"])):
        out += ["", *_table(name, rows)]
    if result["languages"] is not None:
        out += ["", *_table("language", result["languages"])]
    if result["domains"]:
        out += ["", f"{'domain':<34}{'tokens':>16}{'share':>9}{'documents':>14}"]
        out += [
            f"{row['domain'] or '(none)':<34}{row['tokens']:>16,}{_percent(row['share'])}"
            f"{row['documents']:>14,}"
            for row in result["domains"]
        ]
        out.append(f"{result['domain_count']:,} domains")
    if result["top_tokens"]:
        out += ["", f"{'token':<10}{'count':>16}{'share':>9}  text"]
        out += [
            f"{row['token']:<10}{row['count']:>16,}{_percent(row['share'])}  {_text(row)}".rstrip()
            for row in result["top_tokens"]
        ]
    if result["utilisation"] is not None:
        out += ["", *_utilisation(result["utilisation"])]
    out += [f"note: {note}" for note in result["notes"]]
    return out + [f"warning: {warning}" for warning in result["warnings"]]


def _lengths(lengths: dict[str, Any]) -> list[str]:
    quantiles = ", ".join(
        f"{100 * float(share):g} % {length:,}" for share, length in lengths["quantiles"].items()
    )
    out = [
        (
            f"tokens a document: mean {lengths['mean']:,.1f}, least {lengths['least']:,}, most "
            f"{lengths['most']:,}; {quantiles}"
        )
    ]
    longest = max((row["documents"] for row in lengths["histogram"]), default=1)
    for row in lengths["histogram"]:
        name = f"{row['least']:,}" + (f" to {row['most']:,}" if row["most"] > row["least"] else "")
        bar = "#" * round(BAR * row["documents"] / longest)
        out.append(f"{name:<24}{row['documents']:>16,}  {bar}".rstrip())
    return out


def _table(name: str, rows: list[dict[str, Any]]) -> list[str]:
    texts = any("characters" in row for row in rows)
    head = f"{name:<20}{'tokens':>16}{'share':>9}{'documents':>12}{'ids':>9}"
    out = [head + (f"{'char/token':>12}{'byte/token':>12}{'token/byte':>12}" if texts else "")]
    for row in rows:
        documents = f"{row['documents']:>12,}" if "documents" in row else f"{'':>12}"
        line = (
            f"{row['name'] or '(none)':<20}{row['tokens']:>16,}{_percent(row['share'])}{documents}"
            f"{row['vocabulary_used']:>9,}"
        )
        if texts:
            line += (
                f"{row['characters_per_token']:>12.3f}{row['bytes_per_token']:>12.3f}"
                f"{row['tokens_per_byte']:>12.4f}"
            )
        out.append(line)
    return out


def _utilisation(used: dict[str, Any]) -> list[str]:
    title = f"sequences of {used['sequence_length']:,}"
    out = [f"{title:<34}{'sequences':>14}{'text':>10}{'read':>10}"]
    return out + [
        f"{row['name']:<34}{row['sequences']:>14,}{_percent(row['utilisation'], 10)}"
        f"{_percent(row['read'], 10)}"
        for row in used["packings"]
    ]


def _text(row: dict[str, Any]) -> str:
    """Return a token's text as Python writes it, or its bytes."""
    if row.get("text") is not None:
        return repr(row["text"])
    return repr(bytes.fromhex(row["bytes"])) if "bytes" in row else ""


def _percent(share: float, width: int = 9) -> str:
    return f"{100 * share:.1f} %".rjust(width)
