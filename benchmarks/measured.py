"""A measured process that waits for its turns (rounds.py), as bench.py holds it."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class PeerFailed(RuntimeError):
    """A measured process ended without an answer."""


class Measured:
    """A measured process (rounds.py) that waits for its turns."""

    def __init__(
        self,
        python: str,
        script: str,
        work: str,
        path: Path,
        limit: int,
        environment: dict[str, str],
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        command = [python, str(HERE / script), work, str(path), str(limit)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            bufsize=1,
        )
        try:
            self.about = self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, question: str) -> Any:
        """Ask for a round, or for a check."""
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
            raise PeerFailed(
                last[-1][:200] if last else f"ended with code {self._process.returncode}"
            )
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()
