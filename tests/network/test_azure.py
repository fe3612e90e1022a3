"""Publishing to Azure Blob Storage: against Azurite, Microsoft's emulator, where it is installed
(`npm install azurite`; the folder node_modules/.bin on PATH).
"""

import base64
import email.utils
import hashlib
import hmac
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import RecipeError
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import Publisher
from gristmill.network.releases.targets import TargetChangedError, open_target
from tests.support import servers
from tests.support.releases import everything_at, small_corpus
from tests.support.skips import missing

ACCOUNT = "devstoreaccount1"
# The account and key of every Azurite, as its documentation gives them.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def make_container(address: str, name: str) -> None:
    """Make a container; its request is signed by the shared key (obstore has no call for it)."""
    kind = "application/octet-stream"
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{key}:{value}\n" for key, value in headers.items())
    place = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    words = ("PUT", "", "", "", "", kind, "", "", "", "", "", "")
    said = "\n".join(words) + f"\n{signed}{place}"
    mac = hmac.new(base64.b64decode(KEY), said.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
    request = urllib.request.Request(
        f"{address}/{name}?restype=container",
        b"",
        {**headers, "Content-Type": kind, "Content-Length": "0"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from gristmill.store.http import remotes

    program = shutil.which("azurite-blob")
    if program is None:
        missing("azurite", "azurite-blob is not on PATH: npm install azurite")
    port = servers.free_port()
    command = [str(program), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--blobPort", str(port), "-l", str(tmp_path / "azurite")]
    address = f"http://127.0.0.1:{port}/{ACCOUNT}"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", address)
    monkeypatch.setattr(remotes, "_stores", {})
    with servers.running(command, f"{address}?comp=list", tmp_path / "log"):
        make_container(address, "releases")
        yield


@pytest.mark.usefixtures("azure")
def test_a_container_of_azure_is_a_target(tmp_path: Path) -> None:
    first, second = (small_corpus(tmp_path / f"c{seed}", seed) for seed in (1, 2))
    target = "az://releases/flour"
    done = publish(first, target)
    assert (done["release"], done["objects"]) == (1, 9)
    assert publish(first, target)["new"] is False
    slow = Publisher(open_target(target))
    assert publish(second, target)["release"] == 2
    with pytest.raises(TargetChangedError, match="another publisher wrote it meanwhile"):
        slow.release((first / "manifest.json").read_bytes(), ["tokens"])
    slow.close()
    assert everything_at(target).release.number == 2
    # 10 MB: in blocks
    large = small_corpus(tmp_path / "large", 3, tokens=5 << 20, shards=1)
    assert publish(large, target)["release"] == 3
    assert everything_at(target).release.number == 3
    with pytest.raises(RecipeError, match=r"no such bucket \(ContainerNotFound\)"):
        publish(first, "az://nowhere/flour")
