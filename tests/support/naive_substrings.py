"""Repeated substrings by a dictionary of all windows, and texts without some of their bytes."""

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def hashed(gram: bytes) -> int:
    """The rolling polynomial of a gram, not rolled."""
    value = 0
    for byte in gram:
        value = (value * GOLDEN + byte) & WORD
    return value


def mixed(value: int) -> int:
    """MurmurHash3's finaliser, as a signed number."""
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = ((value ^ (value >> 33)) * multiplier) & WORD
    value ^= value >> 33
    return value - (1 << 64) * (value >> 63)


def windows(text: bytes, size: int, gram: int) -> list[tuple[int, int]]:
    """Of each window of a text, its anchor's place before the hash, and the anchor's hash: the last
    of the grams with the least hash.
    """
    values = [hashed(text[at : at + gram]) for at in range(len(text) - gram + 1)]
    found = []
    for start in range(len(text) - size + 1):
        inside = range(start, start + size - gram + 1)
        anchor = min(inside, key=lambda at: (values[at], -at))
        found.append((anchor, mixed(values[anchor])))
    return found


def spans(
    texts: list[tuple[int, bytes]], size: int, most: int, *, keeps_first: bool
) -> list[tuple[int, int, int, int, int]]:
    """The repeated spans of documents that are compared with each other, each with its number: rows
    of (document, first byte, end, places, earliest document).
    """
    places: dict[bytes, list[tuple[int, int]]] = {}
    for document, text in texts:
        for at in range(len(text) - size + 1):
            places.setdefault(text[at : at + size], []).append((document, at))
    out: list[tuple[int, int, int, int, int]] = []
    for document, text in texts:
        for at in range(len(text) - size + 1):
            found = places[text[at : at + size]]
            if len(found) <= most or (keeps_first and found[0] == (document, at)):
                continue
            if out and out[-1][0] == document and out[-1][2] >= at:
                _, first, _, count, earliest = out.pop()
                out.append((document, first, at + size, max(count, len(found)), earliest))
            else:
                out.append((document, at, at + size, len(found), found[0][0]))
    return out


UNSPACED_TEST = ((0x0E00, 0x0EFF), (0x3041, 0x30FF), (0x4E00, 0x9FFF))  # what the tests draw


def bounds(text: str, boundary: str) -> set[int]:
    """The bytes where a text may be cut."""
    ends, at = [0], 0
    for character in text:
        at += len(character.encode())
        ends.append(at)
    if boundary == "lines":
        found, at = {0, ends[-1]}, 0
        for line in text.splitlines(keepends=True):
            at += len(line.encode())
            found.add(at)
        return found
    if boundary == "characters":
        return set(ends)
    found = {0, ends[-1]}
    for place in range(1, len(text)):
        before, here = text[place - 1], text[place]
        wide = any(low <= ord(one) <= high for one in (before, here) for low, high in UNSPACED_TEST)
        if before.isspace() or wide:
            found.add(ends[place])
    return found


def cut(text: str, gone: list[tuple[int, int]], boundary: str) -> tuple[str, int]:
    """A text without spans of its bytes, whose bounds go inward; and how many were cut."""
    allowed, data = bounds(text, boundary), text.encode()
    out, at, count = b"", 0, 0
    for first, end in gone:
        inside = [place for place in range(first, end + 1) if place in allowed]
        if len(inside) < 2:
            continue
        out += data[at : inside[0]]
        at = inside[-1]
        count += 1
    left = (out + data[at:]).decode()
    return ("" if count and not left.strip() else left), count
