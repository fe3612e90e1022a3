"""Golden digests: a small corpus of the tests' own text gives these bytes, for these versions; and
always these tokens.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from gristmill import run
from gristmill.corpus.corpus import Corpus, versions
from gristmill.corpus.formats import FORMAT_VERSIONS
from gristmill.phases.all_phases import PHASES
from gristmill.store.manifest import decode
from tests.support.corpora import lay_out
from tests.support.every_phase import lay_out_all, phases_of

GOLDEN = Path(__file__).parent / "golden.json"


def logical(corpus: Path) -> dict[str, str]:
    """A digest of each table's rows and of each file's bytes: what no version of a writer
    changes.
    """
    import pyarrow.parquet as pq

    out = {}
    for part in decode((corpus / "manifest.json").read_bytes()).parts:
        path = corpus / part.path
        if path.suffix == ".parquet":
            if part.path.startswith("signatures/"):
                continue
            rows = json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False).encode()
            out[part.path] = hashlib.sha256(rows).hexdigest()[:16]
        elif path.suffix in (".bin", ".docs"):
            out[part.path] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return out


def test_golden_digests(tmp_path: Path) -> None:
    run(lay_out(tmp_path, count=60), out=tmp_path / "corpus", cache_dir=tmp_path / "cache")
    corpus = tmp_path / "corpus"
    golden = json.loads(GOLDEN.read_text())
    assert logical(corpus) == golden["logical"]
    if golden["versions"] == {**versions(), "tokenizers": _tokenizers()}:
        assert decode((corpus / "manifest.json").read_bytes()).content == golden["content"]


def of_phases(corpus: Path) -> dict[str, dict[str, Any]]:
    """By phase, the format versions of what it wrote and a digest of it: of tables the rows."""
    import pyarrow.parquet as pq

    found = {}
    here = Corpus(corpus)
    for phase in PHASES:
        digest = hashlib.sha256()
        for state in sorted((here.work / "state" / phase.name).iterdir()):
            record = here.last(phase.name, state.stem, phase.counts)
            assert record is not None
            for path, part in here.files(record):
                digest.update(f"{part.path}\n".encode())
                data = path.read_bytes()
                if path.suffix == ".parquet":
                    data = repr(pq.read_table(path).to_pylist()).encode()
                digest.update(data)
        formats = {name: FORMAT_VERSIONS[name] for name in phase.formats}
        found[phase.name] = {"formats": formats, "digest": digest.hexdigest()[:16]}
    return found


def test_bytes_of_a_phase_change_with_its_format_version_only(tmp_path: Path) -> None:
    phases_of(lay_out_all(tmp_path), tmp_path / "corpus")
    golden, found = json.loads(GOLDEN.read_text())["phases"], of_phases(tmp_path / "corpus")
    assert list(found) == list(golden)
    for name, now in found.items():
        if now["formats"] == golden[name]["formats"]:
            assert now == golden[name], (
                f"{name} writes other bytes: raise its number in corpus/formats.py, write the "
                "golden file anew, and say in the changelog why"
            )
    assert found == golden, "a format version was raised: write the golden file anew"


def _tokenizers() -> str:
    import tokenizers

    return str(tokenizers.__version__)


def write() -> None:
    """Write the golden file anew: `python -c "from tests.test_golden import write; write()"`. Say
    in the changelog why.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(lay_out(folder / "laid", count=60), out=folder / "corpus", cache_dir=folder / "cache")
        content = decode((folder / "corpus/manifest.json").read_bytes()).content
        phases_of(lay_out_all(folder / "every"), folder / "every/corpus")
        table = {
            "versions": {**versions(), "tokenizers": _tokenizers()},
            "content": content,
            "logical": logical(folder / "corpus"),
            "phases": of_phases(folder / "every/corpus"),
        }
    GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
