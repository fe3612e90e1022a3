"""Well-known names of tokenizers that are not files, and advice on how to get their files."""

import re
from pathlib import Path

HUB_FILE = "https://huggingface.co/{}/resolve/main/tokenizer.json"
GPT2 = ("gpt-2", "openai-community/gpt2", "openai/gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
# OpenAI's models and variants of encodings, and the rank file that has their tokens.
ENCODINGS = {
    "gpt-4": "cl100k_base",
    "gpt-3.5-turbo": "cl100k_base",
    "gpt-4o": "o200k_base",
    "o200k_harmony": "o200k_base",
    "p50k_edit": "p50k_base",
}
KNOWN = (
    "Accepted: the names gpt2, r50k_base, p50k_base, cl100k_base and o200k_base, and the path or "
    "URL of a tokenizer.json or of one of their rank files"
)
MAKE = "`gristmill tokenizer train FILE... --out tokenizer.json` makes one"


def advice(name: str, path: Path) -> str:
    """Return what to do about a name that is not a file; `path` is where it was searched for."""
    if name.lower() in GPT2:
        return f'this is GPT-2\'s tokenizer: write "gpt2". {KNOWN}'
    if encoding := ENCODINGS.get(name.lower()):
        return f'its text tokens are those of {encoding}: write "{encoding}". {KNOWN}'
    if path.is_dir():
        inside = path / "tokenizer.json"
        return (
            f"a folder: name the file {inside}"
            if inside.is_file()
            else f"a folder without a tokenizer.json. {KNOWN}"
        )
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) and not name.endswith(
        (".json", ".tiktoken", ".bpe")
    ):
        return (
            f"no file {path}; if it is a model of the Hugging Face hub, use the URL of its file, "
            f"{HUB_FILE.format(name)} (with HF_TOKEN if the model needs consent), or download it: "
            f"`hf download {name} tokenizer.json --local-dir .`. {KNOWN}"
        )
    return f"no file {path}. {KNOWN}; {MAKE}"
