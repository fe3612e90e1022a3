"""Phases are values: what changes a key runs its phase again and what follows, and nothing else."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w

import gristmill
from gristmill import Near, pipeline
from gristmill.corpus.corpus import Corpus
from gristmill.dedup.settings import Deduplicate, FrequentLines, Substrings
from gristmill.phases.all_phases import NAMES, PHASES, STOPS, is_last
from gristmill.phases.phase import Output, narrow
from gristmill.phases.process.process import PROCESS
from gristmill.recipe import Recipe, Source, load
from gristmill.store.manifest import decode
from gristmill.store.parts import Part
from gristmill.tokens.token_settings import TokenSettings
from tests.support.every_phase import lay_out_all, phases_of

EVERY = [phase.name for phase in PHASES]
P, C, D, V = "process", "corpus_filters", "deduplicate", "write_verdicts"
L, F, S = "count_lines", "frequent_lines", "repeated_substrings"
T, A = "tokenize", "assemble"
OURS = {P, C, D, V, L, F, S, T, A}  # the phases of FIELDS; another one has tests of its own
REMOVED = object()
# A field that is not changed here, and why.
NAMES_SHARDS = "it names raw shards: the plan only grows, and a key holds each shard's digest"
TARGET = "refused beside frequent lines; tests/phases/test_targets.py has it"
OTHER_TABLE = "it is a table: its fields are below"

# Every field of a recipe: another value, and the phases that run again for it, in order.
FIELDS: dict[str, Any] = {
    "output": ("elsewhere", []),
    "seed": (8, [P, T, A]),
    "contact": ("me@mill.example", []),
    "source": OTHER_TABLE,
    "step": OTHER_TABLE,
    "deduplicate": (REMOVED, [P, V, T, A]),
    "tokens": (REMOVED, [T]),
    "mix": ({"weights": {"web": 1.0}}, []),
    "keep_documents": (False, []),
    "keep_dropped": (True, [P]),
    "samples": (5, [P]),
    "measure": ("all", [P, C]),
    "phases": "the tables of phases: each phase's own test has them",
    "source.name": NAMES_SHARDS,
    "source.urls": NAMES_SHARDS,
    "source.files": NAMES_SHARDS,
    "source.commoncrawl": NAMES_SHARDS,
    "source.paths": NAMES_SHARDS,
    "source.sample": NAMES_SHARDS,
    "source.sha256sums": NAMES_SHARDS,
    "source.hub": NAMES_SHARDS,
    "source.subset": NAMES_SHARDS,
    "source.enabled": NAMES_SHARDS,
    "source.target_shards": TARGET,
    "source.target_tokens": TARGET,
    "source.base_url": ("https://mirror.example/", []),
    "source.authorization": ("GRISTMILL_AUTH_TEST", []),
    "source.kind": ("jsonl", [P]),
    "source.text": ("body", EVERY),
    "source.url": ("link", [P, C, V, L, F, S, T]),
    "source.parent": ("origin", []),
    "source.priority": (3, []),
    "source.licence": ("CC0-1.0", []),
    "source.limit": (40, EVERY),
    "source.keep_empty": (True, [P]),
    "source.keep_truncated": (False, [P]),
    "source.max_replaced": (0.5, [P]),
    "source.max_document_bytes": (1 << 20, [P]),
    "source.max_shard_bytes": (1 << 30, [P]),
    # Reasons and similarities stand in verdicts; equal texts give equal tokens.
    "deduplicate.url": (True, [D, V, L, S, T]),
    "deduplicate.normal_urls": (False, [D]),
    "deduplicate.tracking": (["utm_*"], [D]),
    "deduplicate.exact": (False, [D, V, L, S, T]),
    "deduplicate.arabic_marks": (False, [P, D, L, F, S, T]),
    "deduplicate.near": OTHER_TABLE,
    "deduplicate.lines": OTHER_TABLE,
    "deduplicate.substrings": OTHER_TABLE,
    "deduplicate.scope": ("source", [D, V, L, F, S, T, A]),
    "deduplicate.by_language": "refused without languages; test_differing_languages.py has it",
    "deduplicate.order": ("longest", [D, V, L, F, S, T, A]),
    "deduplicate.against": (["older"], [D, V, L, F, S, T, A]),
    "deduplicate.index": (True, [D]),
    "deduplicate.largest_cluster": (1.0, []),
    "deduplicate.near.shingle": (4, [P, D, V, L, S, T]),
    "deduplicate.near.unit": ("characters", [P, D, V, L, S, T]),
    "deduplicate.near.permutations": "it is bands * rows",
    "deduplicate.near.bands": (16, [P, D]),
    "deduplicate.near.rows": (2, [P, D]),
    "deduplicate.near.signs": (False, [P, D, V, L, S, T]),
    "deduplicate.near.arabic_marks": (False, [P, D]),
    "deduplicate.near.threshold": (0.99, [D, V, L, F, S, T, A]),
    "deduplicate.near.floor": (0.75, [D]),
    "deduplicate.near.candidates": (3, [D]),
    "deduplicate.near.keepers": (3, [D]),
    "deduplicate.near.verify": ("signatures", [D, V, L, S, T]),
    "deduplicate.near.group": ("components", [D]),
    "deduplicate.lines.most": (20, [F, S, T]),
    "deduplicate.lines.keep": ("first", [F, S, T, A]),
    "deduplicate.lines.unit": ("paragraphs", [L, F, S, T, A]),
    "deduplicate.lines.least_characters": (20, [L, F, S, T, A]),
    "deduplicate.lines.arabic_marks": (False, [L, F, S, T]),
    "deduplicate.substrings.bytes": (16, [S, T, A]),
    "deduplicate.substrings.most": (2, [S, T, A]),
    "deduplicate.substrings.keep": ("none", [S, T, A]),
    "deduplicate.substrings.boundary": ("lines", [T, A]),
    "deduplicate.substrings.action": ("count", [T, A]),
    "tokens.tokenizer": ("other.json", [T, A]),
    "tokens.end_of_text": ("<|endoftext|>", []),  # the one that the file names
    "tokens.begin_of_text": ("<|endoftext|>", [T, A]),
    "tokens.tokens_per_shard": (7_000, [A]),
    "tokens.validation": (0.3, [T, A]),
    "tokens.order": ("append", [A]),
    "tokens.repeat": "tests/phases/test_repeats.py has it",
    "tokens.partition": "tests/phases/test_repeats.py has it",
}
# Parameters of steps besides: a threshold, one that measures, and one of a step after duplicates.
PARAMETERS = {
    "step.0.min_words": (100, [P, C, V, L, S, T]),
    "step.1.ngram": (12, [P, C]),
    "step.1.common": (3, EVERY),
    "step.2.placeholders": ({"email": "<mail>"}, [T, A]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe that asks for every phase, its corpus, and one of its first documents
    that may be compared against.
    """
    folder = tmp_path_factory.mktemp("made")
    recipe = lay_out_all(folder)
    assert phases_of(recipe, folder / "corpus") == EVERY
    pipeline.run(recipe, out=folder / "older", limit=5, settings={"deduplicate.index": "true"})
    return folder


def changed(made: Path, field: str, value: Any) -> Path:
    """The recipe with one field changed, in its folder; `source.x` is of the first source."""
    recipe = tomllib.loads((made / "recipe.toml").read_text())
    *tables, last = field.split(".")
    place: Any = recipe
    for table in tables:
        place = place[int(table)] if table.isdecimal() else place[table]
        place = place[0] if table == "source" else place
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    path = made / "changed.toml"
    path.write_text(tomli_w.dumps(recipe))
    return path


def test_every_field_of_a_recipe_is_in_the_table() -> None:
    kinds = {
        "": Recipe,
        "source.": Source,
        "deduplicate.": Deduplicate,
        "deduplicate.near.": Near,
        "deduplicate.lines.": FrequentLines,
        "deduplicate.substrings.": Substrings,
        "tokens.": TokenSettings,
    }
    names = [f"{table}{name}" for table, kind in kinds.items() for name in kind.__struct_fields__]
    assert sorted(FIELDS) == sorted(names), "say in FIELDS which phases run again for a new field"
    declared = {field for phase in PHASES for field in phase.recipe}
    for field, case in FIELDS.items():
        if case is NAMES_SHARDS and field != "source.name":
            assert field not in declared


@pytest.mark.parametrize(
    "field", [field for field, case in (FIELDS | PARAMETERS).items() if not isinstance(case, str)]
)
def test_a_changed_field_runs_exactly_these_phases_again(
    made: Path, tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, expected = (FIELDS | PARAMETERS)[field]
    shutil.copytree(made / "corpus", tmp_path / "corpus")
    recipe = changed(made, field, value)
    monkeypatch.setenv("GRISTMILL_AUTH_TEST", "Bearer x")
    ran = phases_of(recipe, tmp_path / "corpus")
    assert [phase for phase in ran if phase in OURS] == [one for one in expected if one in OURS]
    name = "step" if field.startswith("step.") else field
    for place, phase in enumerate(PHASES):
        # A phase runs again for a field that it declares, or for what another wrote anew.
        if phase.name in ran:
            before = [one for one in PHASES[:place] if one.name in ran]
            declares = any(
                name.startswith(given) or given.startswith(name) for given in phase.recipe
            )
            reads = any(set(phase.reads) & set(one.writes) for one in before)
            assert declares or reads, phase.name
    assert phases_of(recipe, tmp_path / "corpus") == []


def test_keys_do_not_know_where_a_corpus_lies(made: Path, tmp_path: Path) -> None:
    recipe = lay_out_all(tmp_path / "other")
    phases_of(recipe, tmp_path / "corpus")
    first, second = Corpus(made / "corpus"), Corpus(tmp_path / "corpus")
    states = sorted((first.work / "state").rglob("*.json"))
    assert {path.parent.name for path in states} == set(EVERY)
    for path in states:
        phase, name = path.parent.name, path.stem
        assert first.last(phase, name).key == second.last(phase, name).key, path  # type: ignore[union-attr]


def test_another_release_of_gristmill_or_pyarrow_runs_nothing_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow

    shutil.copytree(made / "corpus", tmp_path / "corpus")
    manifest = (tmp_path / "corpus/manifest.json").read_bytes()
    monkeypatch.setattr(gristmill, "__version__", "99.0")
    monkeypatch.setattr(pyarrow, "__version__", "98.0")
    assert phases_of(made / "recipe.toml", tmp_path / "corpus") == []
    assert (tmp_path / "corpus/manifest.json").read_bytes() == manifest
    # What else changes is written, and the manifest names the packages of that run.
    assert phases_of(changed(made, "tokens.tokens_per_shard", 7_000), tmp_path / "corpus") == [A]
    named = decode((tmp_path / "corpus/manifest.json").read_bytes()).versions
    assert (named["gristmill"], named["pyarrow"]) == ("99.0", "98.0")


def test_a_raised_format_version_runs_its_phase_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gristmill.corpus.formats import FORMAT_VERSIONS

    for phase in PHASES:
        corpus = tmp_path / phase.name
        shutil.copytree(made / "corpus", corpus)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(FORMAT_VERSIONS, phase.name, "next")
            assert phases_of(made / "recipe.toml", corpus) == [phase.name]


def test_a_phase_sees_only_the_fields_that_it_declares(made: Path) -> None:
    recipe = load(made / "recipe.toml").recipe
    seen = narrow(recipe, ["seed", "source.name", "deduplicate.lines.unit"])
    assert (seen.seed, [source.name for source in seen.source]) == (7, ["web", "docs"])
    assert seen.step == [] and seen.source[0].files == [] and seen.tokens is None
    assert seen.deduplicate is not None and seen.deduplicate.near is None
    assert seen.deduplicate.lines is not None and seen.deduplicate.lines.most is None
    with pytest.raises(AssertionError, match="no field"):
        narrow(recipe, ["tokens.colour"])


def test_a_phase_writes_only_where_it_declares() -> None:
    part = Part("tokens/web/train_00000.bin", 1, "0" * 64)
    with pytest.raises(AssertionError, match="does not declare"):
        PROCESS.check_folders(Output(None, [part]))


def test_the_names_of_the_list_are_those_of_until_and_progress() -> None:
    assert list(NAMES) == ["fetch", *EVERY]
    assert [stop for stop in STOPS if stop in {"plan", "fetch", P, D, T, A}] == list(STOPS)[:6]
    assert [phase.name for phase in PHASES if is_last(phase) and phase.name in OURS] == [P, S, T, A]
    for phase in PHASES:
        assert issubclass(phase.counts, msgspec.Struct), phase.name
