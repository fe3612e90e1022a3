"""How near an address is, and that a redirect leads no nearer."""

from pathlib import Path

import pytest

from gristmill.errors import SourceError
from gristmill.store.cache import Cache
from gristmill.store.http import hosts
from gristmill.store.http.hosts import HERE, PRIVATE, PUBLIC
from gristmill.store.http.remotes import Remote
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support.faults import File, Reply, Site, site

ADDRESSES = {
    HERE: "127.0.0.1 127.9.9.9 ::1 169.254.169.254 fe80::1%eth0 0.0.0.0 :: ::ffff:127.0.0.1 "
    "64:ff9b::7f00:1 2002:7f00:1::",
    PRIVATE: "10.0.0.1 192.168.1.1 172.16.0.1 100.64.0.1 fd00::1 224.0.0.1 ::ffff:10.0.0.1 "
    "64:ff9b::a00:1 198.18.0.1",
    PUBLIC: "8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808",
}


@pytest.mark.parametrize(
    ("address", "near"),
    [(address, near) for near, line in ADDRESSES.items() for address in line.split()],
)
def test_how_near_an_address_is(address: str, near: int) -> None:
    assert hosts.nearness(address) == near


def redirecting(first: Site, second: Site) -> str:
    """A URL of one server that leads to the other."""
    second.put("/secret", b"secret")

    def lead(own: Site, path: str, reply: Reply) -> Reply:
        return Reply(302, {"Location": f"{second.address}/secret"}, b"")

    first.files["/a"] = File(b"x")
    first.faults.extend([lead] * 8)
    return first.address + "/a"


@pytest.mark.parametrize(
    ("first", "then", "followed"),
    [
        (PUBLIC, PUBLIC, True),
        (PUBLIC, PRIVATE, False),
        (PUBLIC, HERE, False),
        (PRIVATE, PUBLIC, True),
        (PRIVATE, PRIVATE, True),
        (PRIVATE, HERE, False),
        (HERE, HERE, True),
    ],
)
def test_a_redirect_leads_no_nearer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, then: int, followed: bool
) -> None:
    """By the address of the connection, whatever the name server said before."""
    order = iter([first, then])
    monkeypatch.setattr("gristmill.store.http.watch.nearness", lambda _: next(order))
    with site() as one, site() as two:
        url = redirecting(one, two)
        transfer = Transfer(Cache(tmp_path / "cache"), Settings(backoff=0.0, retries=0))
        if followed:
            assert transfer.fetch(Remote(url)).path.read_bytes() == b"secret"
            return
        with pytest.raises(SourceError, match="no server outside may lead there") as error:
            transfer.fetch(Remote(url))
        assert error.value.reason == "redirected"
        assert two.asked == []


def test_behind_a_proxy_the_name_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with site() as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        monkeypatch.setattr(
            "gristmill.store.http.client.nearest_address",
            lambda host: HERE if host == "in.example" else 0,
        )
        proxy.faults.append(lambda *_: Reply(302, {"Location": "http://in.example/b"}, b""))
        transfer = Transfer(Cache(tmp_path / "cache"), Settings(backoff=0.0, retries=0, retry=True))
        with pytest.raises(SourceError, match="redirected to http://in.example/b, which is on"):
            transfer.fetch(Remote("http://out.example/a"))
        assert len(proxy.asked) == 1
