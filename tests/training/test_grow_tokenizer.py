"""Tokenizers that grow: numbers never change, and the files say where they come from."""

import hashlib
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gristmill import RecipeError, Tokenizer, VerificationError, run
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.store.manifest import decode
from gristmill.tokens.growth_record import TokenizerVersion, check_version, record_version
from gristmill.training.grow_tokenizer import (
    DEFAULT_SPECIAL,
    grow_tokenizer,
    read_grown,
    shares,
    sources_of_words,
)
from tests.support import corpora, naive_bpe_training, naive_pieces, strategies
from tests.support.command import command_line

NEWS = ["the news of the day, and the weather of the week", "the week in the news"] * 5
CODE = ["def main():\n    return nothing\n", "    return main(nothing)\n"] * 7
ODD = ["Ünïcode ünïcode ünïcode 文字文字文字", "1234 1234 12345"] * 3
SOURCES = {"news": NEWS, "code": CODE, "odd": ODD}


def jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[Path | str]]:
    return {name: [jsonl(tmp_path / f"{name}.jsonl", texts)] for name, texts in SOURCES.items()}


def merges_of(path: Path) -> list[tuple[int, int]]:
    return list(read_grown(path)[0].tokenizer.merges)


def test_three_versions(files: dict[str, list[Path | str]], tmp_path: Path) -> None:
    one, two, three = (tmp_path / f"v{number}.json" for number in (1, 2, 3))
    first = grow_tokenizer({"news": files["news"]}, one, merges=20)
    assert (first["version"], first["vocab_size"], first["next_merge_id"]) == (1, 286, 286)
    second = grow_tokenizer(
        {"code": files["code"], "odd": files["odd"]}, two, tokenizer=one, merges=15
    )
    assert (second["version"], second["vocab_size"]) == (2, 316)
    third = grow_tokenizer({"news": files["news"]}, three, tokenizer=two, merges=100_000)
    record = read_grown(three)[0].record
    assert record.previous == [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)]
    told = [
        (one.version, one.source, one.merges, one.first_id) for one in record.sources_contributed
    ]
    assert told[:3] == [(1, "news", 20, 266), (2, "code", 15, 286), (2, "odd", 15, 301)]
    assert told[3][0:2] == (3, "news")
    assert 0 < told[3][2] < 100_000  # until no pair was left
    assert record.vocab_size == third["vocab_size"] == 316 + told[3][2]
    table = json.loads(three.read_bytes())
    vocabulary = table["model"]["vocab"]
    assert [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])][:10] == [
        *DEFAULT_SPECIAL
    ]
    for earlier, later in ((one, two), (two, three)):
        older = json.loads(earlier.read_bytes())["model"]
        newer = json.loads(later.read_bytes())["model"]
        assert older["vocab"].items() <= newer["vocab"].items()
        assert newer["merges"][: len(older["merges"])] == older["merges"]


def test_merges_are_those_that_follow_the_earlier_ones(
    files: dict[str, list[Path | str]], tmp_path: Path
) -> None:
    """Against the twin, which applies all earlier merges to the new texts."""
    one, two = tmp_path / "v1.json", tmp_path / "v2.json"
    grow_tokenizer({"news": files["news"], "odd": files["odd"]}, one, merges=12)
    grow_tokenizer({"code": files["code"]}, two, tokenizer=one, merges=18)
    known: list[tuple[int, int]] = []
    for name, count in (("news", 12), ("odd", 12), ("code", 18)):
        pieces: Counter[bytes] = Counter()
        for text in SOURCES[name]:
            pieces.update(piece.encode() for piece in naive_pieces.pieces(Pattern.GPT2, text))
        known += naive_bpe_training.choose_merges(pieces, list(range(256)), count, known)
    assert merges_of(two) == known


@strategies.fuzz(25)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from("abc"),
                st.lists(strategies.texts().filter(str.strip), min_size=1, max_size=4),
                min_size=1,
            ),
            st.integers(1, 40),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    strategies.texts(),
)
def test_fuzz_what_a_version_encodes_all_later_ones_decode(
    steps: list[tuple[dict[str, list[str]], int, bool]], text: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path: Path | None = None
        encoded: list[list[int]] = []
        versions: list[TokenizerVersion] = []
        for number, (sources, count, shared) in enumerate(steps):
            given = {
                source: [jsonl(folder / f"{number}-{source}.jsonl", texts)]
                for source, texts in sources.items()
            }
            target = folder / f"v{number}.json"
            amount: dict[str, Any] = {"total": count} if shared else {"merges": count}
            try:
                grow_tokenizer(given, target, tokenizer=path, **amount)
            except RecipeError as error:
                assert "there is nothing to add" in str(error)
                continue
            path = target
            tokenizer = Tokenizer("grown", path.read_bytes())
            assert tokenizer.kernel
            version = record_version(path.read_bytes())
            assert version is not None
            versions.append(version)
            for older in versions:
                check_version(version, older)
            encoded.append(tokenizer.encode([text]).tokens.tolist())
            library = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
            for tokens in encoded:
                assert tokenizer.decode(tokens) == text
                assert library.decode(tokens) == text


def test_the_library_reads_it_and_drops_the_record(
    files: dict[str, list[Path | str]], tmp_path: Path
) -> None:
    path = tmp_path / "v1.json"
    grow_tokenizer(files, path, total=60, pattern="llama3")
    library = tokenizers.Tokenizer.from_file(str(path))
    ours = Tokenizer("v1", path.read_bytes())
    for text in (*NEWS, *CODE, *ODD):
        assert library.encode(text).ids == ours.encode([text]).tokens.tolist()
    (tmp_path / "again.json").write_text(library.to_str(pretty=True), "utf-8")
    with pytest.raises(RecipeError, match="no record of growth"):
        grow_tokenizer(files, tmp_path / "v2.json", tokenizer=tmp_path / "again.json", merges=1)
    assert record_version((tmp_path / "again.json").read_bytes()) is None


def test_shares_have_the_largest_remainder() -> None:
    assert shares(31_734, [2500, 26_000, 1500, 900, 500]) == [2527, 26276, 1516, 910, 505]
    assert shares(10, [1, 1, 1]) == [4, 3, 3]
    assert shares(2, [5, 5, 5]) == [1, 1, 0]
    assert shares(7, [0, 1]) == [0, 7]


@given(st.integers(0, 100_000), st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_fuzz_shares(total: int, sizes: list[int]) -> None:
    if sum(sizes):
        found = shares(total, sizes)
        assert sum(found) == total
        for count, size in zip(found, sizes, strict=True):
            assert abs(count * sum(sizes) - total * size) < sum(sizes)


def test_a_share_is_by_the_bytes_of_the_samples(
    files: dict[str, list[Path | str]], tmp_path: Path
) -> None:
    result = grow_tokenizer(files, tmp_path / "v1.json", total=100)
    told = result["sources_contributed"]
    sizes = [len("".join(texts).encode()) for texts in SOURCES.values()]
    assert [one["bytes"] for one in told] == sizes
    assert [one["asked"] for one in told] == shares(100, sizes)
    samples = {one["source"]: one["sample"] for one in told}
    again = grow_tokenizer(files, tmp_path / "v2.json", total=100, sample=3, workers=2)
    assert [one["documents"] for one in again["sources_contributed"]] == [3, 3, 3]
    assert samples["news"] != again["sources_contributed"][0]["sample"]


def damaged(path: Path, change: Any) -> Path:
    """A copy of a file with another record, sealed anew or not."""
    table = json.loads(path.read_bytes())
    change(table)
    copy = path.with_name("damaged.json")
    copy.write_text(json.dumps(table, indent=2, ensure_ascii=False), "utf-8")
    return copy


def test_files_that_were_changed_are_refused(
    files: dict[str, list[Path | str]], tmp_path: Path
) -> None:
    path, out = tmp_path / "v1.json", tmp_path / "v2.json"
    grow_tokenizer(files, path, merges=10)
    data = path.read_bytes()
    changed = tmp_path / "changed.json"
    for wrong in (
        data.replace(b'"version": 1,', b'"version": 2,', 1),
        data.replace(b"<|mask|>", b"<|task|>"),
        data.replace(b'"limit"', b'"Limit"'),
        data.replace(b"\n", b"\r\n"),
        data + b"\n",
    ):
        changed.write_bytes(wrong)
        with pytest.raises(VerificationError, match=r"changed\.json: "):
            grow_tokenizer(files, out, tokenizer=changed, merges=1)

    def without_merge(table: dict[str, Any]) -> None:
        table["model"]["merges"].pop()
        table["model"]["gristmill"]["file_sha256"] = "0" * 64

    from gristmill.tokens.growth_record import seal

    forged = damaged(path, without_merge)
    forged.write_bytes(seal(forged.read_bytes()))
    with pytest.raises(VerificationError, match="does not fit its tokens"):
        grow_tokenizer(files, out, tokenizer=forged, merges=1)
    newer = damaged(path, lambda table: table["model"]["gristmill"].update(format=9))
    with pytest.raises(VerificationError, match="format 9; this gristmill reads format 1"):
        grow_tokenizer(files, out, tokenizer=newer, merges=1)
    for text, said in (("{}", "not a tokenizer.json"), ("", "not a tokenizer.json")):
        changed.write_text(text)
        with pytest.raises(RecipeError, match=said):
            grow_tokenizer(files, out, tokenizer=changed, merges=1)
    with pytest.raises(RecipeError, match="cannot be read"):
        grow_tokenizer(files, out, tokenizer=tmp_path / "none.json", merges=1)
    assert not out.exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "--merges.*or.*--total"),
        ({"merges": 1, "total": 1}, "--merges.*or.*--total"),
        ({"merges": 0}, "--merges 0: expected"),
        ({"total": -1}, "--total -1: expected"),
        ({"merges": 4_000_000}, "12,000,000 merges would make 12,000,266 tokens: the limit"),
        ({"merges": 1, "special": ["<a>"]}, "has 10 special tokens, here are 1"),
        ({"merges": 1, "special": ["<a>"] * 10}, "named twice"),
        ({"merges": 1, "pattern": "none"}, "no such pattern"),
        ({"merges": 1, "sample": 0}, "--sample 0"),
    ],
)
def test_what_cannot_be_is_refused(
    files: dict[str, list[Path | str]], tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(RecipeError, match=said):
        grow_tokenizer(files, tmp_path / "v1.json", **more)
    assert not (tmp_path / "v1.json").exists()


def test_sources_that_cannot_be_are_refused(
    files: dict[str, list[Path | str]], tmp_path: Path
) -> None:
    out = tmp_path / "v1.json"
    for name in ("../up", "a b", "\x1b[31m", "-x", "é", "x" * 101):
        with pytest.raises(RecipeError, match="a name has 1 to 100 letters"):
            grow_tokenizer({name: files["news"]}, out, merges=1)
    with pytest.raises(RecipeError, match="source empty: .*e.jsonl: no text"):
        grow_tokenizer({"empty": [jsonl(tmp_path / "e.jsonl", [""])]}, out, merges=1)
    with pytest.raises(RecipeError, match="there is nothing to add"):
        grow_tokenizer({"little": [jsonl(tmp_path / "l.jsonl", ["a"])]}, out, merges=1)
    with pytest.raises(RecipeError, match="no source"):
        grow_tokenizer({}, out, merges=1)
    with pytest.raises(RecipeError, match="names already"):
        grow_tokenizer({"corpus": [tmp_path]}, out, merges=1)
    with pytest.raises(RecipeError, match="expected NAME=FILE"):
        sources_of_words(["news.jsonl"])
    grow_tokenizer(files, out, merges=1)
    with pytest.raises(RecipeError, match="cannot change"):
        grow_tokenizer(files, out, tokenizer=out, merges=1, pattern="gpt2")


def test_versions_that_can_be_read() -> None:
    one, two, three = (TokenizerVersion(number, f"{number}" * 64) for number in (1, 2, 3))
    have = TokenizerVersion(3, three.sha256, (one.sha256, two.sha256))
    for needs in (one, two, three):
        check_version(have, needs)
    with pytest.raises(VerificationError, match="made with version 3.*too old: fetch version 3"):
        check_version(TokenizerVersion(2, two.sha256, (one.sha256,)), three)
    for needs in (
        TokenizerVersion(2, "9" * 64),
        TokenizerVersion(3, "9" * 64),
        TokenizerVersion(0, three.sha256),
        TokenizerVersion(-1, one.sha256),
    ):
        with pytest.raises(VerificationError, match="made with another tokenizer"):
            check_version(have, needs)


def test_a_corpus_names_the_version(tmp_path: Path) -> None:
    recipe = corpora.lay_out(tmp_path)
    raw = [str(path) for path in sorted((tmp_path / "raw").iterdir())]
    grow_tokenizer({"web": list(raw)}, tmp_path / "tokenizer.json", merges=200, force=True)
    run(recipe, out=tmp_path / "corpus", workers=1)
    tokens = decode((tmp_path / "corpus/manifest.json").read_bytes()).tokens
    assert tokens is not None
    has = record_version((tmp_path / "tokenizer.json").read_bytes())
    assert has is not None
    assert (tokens.tokenizer_version, tokens.tokenizer) == (1, has.sha256)
    # A corpus is a source as well, and its reader may use a later version.
    result = grow_tokenizer(
        {"": [tmp_path / "corpus"]},
        tmp_path / "v2.json",
        tokenizer=tmp_path / "tokenizer.json",
        merges=50,
    )
    assert [one["source"] for one in result["sources_contributed"]] == ["web"]
    later = record_version((tmp_path / "v2.json").read_bytes())
    assert later is not None
    check_version(later, TokenizerVersion(1, tokens.tokenizer))


def test_the_verb(files: dict[str, list[Path | str]], tmp_path: Path) -> None:
    def grow(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command_line("tokenizer", "grow", *words), capture_output=True, text=True, check=False
        )

    one, two = tmp_path / "v1.json", tmp_path / "v2.json"
    done = grow(f"news={files['news'][0]}", "--merges", "5", "--out", one)
    assert done.returncode == 0, done.stderr
    assert "version 1, 271 tokens" in done.stdout
    words = [f"{name}={paths[0]}" for name, paths in files.items()]
    done = grow(*words, "--tokenizer", one, "--total", "30", "--out", two, "--json")
    assert json.loads(done.stdout)["vocab_size"] == 301
    shown = subprocess.run(
        command_line("tokenizer", "show", two), capture_output=True, text=True, check=True
    ).stdout
    assert "version  2" in shown
    assert "3 sources" in shown
