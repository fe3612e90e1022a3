"""`gristmill stats`: against counts made from the files alone, and what it warns of."""

import json
import math
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tldextract
from hypothesis import given
from hypothesis import strategies as st

from gristmill import Tokenizer, export, import_tokens, run
from gristmill.errors import RecipeError, VerificationError
from gristmill.reports.documents import document_tables
from gristmill.reports.tokens import token_counts
from gristmill.reports.tokens.stats import stats
from gristmill.reports.tokens.stats_lines import lines
from tests.support import strategies
from tests.support.command import command_line
from tests.support.corpora import article, jsonl, lay_out, pages
from tests.support.token_corpora import token_corpus

RECIPE = """
seed = 7
[[source]]
name = "web"
files = ["raw/*"]
[[source]]
name = "books"
files = ["books/*"]
[[step]]
use = "language"
rules = "script"
keep = ["Latn", "Cyrl", "Grek"]
min_score = 0.2
[deduplicate]
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
"""
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувшхыз")
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβγδεφγηιικλμνοπθρστυωχχυζ")
HOSTS = (
    "https://www.example.co.uk/a?b",
    "http://user:pass@shop.example.com:8080/x",
    "https://example.com",
    "//blog.github.io/y",
    "http://192.168.0.1/z",
    "localhost",
    None,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stats")
    recipe = lay_out(folder, count=40, recipe=RECIPE)
    (folder / "books").mkdir()
    rows: list[dict[str, object]] = []
    for number in range(60):
        text = article(f"book {number}", 20)
        text = text.lower().translate((CYRILLIC, GREEK, {})[number % 3]) + f" {number}"
        rows.append({"text": text, "url": HOSTS[number % len(HOSTS)]})
    (folder / "books/a.jsonl").write_bytes(jsonl(rows + pages(20, "books")))
    run(recipe, out=folder / "corpus", workers=1)
    return folder / "corpus"


def of_files(corpus: Path) -> dict[str, Any]:
    """What the shards, `.docs`, documents and measures of a corpus have, read one by one."""
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    texts: dict[int, dict[str, Any]] = {}
    labels: dict[int, str | None] = {}
    for path in sorted((corpus / "documents").iterdir()):
        texts |= {row["document"]: row for row in pq.read_table(path).to_pylist()}
    for path in sorted((corpus / "measures").iterdir()):
        for row in pq.read_table(path, columns=["document", "language.label"]).to_pylist():
            labels[row["document"]] = row["language.label"]
    tokens: dict[int, list[int]] = {}
    places: dict[int, tuple[str, str]] = {}
    shards = sorted((corpus / "tokens").rglob("*.bin"))
    for path in shards:
        numbers = np.fromfile(path, "<u2").tolist()
        table = np.fromfile(path.with_suffix(".docs"), "<i8").reshape(2, -1).tolist()
        start = 0
        for document, end in zip(*table, strict=True):
            tokens.setdefault(document, []).extend(numbers[start:end])
            places[document] = (path.parent.name, path.name.partition("_")[0])
            start = end
    assert len(shards) == sum(part["path"].endswith(".bin") for part in manifest["parts"])
    return {"texts": texts, "labels": labels, "tokens": tokens, "places": places}


def check(row: dict[str, Any], files: dict[str, Any], documents: list[int]) -> None:
    """A row of a table has the documents' figures."""
    counts = Counter(token for document in documents for token in files["tokens"][document])
    texts = [files["texts"][document]["text"] for document in documents]
    assert row["tokens"] == counts.total()
    assert row["characters"] == sum(map(len, texts))
    assert row["bytes"] == sum(len(text.encode()) for text in texts)
    assert row["characters_per_token"] == pytest.approx(row["characters"] / row["tokens"], abs=1e-6)
    assert row["tokens_per_byte"] == pytest.approx(row["tokens"] / row["bytes"], abs=1e-6)
    if "documents" in row:
        assert row["documents"] == len(documents)
    if "vocabulary_used" in row:
        assert row["vocabulary_used"] == len(counts)
    found = {entry["token"]: entry["count"] for entry in row["top_tokens"]}
    assert list(found.values()) == [count for _, count in counts.most_common(len(found))]
    assert found.items() <= counts.items()


def test_every_table_has_the_figures_of_the_files(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_counts, "BLOCK", 777)
    found, files = stats(corpus, top=5), of_files(corpus)
    every = list(files["tokens"])
    check(found, files, every)
    assert found["documents"] == len(every)
    assert found["tokens_spell_text"] is True
    used = len({token for tokens in files["tokens"].values() for token in tokens})
    assert found["vocabulary"]["used"] == used
    assert found["vocabulary"]["never_used"] == found["vocabulary"]["size"] - used
    for name, place in (("sources", 0), ("splits", 1)):
        assert {row["name"] for row in found[name]} == {
            pair[place] for pair in files["places"].values()
        }
        for row in found[name]:
            own = [d for d in every if files["places"][d][place] == row["name"]]
            check(row, files, own)
            lengths = sorted(len(files["tokens"][d]) for d in own)
            assert row["median_tokens"] == lengths[math.ceil(len(lengths) / 2) - 1]
    assert {row["name"] for row in found["languages"]} == {"Latn", "Cyrl", "Grek"}
    for row in found["languages"]:
        check(row, files, [d for d in every if files["labels"][d] == row["name"]])
    tokenizer = Tokenizer("t", (corpus / "tokenizer/tokenizer.json").read_bytes())
    for entry in found["top_tokens"]:
        spelled = tokenizer.spelling(entry["token"])
        assert bytes.fromhex(entry["bytes"]) == spelled
        assert entry["text"] in (None, spelled.decode("utf-8", "replace"))
        assert (entry["text"] is None) == ("\ufffd" in spelled.decode("utf-8", "replace"))


@pytest.mark.parametrize("spilled", [False, True])
def test_domains_are_tldextracts(
    corpus: Path, spilled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spilled:
        monkeypatch.setattr(document_tables, "MOST_DOMAINS", 2)
    files = of_files(corpus)
    extract = tldextract.TLDExtract(suffix_list_urls=())
    tokens: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for document, own in files["tokens"].items():
        url = files["texts"][document]["url"] or ""
        split = extract(url)
        host = ".".join(filter(None, (split.subdomain, split.domain))).lower()
        name = split.top_domain_under_public_suffix or host
        tokens[name] += len(own)
        documents[name] += 1
    found = stats(corpus, top=50)
    expected = sorted(tokens, key=lambda name: (-tokens[name], name))
    assert {"example.co.uk", "example.com", "github.io", "192.168.0.1", ""} <= set(expected)
    assert [row["domain"] for row in found["domains"]] == expected
    assert [row["tokens"] for row in found["domains"]] == [tokens[name] for name in expected]
    assert [row["documents"] for row in found["domains"]] == [documents[n] for n in expected]
    assert found["domain_count"] == len(expected) - 1
    assert [row["domain"] for row in stats(corpus, top=2)["domains"]] == expected[:2]


def test_languages_beyond_the_most_are_counted_together(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {row["name"]: row for row in stats(corpus)["languages"]}
    monkeypatch.setattr(token_counts, "MOST_GROUPS", 3)
    rows = {row["name"]: row for row in stats(corpus)["languages"]}
    assert len(rows) == 2
    assert document_tables.OTHERS in rows
    (own,) = rows.keys() - {document_tables.OTHERS}
    assert rows[own] == whole[own]
    others = [row for name, row in whole.items() if name != own]
    assert rows[document_tables.OTHERS]["tokens"] == sum(row["tokens"] for row in others)


def test_counts_agree_with_the_funnel(corpus: Path) -> None:
    found = stats(corpus)
    funnel = json.loads((corpus / "manifest.json").read_bytes())["funnel"]
    assert found["tokens"] == funnel["tokens"]
    assert found["documents"] == funnel["kept"]
    assert found["tokens_per_byte"] == funnel["tokens_per_byte"]
    by_split = {row["name"]: row["tokens"] for row in found["splits"]}
    assert by_split == {"train": funnel["train_tokens"], "val": funnel["validation_tokens"]}
    for table in ("languages", "sources", "splits"):
        assert sum(row["tokens"] for row in found[table]) == funnel["tokens"]
    domains = stats(corpus, top=10_000)["domains"]
    assert sum(row["tokens"] for row in domains) == funnel["tokens"]
    assert sum(row["documents"] for row in domains) == funnel["kept"]


def best_fit(lengths: list[int], limit: int) -> int:
    """Sequences of best-fit decreasing, one piece after another."""
    spaces: list[int] = []
    whole = sum(length // limit for length in lengths)
    for piece in sorted((length % limit for length in lengths if length % limit), reverse=True):
        fitting = [space for space in spaces if space >= piece]
        if fitting:
            spaces.remove(min(fitting))
        spaces.append((min(fitting) if fitting else limit) - piece)
    return whole + len(spaces)


documents = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=40), min_size=1, max_size=12)


@strategies.fuzz(30)
@given(
    train=st.dictionaries(st.sampled_from(("a", "b")), documents, min_size=1),
    val=st.dictionaries(st.sampled_from(("a", "c")), documents),
    size=st.integers(1, 50),
    length=st.integers(1, 60),
)
def test_fuzz_documents_across_shards(
    train: dict[str, list[list[int]]], val: dict[str, list[list[int]]], size: int, length: int
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        token_corpus(root, train, val, vocabulary=10, tokens_per_shard=size)
        found = stats(root, sequence_length=length)
    every = [*train.values(), *val.values()]
    lengths = sorted(len(document) for texts in every for document in texts)
    tokens = Counter(token for texts in every for document in texts for token in document)
    assert found["tokens"] == tokens.total() == sum(lengths)
    assert found["documents"] == len(lengths)
    assert found["vocabulary"]["used"] == len(tokens)
    for share, quantile in found["lengths"]["quantiles"].items():
        assert quantile == lengths[max(math.ceil(float(share) * len(lengths)), 1) - 1]
    assert (found["lengths"]["least"], found["lengths"]["most"]) == (lengths[0], lengths[-1])
    bins = found["lengths"]["histogram"]
    for row in bins:
        inside = [n for n in lengths if row["least"] <= n <= row["most"]]
        assert (row["documents"], row["tokens"]) == (len(inside), sum(inside))
    assert sum(row["documents"] for row in bins) == len(lengths)
    cut, packed, alone = found["utilisation"]["packings"]
    sizes = [sum(map(len, texts)) for texts in train.values()]
    windows = sum(n // length for n in sizes)
    assert cut["sequences"] == windows
    assert cut["read"] == pytest.approx(windows * length / sum(sizes), abs=1e-6)
    own = [len(document) for texts in train.values() for document in texts]
    used = sum(min(n, length) for n in own)
    assert alone["utilisation"] == pytest.approx(used / (length * len(own)), abs=1e-6)
    assert alone["read"] == pytest.approx(used / sum(own), abs=1e-6)
    bins = sum(best_fit([len(document) for document in texts], length) for texts in train.values())
    assert packed["sequences"] == bins
    assert packed["utilisation"] == pytest.approx(sum(own) / (bins * length), abs=1e-6)
    expected = (cut["read"] < 0.9) + (packed["utilisation"] < 0.9)
    assert len(found["warnings"]) == expected


def test_a_corpus_without_tokenizer_texts_or_verdicts_is_counted(tmp_path: Path) -> None:
    token_corpus(tmp_path, {"a": [[1, 2, 0]]}, vocabulary=5)
    found = stats(tmp_path)
    assert "characters" not in found
    assert found["languages"] is None
    assert found["domains"] is None
    assert found["top_tokens"][0] == {"token": 0, "count": 1, "share": 0.333333}
    assert len(found["notes"]) == 3
    assert any("no tokenizer" in line for line in lines(found))


def with_tokenizer(root: Path, corpus: Path, tokens: list[int], copies: int) -> Path:
    data = (corpus / "tokenizer/tokenizer.json").read_bytes()
    tokenizer = Tokenizer("t", data)
    texts = {"a": [[*tokens, tokenizer.end_of_text]] * copies}
    return token_corpus(
        root,
        texts,
        vocabulary=tokenizer.vocabulary,
        end_of_text=tokenizer.end_of_text,
        tokenizer=data,
    )


def test_characters_come_from_the_tokenizer_where_there_is_no_text(
    corpus: Path, tmp_path: Path
) -> None:
    data = (corpus / "tokenizer/tokenizer.json").read_bytes()
    text = "The mill — каша, 粉 and 😀 grain.\n" * 5
    tokens = Tokenizer("t", data).encode([text]).tokens.tolist()
    found = stats(with_tokenizer(tmp_path, corpus, tokens, 3))
    assert found["measured_from"] == "tokens"
    assert found["characters"] == 3 * len(text)
    assert found["bytes"] == 3 * len(text.encode())
    assert any("its tokens stand for" in note for note in found["notes"])


def test_an_imported_corpus_has_the_same_tokens(corpus: Path, tmp_path: Path) -> None:
    export(corpus, tmp_path / "megatron", to="megatron", split="train", sources=["web"])
    tokenizer = str(corpus / "tokenizer/tokenizer.json")
    import_tokens(tmp_path / "megatron", tmp_path / "back", format="megatron", tokenizer=tokenizer)
    found, whole = stats(tmp_path / "back"), stats(corpus)
    (web,) = (row for row in whole["sources"] if row["name"] == "web")
    files = of_files(corpus)
    own = [d for d, place in files["places"].items() if place == ("web", "train")]
    assert found["tokens"] == sum(len(files["tokens"][document]) for document in own)
    assert found["documents"] == len(own)
    assert found["characters"] == sum(len(files["texts"][document]["text"]) for document in own)
    assert found["measured_from"] == "tokens"
    assert found["languages"] is found["domains"] is None
    assert found["vocabulary"]["used"] <= web["vocabulary_used"]


def test_few_and_many_characters_a_token_are_warned_of(corpus: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer("t", (corpus / "tokenizer/tokenizer.json").read_bytes())
    spellings = [tokenizer.spelling(token) for token in range(tokenizer.vocabulary)]
    short = spellings.index(b"e")
    long = next(
        number
        for number, spelling in enumerate(spellings)
        if len(spelling) > 8 and number != tokenizer.end_of_text
    )
    for name, token, expected in (("short", short, "below 1.5"), ("long", long, "above 8")):
        found = stats(with_tokenizer(tmp_path / name, corpus, [token] * 600, 20))
        assert [expected in warning for warning in found["warnings"]] == [True]
    few = stats(with_tokenizer(tmp_path / "few", corpus, [short] * 60, 20))
    assert few["warnings"] == []


def test_a_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"a": [[1, 2, 0]]}, vocabulary=5)
    (root / "tokens/a/train_00000.bin").write_bytes(np.array([1, 5, 0], "<u2").tobytes())
    with pytest.raises(VerificationError, match="not below 5"):
        stats(root)


def test_damaged_shards_are_refused(corpus: Path, tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"a": [[1, 2, 0], [3, 0]]}, vocabulary=5)
    path = root / "tokens/a/train_00000.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    with pytest.raises(VerificationError, match="8 bytes, expected 10"):
        stats(root)


@pytest.mark.parametrize(("length", "top"), [(0, 1), (-4, 1), (8, -1)])
def test_bad_arguments_are_refused(tmp_path: Path, length: int, top: int) -> None:
    root = token_corpus(tmp_path, {"a": [[1, 2, 0]]}, vocabulary=5)
    with pytest.raises(RecipeError):
        stats(root, sequence_length=length, top=top)


def output(*words: object) -> str:
    done = subprocess.run(command_line(*words), capture_output=True, text=True, check=True)
    return done.stdout


def test_the_verb_prints_tables_and_json(corpus: Path) -> None:
    shown = output("stats", corpus, "--sequence-length", 64)
    for word in ("vocabulary", "Cyrl", "example.co.uk", "sequences of 64"):
        assert word in shown
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert json.loads(output("stats", corpus, "--json", "--top", 3)) == stats(corpus, top=3)
