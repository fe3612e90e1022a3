"""What a report of an error names."""

import json
import subprocess
import sys

import gristmill
from gristmill.reports.installation import installation, lines


def test_installation_names_versions() -> None:
    found = installation()
    assert found["gristmill"] == gristmill.__version__
    assert found["python"] == sys.version.split()[0]
    assert found["libraries"].get("numba", "0") is not None
    assert any(line.split() == ["python", found["python"]] for line in lines(found))


def test_verb() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gristmill", "version", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["gristmill"] == gristmill.__version__
