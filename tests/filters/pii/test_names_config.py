"""A pipeline's configuration runs nothing: what is not listed is refused, however it is written."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input
from gristmill.filters.pii import names, names_config

spacy = pytest.importorskip("spacy")
RAN: list[str] = []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that finds people, untrained."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    model = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": {
            "@architectures": "spacy.Tok2VecListener.v1",
            "width": 96,
            "upstream": "tok2vec",
        },
    }
    nlp.add_pipe("ner", config={"model": model}).add_label("PERSON")
    nlp.add_pipe("sentencizer")
    nlp.initialize()
    place = tmp_path_factory.mktemp("pipeline") / "folder"
    nlp.to_disk(place)
    return place


def archived(folder: Path, tmp_path: Path, config: str) -> Input:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "config.cfg").write_text(config)
    path = shutil.make_archive(str(tmp_path / "names"), "zip", copy)
    return Input("names.zip", path, "0" * 64)


def test_a_pipeline_is_loaded_as_spacy_loads_it(folder: Path, tmp_path: Path) -> None:
    config = (folder / "config.cfg").read_text()
    find = names.load(archived(folder, tmp_path, config), ["PERSON"])
    text = "Anna Smith met Bob Jones in Paris."
    own = [(e.start_char, e.end_char) for e in spacy.load(folder)(text).ents]
    assert find(text) == own


def changes(config: str) -> dict[str, str]:
    """Ways to name a function, or another thing that is not listed."""
    inline = json.dumps({"@layers": "evil.v1", "x": 1})
    deep = json.dumps({"@architectures": "spacy.Tok2Vec.v2", "embed": json.loads(inline)})
    model = config.index("[components.ner.model]")
    own = config[model : config.index("[components.ner.model.tok2vec]")]
    listener = config[config.index("[components.ner.model.tok2vec]") :]
    listener = listener[: listener.index("\n\n") if "\n\n" in listener else None]

    def in_ner(line: str) -> str:
        return config.replace('factory = "ner"', f'factory = "ner"\n{line}')

    def with_tok2vec(line: str) -> str:
        return config.replace(listener, "").replace(own, own.rstrip() + f"\n{line}\n\n")

    return {
        "inline": in_ner(f"model = {inline}").replace(own, "").replace(listener, ""),
        "inline in a list": config.replace("nO = null", f"nO = [{inline}]"),
        "inline in a layer": with_tok2vec(f"tok2vec = {inline}"),
        "inline in inline": with_tok2vec(f"tok2vec = {deep}"),
        "a setting": in_ner(f"incorrect_spans_key = {inline}"),
        "a variable": config.replace("[paths]", f"[paths]\nx = {inline}").replace(
            "nO = null", "nO = ${paths.x}"
        ),
        "a section": config + '\n[components.ner.model.nO]\n@misc = "evil.v1"\n',
        "arguments by place": config + '\n[components.ner.model.*.a]\n@layers = "evil.v1"\n',
        "before creation": config.replace("before_creation = null", f"before_creation = {inline}"),
        "tokenizer": config.replace("spacy.Tokenizer.v1", "evil.v1"),
        "tokenizer inline": config.replace("[nlp.tokenizer]", "[nlp.other]").replace(
            "batch_size = 1000", 'batch_size = 1000\ntokenizer = {"@tokenizers": "evil.v1"}'
        ),
        "language": config.replace('lang = "en"', 'lang = "../evil"'),
        "language of no letters": config.replace('lang = "en"', "lang = 1"),
        "PyTorch": config.replace("spacy.HashEmbedCNN.v2", "spacy.TorchBiLSTMEncoder.v1"),
        "another's layer": config.replace("spacy.HashEmbedCNN.v2", "evil.v1"),
        "many layers": config.replace("depth = 4", "depth = 1000000000"),
        "deep": config.replace("nO = null", "nO = " + "[" * 100_000 + "]" * 100_000),
    }


WAYS = [
    "inline",
    "inline in a list",
    "inline in a layer",
    "inline in inline",
    "a setting",
    "a variable",
    "a section",
    "arguments by place",
    "before creation",
    "tokenizer",
    "tokenizer inline",
    "language",
    "language of no letters",
    "PyTorch",
    "another's layer",
    "many layers",
    "deep",
]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_listed_is_refused_and_does_not_run(
    folder: Path, tmp_path: Path, way: str
) -> None:
    from spacy.util import registry

    def evil(*_: Any, **__: Any) -> Any:
        RAN.append(way)
        raise ValueError("ran")

    for kind in (registry.layers, registry.misc, registry.architectures, registry.tokenizers):
        kind("evil.v1", func=evil)
    config = (folder / "config.cfg").read_text()
    changed = changes(config)
    assert sorted(changed) == sorted(WAYS)
    assert changed[way] != config
    with pytest.raises(RecipeError, match=r"names\.zip is no spaCy pipeline that finds names"):
        names.load(archived(folder, tmp_path, changed[way]), ["PERSON"])
    assert not RAN


def test_parts_that_find_no_entities_are_left_out_with_all_they_name(folder: Path) -> None:
    config = (folder / "config.cfg").read_text()
    config += '\n[components.sentencizer.punct_chars]\n@misc = "evil.v1"\n'
    config = config.replace("punct_chars = null\n", "")
    written = names_config.rewrite(config)
    assert "evil" not in written
    assert "sentencizer" not in written
    assert "[training" not in written
    assert "spacy.HashEmbedCNN.v2" in written


def test_every_listed_layer_is_spacys_own() -> None:
    """A name that spaCy does not have would be free for another package."""
    from spacy.util import registry

    for name in names_config.ARCHITECTURES:
        assert registry.get("architectures", name).__module__.partition(".")[0] in (
            "spacy",
            "spacy_legacy",
        ), name
