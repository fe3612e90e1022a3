"""Verify finds a changed byte anywhere, a missing or an extra part, an edited count, a swapped
file; and it agrees with sha256sum.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import run
from gristmill.errors import RecipeError, VerificationError
from gristmill.reports.diff import lines
from gristmill.store import manifest as manifests
from gristmill.store.parts import hash_file
from tests.support.corpora import lay_out
from tests.support.manifests import forge


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    run(lay_out(folder, count=60), out=folder / "corpus", cache_dir=folder / "cache")
    return folder / "corpus"


@pytest.fixture
def copy(corpus: Path, tmp_path: Path) -> Path:
    shutil.copytree(corpus, tmp_path / "corpus")
    return tmp_path / "corpus"


def parts(corpus: Path) -> list[str]:
    return [part["path"] for part in json.loads((corpus / "manifest.json").read_text())["parts"]]


def test_a_sound_corpus_verifies_here_and_by_sha256sum(corpus: Path) -> None:
    told = gristmill.verify(corpus)
    assert told["parts"] == len(parts(corpus))
    for sums in ("manifest.lock", "SHA256SUMS"):
        done = subprocess.run(
            ["sha256sum", "--strict", "-c", sums],
            cwd=corpus,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_a_changed_byte_in_any_part_is_found(copy: Path, soak: int) -> None:
    """The first, the middle, or the last one; under `make soak` each of them."""
    for number, name in enumerate(parts(copy)):
        data = (copy / name).read_bytes()
        places = sorted({0, len(data) // 2, len(data) - 1}) if data else []
        for place in [places[number % len(places)]] if soak == 1 and places else places:
            (copy / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(VerificationError, match=name):
                gristmill.verify(copy)
        (copy / name).write_bytes(data)
    gristmill.verify(copy)


def test_a_missing_a_short_and_an_extra_part_are_found_even_by_sizes(copy: Path) -> None:
    name = "tokens/web/train_00000.bin"
    data = (copy / name).read_bytes()
    (copy / name).unlink()
    with pytest.raises(VerificationError, match=f"{name}: missing"):
        gristmill.verify(copy, quick=True)
    (copy / name).write_bytes(data[:-1])
    with pytest.raises(VerificationError, match=f"{name}: .* bytes, expected"):
        gristmill.verify(copy, quick=True)
    (copy / name).write_bytes(data)
    (copy / "tokens/web/train_00099.bin").write_bytes(b"more")
    with pytest.raises(VerificationError, match="train_00099.bin: not in the manifest"):
        gristmill.verify(copy, quick=True)


def test_swapped_files_are_found(copy: Path) -> None:
    one, other = copy / "verdicts/00000.parquet", copy / "verdicts/00001.parquet"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    with pytest.raises(VerificationError, match=r"verdicts/00000[\s\S]*verdicts/00001"):
        gristmill.verify(copy)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.lock"])
def test_a_manifest_and_a_lock_that_disagree_fail_closed(copy: Path, name: str) -> None:
    data = (copy / name).read_bytes()
    digit = re.search(rb"[0-9]", data)
    assert digit is not None
    changed = b"1" if digit[0] == b"0" else b"0"
    (copy / name).write_bytes(data[: digit.start()] + changed + data[digit.end() :])
    with pytest.raises(VerificationError, match="disagree"):
        gristmill.verify(copy)
    with pytest.raises(VerificationError, match="disagree"):
        run([str(copy / "recipe.toml")], out=copy)
    (copy / name).unlink()
    with pytest.raises(VerificationError):
        gristmill.verify(copy)


def test_a_manifest_that_is_none_is_a_failed_verification(copy: Path) -> None:
    for data in (b"{}", b"not json", b"\xff\xfe", b'{"format": 99}'):
        (copy / "manifest.json").write_bytes(data)
        (copy / "manifest.lock").write_bytes(manifests.make_lock(data))
        with pytest.raises(VerificationError):
            gristmill.verify(copy)


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "tokens/../../x", "a//b", "", "a\\b", "./a"]
)
def test_a_part_that_leaves_the_corpus_is_refused(copy: Path, path: str) -> None:
    with pytest.raises(VerificationError, match="leaves the corpus"):
        forge(copy, lambda table: table["parts"][0].update(path=path))


def test_edited_counts_are_found_although_all_digests_agree(copy: Path) -> None:
    edits = {
        "raw shard 0 has": lambda table: table["raw_shards"][0].update(
            documents=table["raw_shards"][0]["documents"] + 1
        ),
        "kept, but the manifest says": lambda table: table["raw_shards"][0].update(
            unique_documents=1
        ),
        "funnel: its counts": lambda table: table["funnel"].update(kept=1),
        "do not hold": lambda table: next(
            p for p in table["parts"] if p["path"].endswith("train_00000.bin")
        )["counts"].update(tokens=7),
        "tokens: the shards hold": lambda table: table["funnel"].update(tokens=5),
    }
    whole = (copy / "manifest.json").read_bytes()
    for message, edit in edits.items():
        (copy / "manifest.json").write_bytes(whole)
        forge(copy, edit)
        with pytest.raises(VerificationError, match=message):
            gristmill.verify(copy)


def test_a_removed_shard_is_found_although_all_digests_agree(copy: Path) -> None:
    name = "tokens/web/train_00001"
    forge(
        copy,
        lambda table: table.update(
            parts=[part for part in table["parts"] if not part["path"].startswith(name)]
        ),
    )
    for suffix in (".bin", ".docs"):
        (copy / f"{name}{suffix}").unlink()
    with pytest.raises(VerificationError, match="tokens: the shards hold"):
        gristmill.verify(copy)


def test_why_tells_the_fate_of_every_kind_of_document(corpus: Path) -> None:
    import pyarrow.parquet as pq

    seen = set()
    for path in sorted((corpus / "verdicts").iterdir()):
        for row in pq.read_table(path).to_pylist():
            kind = row["reason"]
            if kind in seen:
                continue
            seen.add(kind)
            (told,) = gristmill.why(corpus, str(row["document"]))
            assert told["reason"] == kind
            assert told["value"] == row["value"]
            if kind and kind.startswith("deduplicate."):
                keeper = gristmill.why(corpus, str(row["keeper"]))[0]
                assert keeper["reason"] is None
                assert keeper["document"] < told["document"]
                assert keeper["copies"] >= 1
                assert told["similarity"] >= 0.8
            if kind is None or kind.startswith(("gopher.", "deduplicate.")):
                assert told["measures"]["gopher.words"] > 0
                if row["url"]:
                    assert any(
                        answer["document"] == row["document"]
                        for answer in gristmill.why(corpus, row["url"])
                    )
    assert {
        None,
        "deduplicate.exact_duplicate",
        "deduplicate.near_duplicate",
        "gopher.length",
    } <= seen


def test_why_refuses_what_is_not_there(corpus: Path) -> None:
    for name in ("99:0", "0:99999", "https://nowhere.example/"):
        with pytest.raises(gristmill.RecipeError, match="no document"):
            gristmill.why(corpus, name)


def rewrite(corpus: Path, path: str, change) -> None:  # type: ignore[no-untyped-def]
    """Change a table of a corpus, and make every digest agree."""
    table = change(pq.read_table(corpus / path))
    pq.write_table(table, corpus / path)
    size, sha256 = hash_file(corpus / path)

    def agree(manifest: dict[str, Any]) -> None:
        for part in manifest["parts"]:
            if part["path"] == path:
                part.update(size=size, sha256=sha256)

    forge(corpus, agree)


def test_a_keeper_that_was_dropped_is_found_although_all_digests_agree(copy: Path) -> None:
    path = "verdicts/00000.parquet"

    def point_at_a_dropped_one(table: pa.Table) -> pa.Table:
        dropped = table.filter(pc.is_valid(table["reason"]))["document"][0].as_py()
        keepers = [
            dropped if keeper is not None else None for keeper in table["keeper"].to_pylist()
        ]
        assert any(keeper is not None for keeper in keepers)
        return table.set_column(
            table.schema.get_field_index("keeper"), "keeper", pa.array(keepers, pa.int64())
        )

    rewrite(copy, path, point_at_a_dropped_one)
    with pytest.raises(
        VerificationError, match="duplicates whose keeper is not an earlier kept document"
    ):
        gristmill.verify(copy)


def test_rows_and_copies_that_do_not_add_up_are_found_although_all_digests_agree(
    copy: Path, corpus: Path
) -> None:
    rewrite(copy, "duplicates/copies.parquet", lambda table: table.slice(1))
    with pytest.raises(
        VerificationError, match=r"duplicates/copies.parquet: \d+ rows, expected \d+"
    ) as error:
        gristmill.verify(copy)
    assert "copies, the verdicts name keepers for" in str(error.value)


def test_a_pin_holds_for_one_corpus_only(corpus: Path, tmp_path: Path) -> None:
    told = gristmill.verify(corpus)
    for pin in (told["manifest"], told["content"], told["content"].upper()):
        assert gristmill.verify(corpus, pin=pin, quick=True)["content"] == told["content"]
    with pytest.raises(VerificationError, match="is not the pinned corpus: expected 0000"):
        gristmill.verify(corpus, pin="0" * 64)
    with pytest.raises(RecipeError, match="write the whole sha256"):
        gristmill.verify(corpus, pin=told["content"][:12])


def test_two_corpora_are_told_apart(corpus: Path, tmp_path: Path) -> None:
    recipe = lay_out(tmp_path, count=60)
    run(recipe, out=tmp_path / "same", cache_dir=tmp_path / "cache")
    told = gristmill.diff(corpus, tmp_path / "same")
    assert told["equal"]
    assert not any(told[key] for key in ("recipe", "versions", "inputs", "raw_shards", "counts"))
    assert told["parts"]["same"] == len(parts(corpus))
    assert "the same parts, byte for byte" in lines(told)

    shard = next(path for path in sorted((tmp_path / "raw").iterdir()) if path.suffix == ".jsonl")
    with shard.open("a") as file:
        file.write('{"text": "too short"}\n')
    run(
        recipe,
        out=tmp_path / "other",
        cache_dir=tmp_path / "cache",
        settings={"step.0.min_words": "49"},
    )
    told = gristmill.diff(corpus, tmp_path / "other")
    assert not told["equal"]
    assert list(told["recipe"].values()) == [[50, 49]]
    (changed,) = told["raw_shards"].values()
    assert changed[1]["documents"] == changed[0]["documents"] + 1
    assert told["counts"]["documents"][1] == told["counts"]["documents"][0] + 1
    assert told["parts"]["changed"]
    shown = "\n".join(lines(told))
    assert "recipe: 1 differ" in shown
    assert "50 -> 49" in shown
    assert "raw shards: 1 differ" in shown
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        gristmill.diff(corpus, tmp_path)


UNTOLD = re.compile(  # what the manifest alone says, and its lock proves
    r"^(versions\.|raw_shards\.\d+\.(kind|codec|decompressed_bytes|records_skipped)"
    r"|recipe\..*: None|tokens\.end_of_text_by$|format$|content$)"
)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values that are no table."""
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [path for key, inner in pairs for path in leaves(inner, (*place, key))]
    return [place]


def test_every_value_that_the_manifest_repeats_is_compared(copy: Path, soak: int) -> None:
    """One value changed (every third of them; soak: each), and content, sums and lock made to
    agree: what a part says as well is found, and named.
    """
    whole = (copy / "manifest.json").read_bytes()
    table = json.loads(whole)
    missed = []
    for place in leaves(table)[:: 3 if soak == 1 else 1]:
        name = ".".join(map(str, place))

        def change(given: Any, place: tuple[Any, ...] = place) -> None:
            *folders, last = place
            for key in folders:
                given = given[key]
            old = given[last]
            told = (
                old + 1 if isinstance(old, int | float) and not isinstance(old, bool) else not old
            )
            given[last] = (
                ("0" if old[:1] != "0" else "1") + old[1:] if isinstance(old, str) else told
            )

        if UNTOLD.match(name) or (place[0] == "parts" and place[1] % 5):
            continue
        (copy / "manifest.json").write_bytes(whole)
        before = table
        for key in place:
            before = before[key]
        if before in (None, {}, []):
            continue
        try:
            forge(copy, change)
            gristmill.verify(copy)
            missed.append(name)
        except VerificationError:
            pass
    assert not missed, missed
    (copy / "manifest.json").write_bytes(whole)
    forge(copy, lambda table: table["funnel"]["steps"][1].update(left=1))
    with pytest.raises(
        VerificationError, match=r"funnel\.steps\.1\.left: 1, and funnel\.json says"
    ):
        gristmill.verify(copy)
    forge(copy, lambda table: table["recipe"]["step"][0].update(min_words=1))
    with pytest.raises(
        VerificationError, match=r"recipe\.step\.0\.min_words: 1, and recipe\.toml says 50"
    ):
        gristmill.verify(copy)


def test_a_manifest_of_wrong_types_is_a_failed_verification(copy: Path) -> None:
    whole = (copy / "manifest.json").read_bytes()
    for name, value in (
        ("funnel", {}),
        ("funnel", {"steps": [1]}),
        ("inputs", {"tokens.tokenizer": 1}),
        ("recipe", {"tokens": 3}),
    ):
        (copy / "manifest.json").write_bytes(whole)
        forge(copy, lambda table, name=name, value=value: table.update({name: value}))
        with pytest.raises(VerificationError):
            gristmill.verify(copy)


def test_a_changed_byte_in_run_json_is_found(copy: Path) -> None:
    data = (copy / "run.json").read_bytes()
    for place in range(0, len(data), 7):
        (copy / "run.json").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(VerificationError, match="run.json"):
            gristmill.verify(copy)
    (copy / "run.json").unlink()
    gristmill.verify(copy)


def test_links_are_refused(copy: Path, tmp_path: Path) -> None:
    (copy / "tokens").rename(tmp_path / "elsewhere")
    (copy / "tokens").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VerificationError, match="tokens: a link"):
        gristmill.verify(copy)


def test_a_manifest_that_says_format_1_is_held_to_its_tokenizer(copy: Path) -> None:
    def older(table: dict[str, Any]) -> None:
        table["format"] = 1
        table["tokens"] = None

    forge(copy, older)
    gristmill.verify(copy)

    def fewer(table: dict[str, Any]) -> None:
        for part in table["parts"]:
            if part["path"].startswith("tokens/") and part["path"].endswith(".bin"):
                part["counts"]["tokens"] //= 2
        table["funnel"]["tokens"] = sum(
            part["counts"]["tokens"] for part in table["parts"] if part["path"].endswith(".bin")
        )

    forge(copy, fewer)
    with pytest.raises(VerificationError, match="bytes do not hold"):
        gristmill.verify(copy)


def test_a_manifest_that_says_format_1_has_nothing_of_later_formats(copy: Path) -> None:
    forge(copy, lambda table: table.update(format=1))
    with pytest.raises(VerificationError, match="format: 1, which has no `tokens`"):
        gristmill.verify(copy)


def test_tokens_without_a_tokenizer_in_the_recipe_are_no_tokens(copy: Path) -> None:
    def without(table: dict[str, Any]) -> None:
        table.update(format=1, tokens=None)
        table["recipe"]["tokens"] = None

    forge(copy, without)
    with pytest.raises(VerificationError, match=r"recipe has no \[tokens\]"):
        gristmill.verify(copy)
