"""Arguments of the command line as values."""

import re
from typing import Annotated

from typer import Option

from gristmill.errors import RecipeError

EXIT_CODES = (
    "Exit codes: 0 done; 2 usage; 3 shards failed; 4 verification failed; 5 disk, memory, "
    "permissions; 130 interrupted."
)
BENCH_EXIT_CODES = EXIT_CODES.replace("0 done;", "0 done; 1 the loader is too slow;")
Json = Annotated[bool, Option("--json", help="Print JSON, one object a line.")]


def read_settings(given: list[str] | None) -> dict[str, str]:
    """Return the keys and values of all `--set key=value`. Raises RecipeError."""
    settings = {}
    for setting in given or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RecipeError(f"--set {setting}: write key=value")
        settings[key.strip()] = value.strip()
    return settings


def parse_bytes(option: str, given: str | None) -> int | None:
    """Return a size such as 64MiB, 200GB or 5000, in bytes. Raises RecipeError."""
    if given is None:
        return None
    match = re.fullmatch(r"(\d+)\s*([kKMGT]?)(i?)B?", given.strip())
    size = (
        int(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " ")
        if match
        else 0
    )
    if size < 1:
        raise RecipeError(f"{option} {given}: write a size, such as 64MiB, 200GB or 5000000")
    return size
