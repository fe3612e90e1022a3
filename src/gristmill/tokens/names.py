"""Names of tokenizers that are no files: what each is known as, and how its file is come by."""

import re
from pathlib import Path

HUB_FILE = "https://huggingface.co/{}/resolve/main/tokenizer.json"
GPT2 = (
    "gpt-2",
    "r50k_base",
    "openai-community/gpt2",
    "openai/gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
)
# Tokenizers of tiktoken's, and copies of them on the hub in the form that says how text is cut.
TIKTOKEN = {
    "cl100k_base": "Xenova/gpt-4",
    "gpt-4": "Xenova/gpt-4",
    "gpt-3.5-turbo": "Xenova/gpt-3.5-turbo",
    "o200k_base": "Xenova/gpt-4o",
    "gpt-4o": "Xenova/gpt-4o",
    "p50k_base": None,
    "p50k_edit": None,
    "o200k_harmony": "openai/gpt-oss-20b",
}
KNOWN = "Known are gpt2 by name, and any tokenizer.json (or GPT-2's ranks) by its path or URL"
MAKE = "`gristmill tokenizer train FILE... --out tokenizer.json` makes one"


def advice(name: str, path: Path) -> str:
    """What to do about a tokenizer that is no file; `path` is where it was looked for."""
    if name.lower() in GPT2:
        return f'that is GPT-2\'s: write "gpt2". {KNOWN}'
    if name.lower() in TIKTOKEN:
        copy = TIKTOKEN[name.lower()]
        found = f": one is at {HUB_FILE.format(copy)}, which may be named as it is" if copy else ""
        return (
            "a tokenizer of tiktoken's, whose file does not say how text is cut into pieces: "
            f"use its tokenizer.json{found}. {KNOWN}"
        )
    if path.is_dir():
        inside = path / "tokenizer.json"
        return (
            f"a folder: name the file {inside}"
            if inside.is_file()
            else f"a folder, and there is no tokenizer.json in it. {KNOWN}"
        )
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) and not name.endswith(
        (".json", ".tiktoken", ".bpe")
    ):
        return (
            f"no file {path}; if it is a model of the Hugging Face hub, name its file: "
            f"{HUB_FILE.format(name)} (HF_TOKEN where it asks "
            f"for consent), or `hf download {name} tokenizer.json --local-dir .` and "
            f"tokenizer.json. {KNOWN}"
        )
    return f"no file {path}. {KNOWN}; {MAKE}"
