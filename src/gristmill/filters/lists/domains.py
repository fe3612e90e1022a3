"""Hosts and registered domains: what tldextract 5.4 says of a URL, private domains left out, from a
public suffix list's text.

Written anew for three reasons: tldextract loads an HTTP client when it is imported, keeps a cache
on the disk, and may fetch its list. (The list's format and algorithm: publicsuffix.org/list; where
tldextract departs from it, so does this.)
"""

import re
from typing import Any, NamedTuple

PRIVATE = "// ===BEGIN PRIVATE DOMAINS==="
_RULE = re.compile(r"^[.*!]*\w\S*", re.MULTILINE)
_DOTS = "\u3002\uff0e\uff61"  # what IDNA takes for a dot (RFC 3490, section 3.1)
_TO_DOT = str.maketrans(dict.fromkeys(_DOTS, "."))
_SCHEME = re.compile(r"[A-Za-z0-9+.-]+:")
_AUTHORITY = re.compile(r"[^/?#]*")
_END = ""  # a rule ends here; no label is looked up that is empty, see `split`


class Split(NamedTuple):
    """A host's registered domain, and the whole host; both empty where it has none."""

    registered: str
    host: str


def written_host(url: str) -> str:
    """Return a URL's host as it is written: without scheme, user, port, white space around it and
    last dots.
    """
    slashes = url.find("//")
    start = 0
    if slashes == 0 or (slashes >= 2 and _SCHEME.fullmatch(url, 0, slashes)):
        start = slashes + 2
    authority = _AUTHORITY.match(url, start)
    host = authority[0].rpartition("@")[2] if authority else ""
    if host.startswith("[") and "]" in host:
        host = host[: host.index("]") + 1]
    else:
        host = host.partition(":")[0].strip().rstrip("." + _DOTS)
    return host if host.isascii() else host.translate(_TO_DOT)


class Suffixes:
    """The public suffixes, as a tree of labels, the last one first."""

    def __init__(self, text: str) -> None:
        """Read a public suffix list; its private part is left out."""
        self._tree: dict[str, Any] = {}
        for rule in _RULE.findall(text.partition(PRIVATE)[0]):
            node = self._tree
            for label in reversed(rule.split(".")):
                node = node.setdefault(label, {})
            node[_END] = {}

    def __len__(self) -> int:
        return len(self._tree)

    def top_level(self) -> list[bytes]:
        """Return the last labels of all suffixes, in lower case, as people write them and as DNS
        does (Punycode).
        """
        import idna

        labels = [label for label in self._tree if label != "*"]
        foreign = [idna.encode(label) for label in labels if not label.isascii()]
        return [label.encode() for label in labels] + foreign

    def split(self, url: str) -> Split:
        """Return the registered domain of a URL's host, and the host."""
        labels = written_host(url).split(".")
        start = self._start(labels)
        # A host that is a public suffix itself is registered to nobody.
        if start is None or start == 0 or not labels[start - 1]:
            return Split("", "")
        parts = (".".join(labels[: start - 1]), *labels[start - 1 :])
        return Split(".".join(labels[start - 1 :]), ".".join(parts if parts[0] else parts[1:]))

    def _start(self, labels: list[str]) -> int | None:
        """Return the place of the suffix's first label; None: no public suffix."""
        node, start = self._tree, None
        for place in range(len(labels) - 1, -1, -1):
            label = _unicode(labels[place])
            if label != _END and label in node:
                node = node[label]
                if _END in node:
                    start = place
            elif "*" in node:
                return place + 1 if "!" + label in node else place
            else:
                break
        return start


def _unicode(label: str) -> str:
    """Return a label in lower case, and out of Punycode where it decodes; longer ones than DNS
    knows do not.
    """
    label = label.lower()
    if label.startswith("xn--") and len(label) <= 253:
        import idna

        try:
            return str(idna.decode(label))
        except (UnicodeError, IndexError):
            pass
    return label
