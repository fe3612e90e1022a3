"""What a shell completes behind the options of the command line. Nothing is imported for it: the
lists are those of the modules that they name, and tests/cli/test_completion.py compares them.
"""

import os
from collections.abc import Callable, Sequence

PRESETS = (  # recipe/packaged.py
    "c4",
    "clean-small",
    "datatrove-0.10",
    "dclm",
    "dolma3",
    "fineweb-edu",
    "fineweb-v1",
    "fineweb-v1-fast",
    "fineweb2",
    "gopher",
    "lab",
    "nemotron-cc",
)
STOPS = ("plan", "fetch", "process", "deduplicate", "tokenize", "assemble")  # phases/all_phases.py
PATTERNS = (
    "gpt2",
    "cl100k",
    "llama3",
    "qwen2",
    "o200k",
    "deepseek",
)  # tokens/published_patterns.py


def among(words: Sequence[str] | Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """Complete these words, or those that a function returns."""

    def complete(incomplete: str) -> list[str]:
        known = words() if callable(words) else words
        return [word for word in known if word.startswith(incomplete)]

    return complete


def corpora(incomplete: str) -> list[str]:
    """Return folders of corpora whose path begins like this. Where there is none, the shell
    completes files and folders itself.
    """
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(folder or ".") as entries:
            children = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
    return [
        os.path.join(folder, child)
        for child in children
        if child.startswith(name)
        and (
            os.path.exists(os.path.join(folder, child, "manifest.json"))
            or os.path.isdir(os.path.join(folder, child, "work"))
        )
    ]
