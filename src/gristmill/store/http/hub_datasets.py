"""Which files a dataset of the Hugging Face hub, or one configuration (subset) of it, consists of.

The dataset's card says so (`configs` in its head), which the hub's API gives as JSON:
https://huggingface.co/docs/hub/datasets-manual-configuration
Where the card says nothing, it is all data files, or those in the folder with the subset's name.
"""

from functools import partial
from typing import Any

import msgspec

from gristmill.errors import NO_JSON, RecipeError, SourceError
from gristmill.store.http.client import Client
from gristmill.store.http.remotes import LONGEST_PAGE, Remote, hub_endpoint
from gristmill.store.http.urls import shown

# Names of data files, where a card does not say which files are data.
DATA = ("parquet", "jsonl", "jsonl.gz", "jsonl.zst", "json.gz", "csv", "arrow")
TRAIN = "train"


def data_urls(name: str, subset: str | None, remote: Remote, client: Client) -> list[str]:
    """Return the URLs (globs) of a dataset `owner/name`, of its training split; `remote` is any
    file of it. Raises SourceError, and RecipeError for a subset that it does not have.
    """
    page = f"{hub_endpoint()}/api/datasets/{name}"
    card = client.retrying(shown(page), partial(_card, remote, page, client))
    base = f"hf://datasets/{name}/"
    configs = {
        str(config.get("config_name", "default")): config for config in _tables(card, "configs")
    }
    if configs:
        wanted = subset or ("default" if "default" in configs else None)
        if wanted is None and len(configs) == 1:
            wanted = next(iter(configs))
        if wanted not in configs:
            raise RecipeError(
                f"hub = {name!r}: {'it needs a subset' if subset is None else f'no {subset!r}'}; "
                f"its subsets are {', '.join(sorted(configs))}"
            )
        patterns = list(dict.fromkeys(_patterns(configs[wanted])))
        if patterns:
            return [base + pattern for pattern in patterns]
    folder = f"{subset}/" if subset else ""
    return [f"{base}{folder}**/*.{end}" for end in DATA]


def _card(remote: Remote, page: str, client: Client) -> dict[str, Any]:
    with client.open(remote.request()._replace(url=page, name=shown(page))) as answer:
        data = b""
        for block in answer.blocks():
            data += block
            if len(data) > LONGEST_PAGE:
                raise SourceError(
                    f"{shown(page)}: more than {LONGEST_PAGE:,} bytes about a dataset", "too-large"
                )
    try:
        return msgspec.convert(msgspec.json.decode(data), dict[str, Any]).get("cardData") or {}
    except NO_JSON as error:
        raise SourceError(f"{shown(page)}: the hub's answer is not about a dataset") from error


def _tables(table: Any, key: str) -> list[dict[str, Any]]:
    value = table.get(key) if isinstance(table, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _patterns(config: dict[str, Any]) -> list[str]:
    """Return the patterns of a configuration: of its training split, or of all where it has
    none.
    """
    folder = str(config.get("data_dir") or "").strip("/")
    files = config.get("data_files")
    if files is None:
        return [f"{folder}/**/*.{end}" for end in DATA] if folder else []
    by_split = _tables(config, "data_files")
    chosen: Any = [entry.get("path") for entry in by_split if entry.get("split") == TRAIN]
    chosen = chosen or [entry.get("path") for entry in by_split] or files
    paths: list[str] = []
    for entry in chosen if isinstance(chosen, list) else [chosen]:
        paths += [entry] if isinstance(entry, str) else entry if isinstance(entry, list) else []
    return [f"{folder}/{entry}" if folder else str(entry) for entry in paths]
