"""Croissant 1.0: a data set's description in JSON-LD, which search engines and loaders read.

Source: MLCommons, Croissant Format Specification 1.0 (https://docs.mlcommons.org/croissant/).
In a copy of the repository mlcroissant reads all rows:
`mlcroissant.Dataset(jsonld="croissant.json").records("documents")`. Every file is listed with its
sha256; the rows are read through the set of files, which belongs to no archive, as mlcroissant
joins no files that are listed one by one.
"""

from typing import Any

import pyarrow as pa

from gristmill.network.hub.dataset_facts import DatasetFacts, Sample, licence_page, licences

CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
FILES, RECORDS = "parquet-files", "documents"


def croissant(facts: DatasetFacts) -> dict[str, Any]:
    """Return the description of a data set; its files are named relative to it."""
    noted = [note for note in licences(facts.manifest).values() if note is not None]
    description: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.name.partition("/")[2],
        "description": _description(facts),
        "url": facts.address,
        # A digest, not a date: equal corpora have equal descriptions.
        "version": f"1.0.0+{facts.manifest.content[:12]}",
    }
    if noted:
        description["license"] = [licence_page(note) for note in dict.fromkeys(noted)]
    description["additionalProperty"] = [
        {"@type": "sc:PropertyValue", "name": name, "value": value}
        for name, value in _proofs(facts).items()
    ]
    description["distribution"] = _distribution(facts)
    description["recordSet"] = [_records(facts)]
    return description


def _description(facts: DatasetFacts) -> str:
    funnel = facts.manifest.funnel
    counted = (
        f"{funnel['kept']:,} of {funnel['documents']:,} documents are kept. "
        if {"kept", "documents"} <= funnel.keys()
        else ""
    )
    steps = "; ".join(
        f"{step['step']} drops {step['dropped']:,}" for step in funnel.get("steps", [])
    )
    what = "Texts" if facts.kind == "text" else "Tokens of texts"
    return (
        f"{what} that gristmill made from raw data by the recipe in corpus/recipe.toml. {counted}"
        f"{f'Of all documents: {steps}.' if steps else ''}".strip()
    )


def _proofs(facts: DatasetFacts) -> dict[str, str]:
    proofs = {
        "gristmill manifest sha256": facts.digest,
        "gristmill content sha256": facts.manifest.content,
        "gristmill recipe sha256": facts.manifest.recipe_sha256,
    }
    if facts.manifest.tokens is not None:
        proofs["gristmill tokenizer sha256"] = facts.manifest.tokens.tokenizer
    return proofs


def _distribution(facts: DatasetFacts) -> list[dict[str, Any]]:
    """Return each file with its sha256, and the set of all of them."""
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": part.path,
            "name": part.path,
            "contentUrl": part.path,
            "contentSize": f"{part.size} B",
            "encodingFormat": "application/x-parquet",
            "sha256": part.sha256,
        }
        for part in facts.files
    ]
    together = {
        "@type": "cr:FileSet",
        "@id": FILES,
        "name": FILES,
        "encodingFormat": "application/x-parquet",
        "includes": "data/*.parquet",
    }
    return [*files, together]


def _records(facts: DatasetFacts) -> dict[str, Any]:
    fields = [_field(facts.schema.field(place)) for place in range(len(facts.schema))]
    records = {
        "@type": "cr:RecordSet",
        "@id": RECORDS,
        "name": RECORDS,
        "key": {"@id": f"{RECORDS}/document"},
        "field": fields,
    }
    if facts.kind == "text" and facts.samples:
        records["examples"] = [_example(sample) for sample in facts.samples]
    return records


def _example(sample: Sample) -> dict[str, Any]:
    return {f"{RECORDS}/document": sample.document, f"{RECORDS}/text": sample.text}


def _field(field: pa.Field) -> dict[str, Any]:
    kind, repeated = field.type, False
    if pa.types.is_list(kind):
        kind, repeated = kind.value_type, True
    description = {
        "@type": "cr:Field",
        "@id": f"{RECORDS}/{field.name}",
        "name": field.name,
        "dataType": _word(kind),
        "source": {"fileSet": {"@id": FILES}, "extract": {"column": field.name}},
    }
    if repeated:
        description["repeated"] = True
    return description


def _word(kind: pa.DataType) -> str:
    """schema.org's word for a type; a structure is text, as JSON."""
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Boolean" if pa.types.is_boolean(kind) else "sc:Text"
