"""The package of examples/genesis, found as if it were installed: by its entry points."""

import sys
import tomllib
from collections.abc import Iterator

import pytest

from gristmill.trainer_formats import FORMATS, IMPORTED
from tests.support import ROOT

PACKAGE = ROOT / "examples/genesis"
sys.path.insert(0, str(PACKAGE))


@pytest.fixture(scope="package", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("site")
    info = folder / "gristmill_genesis-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for plugins in (FORMATS, IMPORTED):
            plugins.__dict__.pop("_installed", None)
        yield
    for plugins in (FORMATS, IMPORTED):
        plugins.__dict__.pop("_installed", None)
