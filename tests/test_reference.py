"""docs/reference/ and a stub are what the code says; examples are recipes, all has a sentence."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gristmill.filters.api import registry
from gristmill.recipe import keys, parse
from gristmill.reports.documents.reasons import READ, filter_reason, meaning
from tests.support import ROOT

SOURCE = '[[source]]\nname = "web"\nfiles = ["a"]\n[[source]]\nname = "own"\nfiles = ["b"]\n'
TOKENS = '[tokens]\ntokenizer = "gpt2"\n'


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """scripts/reference.py."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("reference")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def test_files_are_what_the_code_says(reference: ModuleType) -> None:
    assert reference.wrong() == [], f"run {reference.COMMAND}"


def test_a_page_that_differs_is_named(
    reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "PAGES", {"a.md": lambda: "a", "b.md": lambda: "b"})
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "b.md").write_text("older")
    assert reference.wrong() == ["b.md"]


def test_examples_are_recipes(reference: ModuleType) -> None:
    assert set(reference.TABLES) == set(keys.tables())
    for name, shown in reference.TABLES.items():
        text = shown
        before = SOURCE if name != "source" else ""
        if name == "mix.stage":
            before = SOURCE + reference.TABLES["mix"]
        step = '[[step]]\nuse = "language"\nkeep = ["en", "fr"]\n'
        if name.startswith("tokens."):
            before = SOURCE + step + "[deduplicate]\n" + TOKENS
        if name.startswith("deduplicate.by_language."):
            before = SOURCE + step + '[deduplicate]\nscope = "language"\nnear = {}\n'
        if name == "languages":
            judged = ("gopher", "repetition", "fineweb")
            others = "".join(f'[[step]]\nuse = "{one}"\n' for one in judged)
            others = others.replace('"gopher"', '"gopher"\nrules = "datatrove-0.10"')
            before, text = text, SOURCE + step + others
        whole = text + SOURCE if name == "" else before + text
        parse(whole, name)
    given = '[[step]]\nuse = "classifier"\nmodel = "a"\n'
    for step in registry.all_built_in():
        for kind in registry.variants(step):
            before = SOURCE + (given if step.name == "ensemble" else "")
            recipe = parse(before + kind.example_table(), kind.__name__)
            assert type(recipe.all_steps("web")[-1]) is kind


def test_everything_has_a_sentence() -> None:
    classes = [*keys.tables().values()]
    for step in registry.all_built_in():
        for kind in registry.variants(step):
            classes += [kind, *(inside for _, inside in keys.tables_inside(kind))]
            assert kind.reasons or kind.measures, kind
            for said in (*kind.reasons.values(), *kind.measures.values()):
                assert re.match(r"[A-Z0-9`#].*\.$", said), (kind, said)
    for table in classes:
        for key in keys.table_keys(table):
            assert re.match(r"[A-Z0-9`#].*\.$", key.meaning), (table, key)


def test_every_reason_of_a_source_is_explained() -> None:
    found: set[str] = set()
    for path in (ROOT / "src/gristmill/source").rglob("*.py"):
        text = path.read_text("utf-8")
        for call in re.findall(r"(?:fail|Refusal|Undecodable)\((.*)", text):
            found |= set(re.findall(r'"([a-z0-9_]+)"', call))
        found |= set(re.findall(r'"read\.([a-z0-9_]+)"', text))
    codecs = (ROOT / "src/gristmill/store/codecs.py").read_text("utf-8")
    found |= set(re.findall(r'"(corrupt|bomb|window_too_large|truncated)"', codecs))
    assert found - {"larger"} == set(READ)


def test_what_a_reason_means() -> None:
    assert meaning("gopher.short_doc") == "The words are fewer than `min_words`."
    assert meaning("repetition.top_3_gram") == filter_reason("repetition", "top_4_gram")
    assert "`max_top`" in (meaning("repetition.top_3_gram") or "")
    assert "`min`" in (meaning("scores.edu_low") or "")
    assert meaning("read.truncated") == READ["truncated"].meaning
    for unknown in ("filters:mine.x", "gopher.nothing", "read.nothing", "mine.x", ""):
        assert meaning(unknown) is None
