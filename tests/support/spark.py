"""A Spark standalone cluster on this machine: a master and workers, each a process of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support import ROOT
from tests.support.servers import free_port

# What costs a Java that lives for seconds most: its optimising compiler, collectors on threads, the
# proof of byte code that was proved before, and a web page for each session.
JAVA = {
    "JDK_JAVA_OPTIONS": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions "
        "-XX:-BytecodeVerificationRemote -Dspark.ui.enabled=false"
    )
}


class Cluster:
    """`address` is the master's; `workers` are its processes, in the order that they were
    started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._class = str(Path(pyspark.__file__).parent / "bin/spark-class")
        source = str(ROOT / "src")
        self.environment = {
            **os.environ,
            **JAVA,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOG_DIR": str(folder),
            "SPARK_DAEMON_MEMORY": "400m",
            "PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH")))),
        }
        port = free_port()
        self.address = f"spark://127.0.0.1:{port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master = self._start(
            "master",
            "master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            str(free_port()),
        )
        self.wait_for("master", "I have been elected leader")

    def _start(self, name: str, what: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with open(self._folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [self._class, f"org.apache.spark.deploy.{what}", *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def wait_for(self, name: str, said: str) -> None:
        """Wait until the log of a process has something that matches."""
        end = time.monotonic() + 60
        log = self._folder / f"{name}.log"
        while not re.search(said, log.read_text("utf-8", "replace")):
            assert time.monotonic() < end, log.read_text("utf-8", "replace")[-2000:]
            time.sleep(0.1)

    def add_worker(self, cores: int = 1) -> None:
        """Start one more worker."""
        name = f"worker{len(self.workers)}"
        self.workers.append(
            self._start(
                name,
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                str(cores),
                "--memory",
                "1200m",
                "--webui-port",
                str(free_port()),
                self.address,
            )
        )
        self.wait_for(name, "Successfully registered with master")

    def close(self) -> None:
        for process in (*self.workers, self.master):
            process.kill()
            process.wait()


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and its workers, which have two cores together; they are ended afterwards."""
    started = Cluster(folder)
    try:
        for _ in range(workers):
            started.add_worker(2 // workers)
        yield started
    finally:
        started.close()
