"""Golden digests: a small corpus of the tests' own text gives these bytes, for these versions; and
always these tokens.
"""

import hashlib
import json
from pathlib import Path

from gristmill.corpus.corpus import versions
from gristmill.pipeline import run
from gristmill.store.manifest import decode
from tests.support.corpora import lay_out

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
        table = {
            "versions": {**versions(), "tokenizers": _tokenizers()},
            "content": content,
            "logical": logical(folder / "corpus"),
        }
    GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
