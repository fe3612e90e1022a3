"""Draw docs/report.png: the top of a report, by a headless Chromium.

    python scripts/report_picture.py REPORT.html [PICTURE.png]

The picture in the repository is of a corpus of Debian's manuals, PostgreSQL's manuals of two
versions, pages of gov.uk and old crawls; any report will do.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH, HEIGHT = 1120, 1180
MOST = 200_000  # bytes
NAMES = ("chromium", "chromium-browser", "google-chrome")


def draw(report: Path, picture: Path) -> None:
    """Write the picture of a report."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        sys.exit(f"no browser: one of {', '.join(NAMES)} is needed")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={picture.resolve()}",
                report.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
        )
    size = picture.stat().st_size
    print(f"{picture}: {size:,} bytes")
    if size > MOST:
        sys.exit(f"{picture}: over {MOST:,} bytes: choose a report with less in its first screen")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/report.png"))
