"""What the bytes of other formats look like: magic numbers, and whether bytes are text at all."""

import codecs
import re

# (offset, bytes there, name). A longer value is before any value that it begins with. The values
# are the formats' published signatures.
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a ZIP archive (also .docx, .xlsx, .epub, .jar)"),
    (0, b"PK\x05\x06", "an empty ZIP archive"),
    (0, b"PK\x07\x08", "a ZIP archive in parts"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"!<arch>\n", "an ar archive (also .deb, .a)"),
    (0, b"\xed\xab\xee\xdb", "an RPM package"),
    (0, b"MSCF\0\0\0\0", "a cabinet archive"),
    (0, b"xar!", "a xar archive"),
    (0, b"070701", "a cpio archive"),
    (0, b"070707", "a cpio archive"),
    (0, b"hsqs", "a SquashFS image"),
    (32769, b"CD001", "an ISO 9660 image"),
    (0, b"\x1f\x9d", "data packed by compress (.Z)"),
    (0, b"\x1f\xa0", "data packed by compress -H"),
    (0, b"\x02\x21\x4c\x18", "LZ4 data of the legacy format"),
    (0, b"LZIP", "data packed by lzip"),
    (0, b"\x5d\0\0\x80\0", "data packed by LZMA (.lzma)"),
    (0, b"\x5d\0\0\0\x04", "data packed by LZMA (.lzma)"),
    (0, b"\xff\x06\0\0sNaPpY", "Snappy data"),
    (0, b"\x89LZO\0", "data packed by lzop"),
    (0, b"ZCK1", "zchunk data"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x04\x22\x4d\x18", "LZ4 data"),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF87a", "a GIF image"),
    (0, b"GIF89a", "a GIF image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"BM", "a BMP image"),
    (0, b"\0\0\x01\0", "an icon (.ico)"),
    (0, b"8BPS", "a Photoshop image"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (0, b"AT&TFORM", "a DjVu document"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"%!PS", "a PostScript document"),
    (0, b"{\\rtf", "an RTF document"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office document"),
    (60, b"BOOKMOBI", "a Mobipocket book"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"ORC", "an ORC table"),
    (0, b"Obj\x01", "an Avro table"),
    (0, b"FEA1", "a table of Feather's first version"),
    (0, b"SEQ\x06", "a Hadoop sequence file"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"DUCK", "a DuckDB database"),
    (8, b"DUCK", "a DuckDB database"),
    (0, b"\x80\x04\x95", "a Python pickle"),
    (0, b"\x80\x05\x95", "a Python pickle"),
    (0, b"GGUF", "a GGUF model"),
    (0, b"\xd4\xc3\xb2\xa1", "a packet capture"),
    (0, b"\x7fELF", "an ELF program"),
    (0, b"MZ", "a Windows program"),
    (0, b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (0, b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (0, b"\0asm", "a WebAssembly module"),
    (0, b"dex\n", "an Android program"),
    (0, b"OggS", "Ogg audio or video"),
    (0, b"ID3", "an MP3 file"),
    (0, b"fLaC", "FLAC audio"),
    (8, b"WAVE", "WAV audio"),
    (8, b"AVI ", "AVI video"),
    (4, b"ftyp", "MP4 video or a HEIF image"),
    (0, b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (0, b"FLV\x01", "Flash video"),
    (0, b"\0\0\x01\xba", "MPEG video"),
    (0, b"wOFF", "a WOFF font"),
    (0, b"wOF2", "a WOFF2 font"),
    (0, b"OTTO", "an OpenType font"),
    (0, b"\0\x01\0\0\0", "a TrueType font"),
    (0, b"-----BEGIN PGP MESSAGE", "an encrypted PGP message"),
    (0, b"\x85\x02\x0c\x03", "encrypted PGP data"),
)
# Signatures that a text may begin with as well.
_WORDS = (
    b"BM",
    b"MZ",
    b"ORC",
    b"ID3",
    b"DUCK",
    b"070701",
    b"070707",
    b"FLV\x01",
    b"LZIP",
    b"GGUF",
    b"OTTO",
    b"SEQ\x06",
)
_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_CONTROL = bytes({*range(0x20), 0x7F} - set(b"\t\n\f\r\x1b"))
CONTROL_SHARE = 100  # one control character in this many bytes: not text
_XML = re.compile(rb"<(?:\?xml\s|svg[\s>]|rss[\s>]|feed\s|TEI[\s>.])")


def is_binary(data: bytes) -> bool:
    """Return whether bytes contain a NUL, or more control characters than text has."""
    controls = len(data) - len(data.translate(None, _CONTROL))
    return 0 in data[:1024] or controls * CONTROL_SHARE > len(data)


def wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, by a byte order mark or the NULs between ASCII; None: neither."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    pairs = head[: len(head[:512]) // 4 * 4]
    for width, name in ((4, "UTF-32"), (2, "UTF-16")):
        for place in (0, width - 1):  # of the ASCII byte in its unit
            units = [pairs[at::width] for at in range(width)]
            if (
                len(pairs) >= 16
                and 0 not in units[place]
                and all(not any(unit) for at, unit in enumerate(units) if at != place)
            ):
                return name
    return None


def format_name(head: bytes) -> str | None:
    """Return the format whose magic number the bytes have; None: no known one."""
    for offset, magic, name in _MAGIC:
        if head.startswith(magic, offset) and not (magic in _WORDS and not is_binary(head[:4096])):
            return name
    if len(head) >= 512 and _is_old_tar(head[:512]):
        return "a tar archive"
    return None


def _is_old_tar(block: bytes) -> bool:
    """Return whether a block is the header of a tar archive without `ustar`, by its checksum
    (POSIX.1-1988, 10.1.1).
    """
    said = block[148:156].strip(b" \0")
    if not said or not block[0] or any(digit not in b"01234567" for digit in said):
        return False
    return int(said, 8) == sum(block[:148]) + 8 * 32 + sum(block[156:])


def markup(head: bytes) -> str | None:
    """XML, if the bytes begin like it; None: they do not. HTML is detected in html_page.py."""
    return "an XML document" if _XML.match(head.lstrip()) else None


def ill_formed(data: bytes, *, ended: bool) -> int | None:
    """Return the place of the first byte that is not UTF-8; None: there is none.

    `ended`: these are all bytes. A character cut off at the end is then accepted, unless it is the
    only character that is not ASCII.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError as error:
        return error.start
    rest = len(decoder.getstate()[0])
    return len(data) - rest if rest and ended and text.isascii() else None
