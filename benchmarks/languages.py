"""Accuracy of language detection on labelled sets, and the share that each rule drops: `python
languages.py --data DIR`.

FLORES-200 devtest (1,012 sentences per language) and Tatoeba (LASER's 112 languages): the label of
lid.176.ftz for each sentence, for the languages that both know. A sentence has no newline and few
words; accuracy on whole pages is higher.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import documents
import make_corpus
import pyarrow as pa
from section import Section

from gristmill.filters.api.step import Input
from gristmill.filters.language.language import PACKAGED, Language

# ISO 639-3, as the sets name languages, and lid.176's label.
LABELS = dict(
    pair.split(":")
    for pair in (
        "afr:af amh:am ara:ar asm:as ast:ast bel:be ben:bn bod:bo bul:bg cat:ca ceb:ceb "
        "ces:cs ckb:ckb cmn_Hans:zh cmn:zh cym:cy dan:da deu:de "
        "ell:el eng:en epo:eo est:et eus:eu fin:fi fra:fr gla:gd gle:ga glg:gl guj:gu heb:he "
        "hin:hi hrv:hr hun:hu hye:hy ind:id isl:is ita:it "
        "jav:jv jpn:ja kan:kn kat:ka kaz:kk khk:mn khm:km kir:ky kor:ko lao:lo lit:lt "
        "lmo:lmo ltz:lb lvs:lv mal:ml mar:mr mkd:mk mlt:mt mya:my "
        "nld:nl nno:nn nob:no npi:ne oci:oc ory:or pan:pa pes:fa pol:pl por:pt ron:ro rus:ru "
        "san:sa sin:si slk:sk slv:sl som:so spa:es srp_Cyrl:sr "
        "srp:sr sun:su swe:sv swh:sw tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tuk:tk tur:tr "
        "uig:ug ukr:uk urd:ur uzn:uz vie:vi zsm:ms"
    ).split()
)


def told(
    lid: str, texts: list[str], rules: str = "fasttext", keep: str = "en"
) -> tuple[list[str | None], int]:
    """(labels of texts, how many a step that keeps one label at 0.65 removes)."""
    step = Language(keep=[keep], rules=rules, capitals="keep")
    measured = step.load({PACKAGED: Input("lid.176.ftz", lid, "")})(
        pa.RecordBatch.from_pydict({"text": pa.array(texts)})
    )
    reasons = step.decide(measured.measures).reason
    return measured.measures["label"].to_pylist(), len(texts) - reasons.null_count


def rows(data: Path, lid: str, web: Path) -> list[dict[str, Any]]:
    """One row per set: languages, sentences, accuracy over all, and the languages with the lowest
    accuracy; then what rules for English remove.
    """
    found: list[dict[str, Any]] = []
    sets = {
        "FLORES-200 devtest": {
            path.stem: path
            for path in (data / "D_langid/flores200_devtest").rglob("*.devtest")
            if path.is_file()
        },
        "Tatoeba": {
            path.suffix[1:]: path
            for path in (data / "D_langid/tatoeba_laser112").glob("tatoeba.*")
            if path.suffix != ".eng"
        },
    }
    for name, paths in sets.items():
        accuracy: dict[str, float] = {}
        sentences = 0
        for language, path in sorted(paths.items()):
            if language not in LABELS:
                continue
            texts = [
                line for line in path.read_text("utf-8", "replace").split("\n") if line.strip()
            ]
            labels, _ = told(lid, texts)
            accuracy[language] = sum(label == LABELS[language] for label in labels) / len(texts)
            sentences += len(texts)
        worst = sorted(accuracy.items(), key=lambda entry: entry[1])[:5]
        found.append(
            {
                "what": name,
                "languages": len(accuracy),
                "documents": sentences,
                "mean": sum(accuracy.values()) / len(accuracy),
                "median": sorted(accuracy.values())[len(accuracy) // 2],
                "worst": worst,
                "all": accuracy,
            }
        )
    texts = json.loads(web.read_text("utf-8"))["texts"]
    flores = [
        line
        for path in sets["FLORES-200 devtest"].values()
        for line in path.read_text("utf-8", "replace").split("\n")
        if line.strip()
    ]
    for name, some in (
        ("the web texts of this page", texts),
        ("all of FLORES-200 devtest", flores),
    ):
        found.append(
            {
                "what": name,
                "documents": len(some),
                "fasttext": told(lid, some)[1],
                "script": told(lid, some, "script", "Latn")[1],
            }
        )
    return found


def table(found: list[dict[str, Any]]) -> list[str]:
    """The rows in Markdown."""
    lines = [
        "| set | languages | sentences | accuracy, mean of languages | median | lowest |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        if "mean" in row:
            worst = ", ".join(f"{language} {value:.2f}" for language, value in row["worst"])
            lines.append(
                f"| {row['what']} | {row['languages']} | {row['documents']:,} | "
                f"{row['mean']:.3f} | {row['median']:.3f} | {worst} |"
            )
    lines += [
        "",
        (
            '| removed of | documents | `keep = ["en"]`, 0.65 | `rules = "script"`, `keep = '
            '["Latn"]`, 0.65 |'
        ),
        "|---|---|---|---|",
    ]
    for row in found:
        if "script" in row:
            shares = [
                f"{row[name]:,} ({row[name] / row['documents']:.1%})"
                for name in ("fasttext", "script")
            ]
            lines.append(f"| {row['what']} | {row['documents']:,} | {shares[0]} | {shares[1]} |")
    for row in found:
        if "all" in row:
            told = ", ".join(
                f"{language} {value:.3f}" for language, value in sorted(row["all"].items())
            )
            lines += ["", f"{row['what']}, each language: {told}."]
    return lines


def _measure(bench: Any) -> list[dict[str, Any]]:
    web = documents.prepare(bench.data, ["web"])["web"]
    return rows(make_corpus.data_folder(), bench.lid, web)


SECTION = Section(
    name="languages",
    title="Languages: accuracy, and documents dropped",
    remarks=(
        "Labels of lid.176.ftz, as the step `language` computes them (equal to fastText's own, "
        "label and score: tests/filters/models/test_fasttext.py)."
    ),
    measure=_measure,
    table=table,
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--data", "--lid", "--web"):
        parser.add_argument(name, type=Path, required=True)
    asked = parser.parse_args()
    print("\n".join(table(rows(asked.data, str(asked.lid), asked.web))))
