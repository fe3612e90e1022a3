"""benchmarks/RESULTS.md is what bench.py makes of benchmarks/results.json: no figure by hand."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_the_page_is_made_from_the_results() -> None:
    call = [sys.executable, str(BENCHMARKS / "bench.py"), "--page"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout == (BENCHMARKS / "RESULTS.md").read_text("utf-8")
