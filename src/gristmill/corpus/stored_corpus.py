"""A corpus in an object store.

    PREFIX/.gristmill.json                 says that the prefix is a corpus' (ownership.py)
    PREFIX/manifest.json, documents/ ...   the finished state, with the names of a local corpus
    PREFIX/work/objects/<sha256>           what a run has written and reads again, by its bytes
    PREFIX/work/state/...                  records, as in a local corpus
    PREFIX/work/lock.json                  who works on it (store_lock.py)

The driver works in a scratch folder of its own: there the records and the manifest are the store's,
and a file is fetched when it is read. An object never changes, so that a task that was given up for
lost and its successor cannot disturb one another, and nothing is renamed: when the corpus is whole,
the store copies objects to their names, manifest and lock last, as `Corpus` renames them.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.layout import FILES, OBSOLETE, PROOFS, is_corpus
from gristmill.corpus.lock import take
from gristmill.corpus.store_lock import StoreLock
from gristmill.errors import Damaged, MachineError, VerificationError
from gristmill.store import manifest as manifests
from gristmill.store.bucket.bucket import Bucket, ListedObject
from gristmill.store.bucket.objects import THREADS, ObjectFile, Objects, bring
from gristmill.store.cache import Cache
from gristmill.store.parts import Part, sync_folder, write_bytes
from gristmill.store.proof import proven, seal, unseal
from gristmill.system.ownership import Prefix, claim
from gristmill.user_input import output, store_url

OBJECTS = "work/objects"
LARGEST = 4 << 30  # bytes of a record, a plan or a manifest
LARGEST_COPY = 5_000_000_000  # bytes that S3 copies in one request
SMALL = re.compile(r"work/(plan\.json|obsolete\.json|state/[a-z_]+/[^/\x00]+\.json)")
COMING = manifests.MANIFEST + manifests.NEXT
COMING_LOCK = manifests.LOCK + manifests.NEXT


def scratch_folder(url: str, cache: Path) -> Path:
    """Return the folder of this machine for a corpus in a store."""
    return cache / "corpora" / hashlib.sha256(url.encode()).hexdigest()[:32]


def corpus_at(out: Path | str | None, recipes: str | None, folder: Path, cache: Path) -> Corpus:
    """Return the corpus that a run writes: in a folder, or in a store with its scratch in `cache`.
    Arguments and errors as in user_input.output.
    """
    url = store_url(out or recipes)
    if url is None:
        return Corpus(output(out, recipes, folder).absolute())
    return StoredCorpus(url, cache)


class StoredCorpus(Corpus):
    """A corpus below a prefix of a bucket; `root` is the driver's scratch folder."""

    def __init__(self, url: str, cache: Path) -> None:
        """Send no request. Raises RecipeError if the URL cannot be one."""
        self.bucket = Bucket(url)
        super().__init__(scratch_folder(self.bucket.url, cache))
        self._cache = Cache(cache)
        self.objects = Objects(self.bucket, OBJECTS)
        self._lock = StoreLock(self.bucket)
        self._placed: dict[str, int] = {}  # sizes of what lies under its own name
        self._known: dict[str, Part] = {}  # files of records, by their path from `root` in a run

    @property
    def name(self) -> str:
        return self.bucket.url

    # -- one run at a time

    def hold(self, on_line: Callable[[str], None] = lambda _: None) -> int:
        """Take the corpus for this run, on this machine and in the store; then see what it has."""
        handle = super().hold(on_line)
        try:
            self.bucket.check_conditions("work/probe")
            self._lock.take(on_line)
            self._look()
        except BaseException:
            self.let_go(handle)
            raise
        return handle

    def let_go(self, handle: int) -> None:
        try:
            self._lock.release()
        finally:
            super().let_go(handle)

    def own(self) -> None:
        """Have the prefix, and the cache that the scratch folder is in, be gristmill's."""
        self._cache.own()
        claim(Prefix(self.bucket), "corpus", lambda _: is_corpus(self._in_store))

    def _in_store(self, key: str) -> bytes | None:
        file = self.bucket.get(key, LARGEST)
        return None if file is None else file.data

    def look(self) -> None:
        """Have the records, the plan and the manifest of the store here, without holding it. Raises
        MachineError if a run of this machine holds it.
        """
        busy = f"{self.name}: a run on this machine is at work on this corpus. Wait for it"
        self._cache.own()
        self.work.mkdir(parents=True, exist_ok=True)
        handle = take(self.work / "lock", busy)
        try:
            self._look()
        finally:
            super().let_go(handle)

    def _look(self) -> None:
        """Have the records, the plan and the manifest of the store here, and know what is there."""
        listed = self._list()
        small = {key for key in listed if key in (*FILES, *PROOFS) or SMALL.fullmatch(key)}
        own = (*FILES, *PROOFS, "work/plan.json", f"work/{OBSOLETE[0]}")
        here = [self.root / name for name in own]
        here += (self.work / "state").glob("*/*.json")
        for path in here:
            if path.relative_to(self.root).as_posix() not in small:
                path.unlink(missing_ok=True)
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda key: self._mirror(key, listed[key]), sorted(small)))

    def _list(self) -> dict[str, ListedObject]:
        listed = self.bucket.listed("")
        sizes = {key: entry.size for key, entry in listed.items()}
        self.objects.look(sizes)
        self._placed = {key: size for key, size in sizes.items() if not key.startswith("work/")}
        return listed

    def _mirror(self, key: str, listed: ListedObject) -> None:
        """Have a small file here as it is in the store."""
        path = self.root / key
        with suppress(OSError):
            data = path.read_bytes()
            digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if listed.e_tag is not None and listed.e_tag.strip('"') == digest:
                return
        file = self.bucket.get(key, LARGEST)
        if file is not None:
            write_bytes(self.root, key, file.data)

    def distrust(self) -> None:
        self._list()

    # -- files

    def write_small(self, path: str, data: bytes) -> None:
        self._lock.check()
        super().write_small(path, data)
        self.bucket.put(path, data)

    def key_of(self, part: Part) -> str | None:
        """Return where the bytes of a part lie in the store; None: they do not."""
        if self.objects.size(part.sha256) == part.size:
            return self.objects.key(part.sha256)
        same = self._trusted.get(part.path) == part.sha256
        return part.path if same and self.is_placed(part) else None

    def is_placed(self, part: Part) -> bool:
        return self._placed.get(part.path) == part.size

    def is_whole(self, part: Part) -> bool:
        return self.key_of(part) is not None

    def damage(self, record: Record[Any]) -> list[str | None]:
        """As Corpus.damage, by the sizes in the store: bytes are compared where they are read.
        Raises VerificationError for a path that leaves the corpus: a store may be anybody's.
        """
        problems: list[str | None] = []
        for part in [*record.work, *record.parts]:
            manifests.check_path(part.path)
            if self.key_of(part) is None:
                if self.objects.size(part.sha256) is not None:
                    self.objects.delete(part.sha256)  # of another size
                left_out = self._trusted and part.path not in self._trusted and part in record.parts
                problems.append(None if left_out else f"{self.name}: {part.path} is not there")
        if not problems:
            self._know(record)
        return problems

    def _know(self, record: Record[Any]) -> None:
        self._known |= {f"work/{part.path}": part for part in record.work}
        self._known |= {f"work/stage/{part.path}": part for part in record.parts}

    def wanted(self, path: str, part: Part) -> ObjectFile:
        """Return a file of a record for a task; `path` is from the root. Raises Damaged."""
        key = self.key_of(part)
        if key is None:
            raise Damaged(f"{self.name}: {part.path} is not there. A run makes it anew")
        return ObjectFile(key, path, part.sha256, part.size)

    def bring(self, files: Iterable[tuple[str, Part]]) -> None:
        """Have files of records here, (path from the root, part). Raises Damaged."""
        bring(self.bucket, [self.wanted(*file) for file in files], self.root)

    def find(self, path: str) -> Path:
        return self._here(f"work/stage/{path}") or super().find(path)

    def work_file(self, path: str) -> Path:
        return self._here(f"work/{path}") or super().work_file(path)

    def _here(self, path: str) -> Path | None:
        """Return a file of a record, fetched if it is not here; None: no record names it."""
        part = self._known.get(path)
        if part is None:
            return None
        try:
            return proven(self.root / path, part.sha256)
        except Damaged:
            self.bring([(path, part)])
        return self.root / path

    # -- records

    def keep(self, phase: str, name: str, record: Record[Any], *, written: bool) -> None:
        """Have a record, and its files before it, in the store. `written`: they are there."""
        for root, parts in ((self.work, record.work), (self.stage, record.parts)):
            for part in parts:
                if written:
                    self.objects.note(part.sha256, part.size)
                elif (root / part.path).exists() or self.key_of(part) is None:
                    self._put(root, part)
        self._know(record)
        self._lock.check()
        path = self.work / self._record_path(phase, name)
        if written:
            self.record(phase, name, record)
        self.bucket.put(f"work/{self._record_path(phase, name)}", path.read_bytes())

    def forget(self, phase: str, name: str) -> None:
        super().forget(phase, name)
        self.bucket.delete(f"work/{self._record_path(phase, name)}")

    def _put(self, root: Path, part: Part) -> None:
        try:
            self.objects.put(root / part.path, part.sha256, part.size)
        except VerificationError as error:
            raise Damaged(str(error)) from error
        except MachineError:
            if (root / part.path).exists():
                raise
            raise Damaged(f"{self.name}: {part.path} is not there. A run makes it anew") from None

    # -- states

    def write_manifest(self, manifest: manifests.Manifest) -> bytes:
        before = self.finished()
        for part in manifest.parts:
            if self.key_of(part) is None:
                self._put(self.stage, part)
        old = {part.path for part in before[0].parts} if before else set()
        named = {part.path for part in manifest.parts}
        placed = [
            part.path for part in manifest.parts if self.objects.size(part.sha256) != part.size
        ]
        data = manifests.encode(manifest)
        self._lock.check()
        obsolete = {"parts": sorted(old - named), "placed": sorted(placed)}
        self.bucket.put(f"work/{OBSOLETE[0]}", seal(obsolete))
        self.bucket.put(COMING, data)
        self.bucket.put(COMING_LOCK, manifests.make_lock(data))
        self._complete_copies(manifest, data, obsolete)
        return data

    def recover(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        coming, lock = self._small(COMING), self._small(COMING_LOCK)
        if lock is None or coming is None:
            if lock is not None or coming is not None:
                self._forget_coming()
            return
        manifests.check_lock(coming, lock)
        manifest, obsolete = manifests.decode(coming), self._obsolete_of_store()
        if self._small(manifests.LOCK) != lock:
            placed = set(obsolete["placed"])
            missing = [
                part.path
                for part in manifest.parts
                if self.objects.size(part.sha256) != part.size
                and not (part.path in placed and self.is_placed(part))
            ]
            if missing:
                for path in missing:
                    on_line(f"{self.name}: {path} is not there")
                if self._small(manifests.MANIFEST) == coming:  # the old one is gone
                    self._forget(manifests.LOCK, manifests.MANIFEST)
                self._forget_coming()
                return
        self._complete_copies(manifest, coming, obsolete)

    def sweep(self) -> None:
        """Nothing: `write_manifest` removes what is obsolete."""

    def _complete_copies(
        self, manifest: manifests.Manifest, data: bytes, obsolete: dict[str, list[str]]
    ) -> None:
        """Put every part in place, then manifest and lock, then clean up. May be done twice."""
        with ThreadPoolExecutor(THREADS) as threads:
            copied = [part for part in manifest.parts if self.objects.size(part.sha256) is not None]
            list(threads.map(self._copy, copied))
            self._check_places(manifest)
            self._lock.check()
            for key, small in (
                (manifests.SUMS, manifests.sums(manifest.parts)),
                (manifests.MANIFEST, data),
                (manifests.LOCK, manifests.make_lock(data)),
            ):
                self.bucket.put(key, small)
                self.bucket.read_back(key, small)
            for path in obsolete["parts"]:
                manifests.check_path(path)
            list(threads.map(self.bucket.delete, obsolete["parts"]))
            list(threads.map(self.objects.delete, set(self.objects.known()) - self._needed()))
        self.bucket.delete(f"work/{OBSOLETE[0]}")
        self._forget_coming()
        self.trust(manifest.parts)
        self._known.clear()
        for folder in self.work.iterdir():  # what was here is there
            if folder.is_dir() and folder.name != "state":
                shutil.rmtree(folder)
        self._look()
        sync_folder(self.root)

    def _check_places(self, manifest: manifests.Manifest) -> None:
        """Raise MachineError if a list of the store lacks a part of a manifest: a store may lose
        what it acknowledged.
        """
        there = self.bucket.sizes("")
        for part in manifest.parts:
            if there.get(part.path) != part.size:
                raise MachineError(
                    f"{self.name}/{part.path}: the store acknowledged {part.size:,} bytes, and its "
                    f"list has {there.get(part.path, 'none')}: no manifest was written. Run the "
                    "same command again"
                )

    def _copy(self, part: Part) -> None:
        if part.size <= LARGEST_COPY:
            self.bucket.copy(self.objects.key(part.sha256), part.path)
            return
        path = f"work/stage/{part.path}"
        self.bring([(path, part)])
        self.bucket.put_file(part.path, self.root / path, part.sha256, part.size, {})

    def _needed(self) -> set[str]:
        """Return the digests of what later runs read under work/."""
        digests: set[str] = set()
        for path in (self.work / "state").glob("*/*.json"):
            record = self.last(path.parent.name, path.stem)
            if record is not None:
                digests |= {part.sha256 for part in record.work}
        return digests

    def _small(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None

    def _obsolete_of_store(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError, KeyError, msgspec.ValidationError):
            table = unseal((self.work / OBSOLETE[0]).read_bytes())
            return msgspec.convert(table, dict[str, list[str]])
        return {"parts": [], "placed": []}

    def _forget_coming(self) -> None:
        self._forget(COMING_LOCK, COMING)

    def _forget(self, *keys: str) -> None:
        for key in keys:
            self.bucket.delete(key)
            (self.root / key).unlink(missing_ok=True)
