"""How the file that `explore` writes is opened: by embedding-atlas where it is installed, else by
DuckDB. gristmill serves no page itself.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gristmill.engine.relations import pattern, quoted
from gristmill.errors import MachineError

ATLAS = "embedding-atlas"
INSTALL = "pip install 'gristmill[explore]' (or: uv tool install embedding-atlas)"


def atlas_command(file: Path | str, *, places: bool, host: str, port: int) -> list[str] | None:
    """Return the command that starts embedding-atlas with a file of `explore`, `places` if it has x
    and y; None: it is not installed. Its own models, which it would fetch from a hub, are not asked
    for.
    """
    beside = os.path.join(os.path.dirname(sys.executable), ATLAS)
    program = shutil.which(ATLAS) or (beside if os.access(beside, os.X_OK) else None)
    if program is None:
        return None
    shown = ["--x", "x", "--y", "y"] if places else []
    words = [program, str(file), "--text", "text", *shown, "--disable-projection"]
    return [*words, "--host", host, "--port", str(port)]


def start(command: list[str]) -> int:
    """Run embedding-atlas until it ends, as with Ctrl-C; its exit code. Raises MachineError."""
    # Nothing is asked of the network: neither models nor their versions.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    try:
        with subprocess.Popen(command, env=environment) as running:
            try:
                return running.wait()
            except KeyboardInterrupt:
                running.wait()
                return 0
    except OSError as error:
        raise MachineError(f"{command[0]}: cannot be started: {error.strerror}") from error


def lines(result: dict[str, Any], command: list[str] | None) -> list[str]:
    """Return what was written, and how to open it."""
    file = result["file"]
    sql = quoted(pattern(Path(file)))
    view = f"CREATE VIEW documents AS FROM {sql}"
    count = f"SELECT reason, count(*) FROM {sql} GROUP BY reason ORDER BY 2 DESC"
    found = f"SELECT document, reason, text FROM {sql} WHERE text ILIKE '%cookie%' LIMIT 20"
    said = [
        (
            f"{file}: {result['documents']:,} of {result['of']:,} documents, "
            f"{result['with_text']:,} with their text, {result['bytes'] / 1e6:,.1f} MB"
        )
    ]
    if command is None:
        said.append(f"To look at it in a browser, {INSTALL}; then run this again. Or DuckDB:")
    else:
        said += ["In a browser:", f"  {shlex.join(command)}", "By SQL:"]
    said.append(f"  duckdb -cmd {_quoted(view)} -ui")
    said += [f"  duckdb -c {_quoted(one)}" for one in (count, found)]
    return said


def _quoted(sql: str) -> str:
    """Return a word for a shell: in double quotes where they do, since SQL has single ones."""
    return shlex.quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'
