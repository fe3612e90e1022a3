"""Fixtures of all tests: real data where there are some, a private cache, the size of a soak."""

import os
from pathlib import Path

import pytest

from tests.support.real_data import RealData
from tests.support.skips import missing

collect_ignore = ["additions"]  # tests/test_additions.py runs them in a copy
SOAK = int(os.environ.get("GRISTMILL_SOAK", "1"))


@pytest.fixture(scope="session")
def data() -> RealData:
    """The folder with real data (GRISTMILL_DATA): a set that is not in it skips the test."""
    folder = Path(os.environ.get("GRISTMILL_DATA") or Path.home() / ".cache" / "gristmill-data")
    if not folder.is_dir():
        missing("data", f"there is no real data at {folder}; set GRISTMILL_DATA")
    return RealData(folder)


@pytest.fixture(scope="session")
def tiktoken_folder() -> Path:
    """The folder with tiktoken's files (TIKTOKEN_CACHE_DIR)."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    if not folder or not Path(folder).is_dir():
        missing("tiktoken", "TIKTOKEN_CACHE_DIR names no folder")
    return Path(str(folder))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache for fetched shards of one test's own."""
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def soak() -> int:
    """How many times its usual size a test takes: 1, or more under `make soak`."""
    return SOAK


# They begin first: a long one that begins last keeps one processor busy while the others have
# nothing to do. The longest first.
LONGEST = (
    "engine/test_spark.py",
    "kernels/jit/test_compile.py",
    "test_presets.py",
    "engine/test_programs.py",
    "corpus/test_crash.py",
    "reports/test_contamination.py",
    "filters/pii/test_private.py",
    "phases/test_fetch.py",
    "dedup/test_index.py",
)


def _place(item: pytest.Item) -> int:
    """Where a test stands in the order: those of LONGEST first, then the others as collected."""
    name = item.path.relative_to(Path(__file__).parent).as_posix()
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest tests first; under `make soak`, leave out the tests that do no more there
    than under `make test`.
    """
    assert all((Path(__file__).parent / name).exists() for name in LONGEST)
    items.sort(key=_place)
    if SOAK == 1:
        return
    longer = [item for item in items if _longer_in_soak(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(longer)])
    items[:] = longer


def _longer_in_soak(item: pytest.Item) -> bool:
    fuzzed = getattr(getattr(item, "obj", None), "is_hypothesis_test", False) or hasattr(
        item.module, "FUZZ"
    )  # type: ignore[attr-defined]
    return bool(
        fuzzed or item.get_closest_marker("soak") or "soak" in getattr(item, "fixturenames", ())
    )
