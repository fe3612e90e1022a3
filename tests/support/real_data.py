"""The folder of real data, by its sets."""

from pathlib import Path

from tests.support.skips import missing


class RealData(type(Path())):  # type: ignore[misc]
    """A folder of which tests use the sets that are there: `data / "A_warc/wayback"` skips the test
    where there is no set A_warc, and fails it where GRISTMILL_REQUIRE names data.
    """

    def __truediv__(self, name: str | Path) -> Path:
        found = Path(self) / name
        folder = Path(self) / Path(name).parts[0]
        if not folder.exists():
            missing("data", f"there is no set {folder.name} in {Path(self)} (GRISTMILL_DATA)")
        return found
