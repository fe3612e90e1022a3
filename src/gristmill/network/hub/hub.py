"""Publishing a corpus on the Hugging Face hub: `hf://datasets/OWNER/NAME`.

    data/SOURCE/00000.parquet      the kept documents as text (`export --to parquet`), or
    data/train-00000.parquet       their tokens (`export --to hf-parquet`) and the tokenizer's file
    README.md, croissant.json      the data card and the Croissant description
    corpus/                        manifest.json, manifest.lock, recipe.toml, funnel.json
    SHA256SUMS                     all of these

Files are uploaded first; the hub keeps those that are complete, so that the same command goes on
after an interruption. Then one commit on top of the one that was read makes them all visible and
removes those of the release before: a reader sees one release or the other, and of two publishers
the second is refused. In the end the hub's own list of files is compared with ours.

The token is huggingface_hub's: HF_TOKEN, or that of `hf auth login`. It goes to HF_ENDPOINT alone.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from gristmill.corpus.corpus import Corpus
from gristmill.errors import MachineError, RecipeError, SourceError, VerificationError
from gristmill.network.hub.croissant import croissant
from gristmill.network.hub.data_card import data_card
from gristmill.network.hub.dataset_facts import Config, DatasetFacts, Kind, schema_and_rows
from gristmill.network.releases.samples import text_samples, token_samples
from gristmill.store.cache import default_cache
from gristmill.store.manifest import LOCK, MANIFEST, SUMS, Manifest, make_lock, sums
from gristmill.store.parts import Part, hash_file, machine_errors, to_json, write_bytes
from gristmill.system.ownership import claim_folder
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.export_folder import DESCRIPTION, read_description

ADDRESS = re.compile(r"hf://datasets/([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})")
MOST_FILES = 25_000  # of a commit, says the hub
EXPORTS: dict[Kind, str] = {"text": "parquet", "tokens": "hf-parquet"}
CARD, CROISSANT = "README.md", "croissant.json"
HF = "https://huggingface.co"


class _ReleaseFile(NamedTuple):
    """A file of the release: `part.path` is its path in the repository."""

    part: Part
    path: Path


def publish_to_hub(
    corpus: Path | str,
    target: str,
    *,
    kind: Kind | None = None,
    private: bool = False,
    cache_dir: Path | str | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Publish a corpus as the data set `target`, hf://datasets/OWNER/NAME.

    `kind` is text or tokens (None: tokens where the corpus has them). The files are laid out under
    `cache_dir` first, and removed when they are published. Returns `commit`, `url`, `files`,
    `bytes`, `uploaded` and `removed`.

    Raises RecipeError for a target that cannot be written, VerificationError for a corpus that is
    not as its manifest says or a data set of somebody else's, SourceError where the hub fails.
    """
    name = _repository_name(target)
    root = Path(corpus)
    published = Corpus(root).finished()
    if published is None:
        raise VerificationError(f"{root}: no {MANIFEST}: not a corpus, or not finished")
    manifest, data = published
    chosen: Kind = kind or ("text" if manifest.tokens is None else "tokens")
    digest = make_lock(data).split()[0].decode()
    endpoint = os.environ.get("HF_ENDPOINT", HF).rstrip("/")
    cache = Path(cache_dir or default_cache().parent) / "hub"
    folder = cache / f"{digest[:16]}-{chosen}"
    with machine_errors(folder, every=True):
        claim_folder(folder, "hub")
    on_line(f"{folder}: the files of {name}")
    files = _laid_out(root, folder, chosen, manifest)
    facts = _facts(root, name, endpoint, chosen, manifest, digest, files)
    files += _describe(root, folder, facts, [file.part for file in files])
    done = _Upload(name, endpoint, on_line).publish(files, digest, private)
    shutil.rmtree(folder, ignore_errors=True)
    size = sum(file.part.size for file in files)
    return {"url": facts.address, "files": len(files), "bytes": size, **done}


def _repository_name(target: str) -> str:
    match = ADDRESS.fullmatch(target.rstrip("/"))
    if match is None:
        raise RecipeError(f"{target}: write hf://datasets/OWNER/NAME")
    return match[1]


def _laid_out(root: Path, folder: Path, kind: Kind, manifest: Manifest) -> list[_ReleaseFile]:
    """Return the Parquet files, and the tokenizer's file of tokens; those of an earlier attempt
    that are whole are taken.
    """
    if not _is_whole(folder / "data"):
        export(root, folder / "data", to=EXPORTS[kind])
    parts = _summed(folder / "data")
    files = []
    for part in parts:
        # hf-parquet has a folder data/ of its own.
        path = f"data/{part.path.removeprefix('data/')}"
        if part.path == DESCRIPTION:
            continue
        if not part.path.endswith(".parquet"):
            path = part.path
        moved = msgspec.structs.replace(part, path=path)
        files.append(_ReleaseFile(moved, folder / "data" / part.path))
    data = [file for file in files if file.part.path.endswith(".parquet")]
    if not data:
        raise RecipeError(f"{root}: nothing is kept: there is nothing to publish")
    if len(files) + 8 > MOST_FILES:
        raise RecipeError(
            f"{root}: {len(files):,} files, and a commit on the hub takes {MOST_FILES:,}. Publish "
            "tokens, whose files are larger, or choose an object store"
        )
    return files


def _is_whole(folder: Path) -> bool:
    """Return whether an export was finished and is as it was written."""
    try:
        if read_description(folder) is None:
            return False
        return all(hash_file(folder / part.path)[1] == part.sha256 for part in _summed(folder))
    except (OSError, RecipeError):
        return False


def _summed(folder: Path) -> list[Part]:
    """Return what SHA256SUMS of an export lists."""
    lines = (folder / SUMS).read_text("utf-8").splitlines()
    pairs = [line.split("  ", 1) for line in lines]
    return [Part(path, (folder / path).stat().st_size, digest) for digest, path in pairs]


def _facts(
    root: Path,
    name: str,
    endpoint: str,
    kind: Kind,
    manifest: Manifest,
    digest: str,
    files: list[_ReleaseFile],
) -> DatasetFacts:
    data = {file.part.path: file.path for file in files if file.part.path.endswith(".parquet")}
    by_split = {
        split: {path: place for path, place in data.items() if path.startswith(prefix)}
        for split, prefix in (
            (("train", "data/"),)
            if kind == "text"
            else (("train", "data/train-"), ("validation", "data/val-"))
        )
    }
    schema, rows = pa.schema([]), {}
    for split, of_split in by_split.items():
        if of_split:
            schema, rows[split] = schema_and_rows(of_split)
    return DatasetFacts(
        name=name,
        address=f"{endpoint}/datasets/{name}",
        kind=kind,
        manifest=manifest,
        digest=digest,
        files=[file.part for file in files if file.part.path in data],
        schema=schema,
        rows=rows,
        configs=_configs(kind, list(data), list(rows)),
        samples=text_samples(_first_files(data)) if kind == "text" else token_samples(root),
    )


def _configs(kind: Kind, paths: list[str], splits: list[str]) -> list[Config]:
    if kind == "tokens":
        globs = {"train": "data/train-*", "validation": "data/val-*"}
        return [Config("default", {split: globs[split] for split in splits})]
    sources = list(dict.fromkeys(path.split("/")[1] for path in paths))
    configs = [Config("default", {"train": "data/*/*.parquet"})]
    if len(sources) > 1:
        configs += [Config(name, {"train": f"data/{name}/*.parquet"}) for name in sources]
    return configs


def _first_files(data: dict[str, Path]) -> dict[str, Path]:
    """Return the first file of each source's texts."""
    firsts: dict[str, Path] = {}
    for name, path in sorted(data.items()):
        firsts.setdefault(name.split("/")[1], path)
    return firsts


def _describe(
    root: Path, folder: Path, facts: DatasetFacts, parts: list[Part]
) -> list[_ReleaseFile]:
    """Write what describes the data set, and SHA256SUMS of all of it."""
    made = [
        write_bytes(folder, CARD, data_card(facts).encode()),
        write_bytes(folder, CROISSANT, to_json(croissant(facts))),
    ]
    for name in (MANIFEST, LOCK, "recipe.toml", "funnel.json"):
        if (root / name).is_file():
            made.append(write_bytes(folder, f"corpus/{name}", (root / name).read_bytes()))
    if hashlib.sha256((folder / "corpus" / MANIFEST).read_bytes()).hexdigest() != facts.digest:
        raise VerificationError(f"{root}: its {MANIFEST} changed while it was read. Publish again")
    made.append(write_bytes(folder, SUMS, sums([*parts, *made])))
    return [_ReleaseFile(part, folder / part.path) for part in made]


class _Upload:
    """One release on its way to the hub."""

    def __init__(self, name: str, endpoint: str, on_line: Callable[[str], None]) -> None:
        hub = library()
        hub.utils.disable_progress_bars()
        self._hub, self._name, self._on_line = hub, name, on_line
        self._api = hub.HfApi(endpoint=endpoint, library_name="gristmill")
        self._where: dict[str, Any] = {"repo_id": name, "repo_type": "dataset"}

    def publish(self, files: list[_ReleaseFile], digest: str, private: bool) -> dict[str, Any]:
        with self._errors():
            self._api.create_repo(**self._where, private=private or None, exist_ok=True)
            head = self._api.repo_info(**self._where).sha
            before = self._files_at(head)
            obsolete = self._obsolete(before, head, {file.part.path for file in files})
            changed = [file for file in files if not _is_there(before, file)]
            operations = [
                self._hub.CommitOperationAdd(file.part.path, str(file.path)) for file in changed
            ]
            operations += [self._hub.CommitOperationDelete(path) for path in obsolete]
            self._on_line(
                f"{self._name}: {len(changed)} of {len(files)} files are new, "
                f"{sum(file.part.size for file in changed) / 1e6:,.1f} MB"
            )
            commit = head
            if operations:
                commit = self._api.create_commit(
                    **self._where,
                    operations=operations,
                    commit_message=f"Corpus {digest[:16]}",
                    parent_commit=head,
                ).oid
            after = self._files_at(commit)
        wrong = [file.part.path for file in files if not _is_there(after, file)]
        wrong += [path for path in obsolete if path in after]
        if wrong:
            raise SourceError(
                f"{self._name}: the hub's commit {commit} does not have these files as they were "
                f"sent: {', '.join(wrong[:5])}. Publish again",
                "digest",
            )
        return {"commit": commit, "uploaded": len(changed), "removed": len(obsolete)}

    def _files_at(self, commit: str) -> dict[str, Any]:
        """Return the files of a commit, by path."""
        tree = self._api.list_repo_tree(**self._where, revision=commit, recursive=True)
        return {entry.path: entry for entry in tree if isinstance(entry, self._hub.hf_api.RepoFile)}

    def _obsolete(self, before: dict[str, Any], head: str, ours: set[str]) -> list[str]:
        """Return the files of the release before that this one lacks. Raises VerificationError for
        a data set that gristmill did not write.
        """
        if SUMS not in before:
            others = sorted(before.keys() & ours)
            if others:
                raise VerificationError(
                    f"{self._name}: it has {', '.join(others[:3])} and no {SUMS}: gristmill did "
                    "not write this data set. Choose another name"
                )
            return []
        # A file of our own that is read once: no cache of the user's is filled.
        with self._scratch() as folder:
            path = self._api.hf_hub_download(
                **self._where, filename=SUMS, revision=head, local_dir=folder
            )
            lines = Path(path).read_text("utf-8").splitlines()
        listed = {line.partition("  ")[2] for line in lines}
        return sorted((listed & before.keys()) - ours)

    @contextmanager
    def _scratch(self) -> Iterator[str]:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            yield folder

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The hub's errors, as ours."""
        errors = self._hub.errors
        try:
            with machine_errors(Path()):
                yield
        except errors.HfHubHTTPError as error:
            raise _explained(self._name, error) from error
        except (errors.LocalTokenNotFoundError, errors.HFValidationError, ValueError) as error:
            raise RecipeError(f"{self._name}: {error}") from error
        except Exception as error:
            # Which package asks over HTTP differs from version to version; an upload's failure is
            # a RuntimeError around it.
            if isinstance(error.__cause__, errors.HfHubHTTPError):
                raise _explained(self._name, error.__cause__) from error
            chain = (type(error), type(error.__cause__))
            packages = {error_type.__module__.partition(".")[0] for error_type in chain}
            # hf_xet, which uploads large files where it is installed, raises Python's own errors.
            theirs = packages & {"httpx", "httpx2", "requests", "huggingface_hub", "hf_xet"}
            if not theirs and not isinstance(error, ConnectionError | TimeoutError | RuntimeError):
                raise
            raise SourceError(
                f"{self._name}: the hub cannot be reached: {error}. What was uploaded is kept: "
                "publish again",
                "unreachable",
            ) from error


def library() -> Any:
    """Return the package huggingface_hub. Raises RecipeError where it is not installed."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.hf_api
        import huggingface_hub.utils
    except ImportError as error:
        raise RecipeError(
            "hf:// needs the package huggingface_hub: pip install 'gristmill[hub]'"
        ) from error
    return huggingface_hub


def _is_there(files: dict[str, Any], file: _ReleaseFile) -> bool:
    """Return whether the hub has a file as it is here: by its sha256 if it is a large one, else by
    git's sha1.
    """
    entry = files.get(file.part.path)
    if entry is None or entry.size != file.part.size:
        return False
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == file.part.sha256)
    data = file.path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return bool(entry.blob_id == blob.hexdigest())


def _explained(name: str, error: Any) -> Exception:
    """Return what to do about an answer of the hub."""
    status = error.response.status_code if error.response is not None else 0
    said = (error.server_message or str(error).partition("\n")[0]).strip()
    if status in (401, 403):
        return RecipeError(
            f"{name}: the hub refuses ({status}): {said}. Set HF_TOKEN to a token that may write "
            "there, or `hf auth login`"
        )
    if status in (409, 412):
        return MachineError(
            f"{name}: somebody else published while this was uploaded ({said}). Nothing was "
            "changed, and what was uploaded is kept: look at their release, then publish again"
        )
    if status == 404:
        return RecipeError(
            f"{name}: the hub has no such owner, or the token may not see it: {said}"
        )
    return SourceError(
        f"{name}: the hub answered {status}: {said}. What was uploaded is kept: publish again",
        "unreachable",
    )
