"""Releases and pointers that somebody else wrote: refused with the reason, never a raw error."""

import json

import pytest

from gristmill.errors import VerificationError
from gristmill.network.releases.layout import (
    Release,
    WithdrawnDocument,
    decode_pointer,
    decode_release,
    encode,
)

DIGEST = "ab" * 32
RELEASE = Release(
    number=3,
    manifest=DIGEST,
    manifest_size=10,
    previous=DIGEST,
    included=["recipe.toml", "tokens"],
    withdrawn=[WithdrawnDocument(document=7, source=None)],
    minimum=2,
    state=DIGEST,
    state_size=4,
)
TABLE = json.loads(encode(RELEASE))


def test_a_release_is_read_as_it_was_written() -> None:
    assert decode_release(encode(RELEASE), "here") == RELEASE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number": 10**30}, "expected numbers from 1"),
        ({"number": 0}, "expected numbers from 1"),
        ({"number": True}, "Expected `int`, got `bool`"),
        ({"number": 1.5}, "Expected `int`, got `float`"),
        ({"minimum": 9}, "a minimum that is not above"),
        ({"minimum": -1}, "a minimum that is not above"),
        ({"manifest": "../../etc/passwd"}, "is no sha256"),
        ({"state": "../x"}, "is no sha256"),
        ({"previous": ""}, "is no sha256"),
        ({"manifest_size": -1}, "bytes of a manifest or a state"),
        ({"state_size": 1 << 62}, "bytes of a manifest or a state"),
        ({"included": ["tokens/../.."]}, "is no folder or file of a corpus"),
        ({"included": [".."]}, "is no folder or file of a corpus"),
        ({"withdrawn": [{"document": "0:3", "source": "web"}]}, "Expected `int`, got `str`"),
        ({"withdrawn": [{"document": -1, "source": "web"}]}, "Expected `int` >= 0"),
        ({"withdrawn": [{"document": 1 << 70, "source": "web"}]}, "Expected `int` <="),
        ({"withdrawn": [{"document": 1}]}, "missing required field `source`"),
        ({"more": 1}, "unknown field `more`"),
        ({"format": 9, "more": 1}, "a release of format 9; this gristmill reads format 1"),
        ({"format": "1"}, "it has format '1'"),
    ],
)
def test_a_release_of_somebody_else_is_refused(change: dict[str, object], said: str) -> None:
    data = json.dumps({**TABLE, **change}).encode()
    with pytest.raises(VerificationError, match=f"(?s)^here: .*{said}"):
        decode_release(data, "here")


TEXT = json.dumps(TABLE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"<html>Sign in</html>",
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        TEXT.replace(': "' + DIGEST, ': "\udcff' + DIGEST[1:]).encode(errors="surrogatepass"),
        TEXT.replace('"number": 3', '"number": 3, "number": 3').encode(),
        TEXT.replace('"document": 7', '"document": 1, "document": 7').encode(),
        TEXT.replace('"number": 3', f'"number": {"9" * 50_000}').encode(),
        TEXT.replace('"number": 3', '"number": 1e400').encode(),
        b'{"format": 1, "included": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(11),
)
def test_what_is_no_json_of_ours_is_refused(data: bytes) -> None:
    for decode in (decode_release, decode_pointer):
        with pytest.raises(VerificationError, match=r"^here: (no (release|pointer)|.* is no sha)"):
            decode(data, "here")
