"""Well-known names of tokenizers that are not files, and advice on how to get their files."""

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
# tiktoken's tokenizers, and copies of them on the hub as tokenizer.json, which names the pattern
# that splits text into pieces. None: there is no such copy.
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
KNOWN = "Accepted: the name gpt2, and the path or URL of a tokenizer.json or of GPT-2's ranks"
MAKE = "`gristmill tokenizer train FILE... --out tokenizer.json` makes one"


def advice(name: str, path: Path) -> str:
    """What to do about a name that is not a file; `path` is where it was searched for."""
    if name.lower() in GPT2:
        return f'this is GPT-2\'s tokenizer: write "gpt2". {KNOWN}'
    if name.lower() in TIKTOKEN:
        copy = TIKTOKEN[name.lower()]
        found = f": {HUB_FILE.format(copy)} can be used as it is" if copy else ""
        return (
            "a tiktoken tokenizer, whose file does not contain the pattern that splits text into "
            f"pieces: use its tokenizer.json{found}. {KNOWN}"
        )
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
