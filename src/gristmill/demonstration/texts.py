"""The demo's documents: real English prose from Python's own documentation, short texts in other
languages, and planted examples of what is wrong on the web: copies, spam, broken pages.
"""

import gzip
import importlib
import inspect
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NEAR_COPY_URL = "https://mirror.example/docs/near-copy-3"
DATE = "2026-01-01T00:00:00Z"

MODULES = """
argparse ast asyncio bdb calendar cmd codecs collections configparser contextlib copy csv ctypes
datetime decimal difflib dis doctest email enum fractions functools gettext glob gzip hashlib
heapq html http imaplib inspect ipaddress itertools json locale logging lzma mailbox math
mimetypes multiprocessing numbers operator optparse os pathlib pdb pickle pickletools platform
plistlib poplib pprint profile pstats queue random re sched secrets selectors shelve shlex
shutil smtplib socket socketserver sqlite3 ssl statistics string struct subprocess symtable
tarfile tempfile textwrap threading timeit tokenize trace traceback tracemalloc types typing
unittest urllib.parse urllib.request uuid wave weakref webbrowser xml.dom.minidom
xml.etree.ElementTree zipfile zipimport
""".split()  # noqa: SIM905

OTHER_LANGUAGES = {
    "de": "Die alte Mühle am Fluss mahlt seit dreihundert Jahren das Korn der umliegenden Dörfer. "
    "Jeden Morgen öffnet der Müller das "
    "Wehr, das Wasser schießt auf das Rad, und die schweren Steine beginnen sich zu drehen. "
    "Wer früh genug kommt, riecht das "
    "frische Mehl schon auf der Brücke. Im Winter, wenn Eis auf dem Fluss liegt, steht das "
    "Rad still, und der Müller schärft die "
    "Steine, flickt die Säcke und erzählt den Kindern, wie sein Großvater die Mühle durch "
    "das große Hochwasser gebracht hat.",
    "fr": "Le vieux moulin au bord de la rivière moud depuis trois siècles le grain des villages "
    "voisins. Chaque matin, le meunier "
    "ouvre la vanne, l'eau se jette sur la roue, et les lourdes pierres se mettent à "
    "tourner. Celui qui arrive assez tôt sent la "
    "farine fraîche dès le pont. En hiver, quand la glace couvre la rivière, la roue "
    "s'arrête, et le meunier taille les pierres, "
    "raccommode les sacs et raconte aux enfants comment son grand-père a sauvé le moulin "
    "pendant la grande crue.",
    "es": "El viejo molino junto al río muele desde hace trescientos años el grano de los pueblos "
    "vecinos. Cada mañana el molinero "
    "abre la compuerta, el agua se lanza sobre la rueda y las pesadas piedras empiezan a "
    "girar. Quien llega temprano huele la "
    "harina fresca ya desde el puente. En invierno, cuando el hielo cubre el río, la rueda "
    "se detiene, y el molinero afila las "
    "piedras, remienda los sacos y cuenta a los niños cómo su abuelo salvó el molino durante "
    "la gran crecida.",
    "ru": "Старая мельница у реки триста лет мелет зерно окрестных деревень. Каждое утро мельник "
    "открывает плотину, вода падает на "
    "колесо, и тяжёлые камни начинают вращаться. Кто приходит рано, чувствует запах свежей "
    "муки уже на мосту. Зимой, когда реку "
    "сковывает лёд, колесо стоит, а мельник точит камни, чинит мешки и рассказывает детям, "
    "как его дед спас мельницу во время "
    "большого наводнения. Весной лёд уходит, вода поднимается, и колесо снова начинает свою "
    "работу, как много лет назад.",
    "ja": "川のほとりの古い水車小屋は、三百年ものあいだ近くの村々の穀物をひいてきました。"
    "毎朝、粉屋が水門を開けると、水が車輪に落ち、"
    "重い石がゆっくりと回りはじめます。"
    "早く来た人は、橋の上ですでに新しい粉の香りに気づきます。冬になって川に氷が張ると車輪は止まり、"
    "粉屋は石をみがき、袋をつくろい、祖父が大水から水車小屋を守った話を子どもたちに聞かせます。",
}

COOKIES = (
    "We use cookies to make this site work and to understand how you use it. By clicking "
    "accept all you agree that we and our "
    "partners may store cookies on your device. You can change your choice at any time in "
    "the settings. Strictly necessary cookies "
    "are always on. Read our privacy policy and our terms of use to learn more about how we "
    "handle your data on this web site. "
)


def prose() -> list[tuple[str, str]]:
    """Return (URL, text) of Python's documentation topics and of its longer docstrings, each text
    once.
    """
    urls: dict[str, str] = {}
    topics = importlib.import_module("pydoc_data.topics").topics
    for name in sorted(topics):
        urls.setdefault(topics[name].strip(), f"https://docs.example/topics/{name}")
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # this Python was built without the module
            continue
        for name, text in sorted(_docstrings(module)):
            if len(text.split()) >= 70:
                urls.setdefault(text, f"https://docs.example/library/{module_name}/{name}")
    return [(url, text) for text, url in urls.items()]


def _docstrings(module: object) -> Iterator[tuple[str, str]]:
    members = [("module", module), *vars(module).items()]
    for name, member in members:
        if inspect.isclass(member) or inspect.isroutine(member) or inspect.ismodule(member):
            text = getattr(member, "__doc__", None)
            if isinstance(text, str):
                yield name, inspect.cleandoc(text)
        if inspect.isclass(member):
            for inner, method in vars(member).items():
                text = getattr(method, "__doc__", None)
                if inspect.isroutine(method) and isinstance(text, str):
                    yield f"{name}.{inner}", inspect.cleandoc(text)


def _near_copy(text: str, number: int) -> str:
    """Return a text with some words changed and a footer, like the page of a mirror."""
    words = text.split(" ")
    for place in range(5 + number, len(words), max(len(words) // 6, 2)):
        words[place] = "(edited)"
    return " ".join(words) + f"\nMirrored page number {number}, all rights reserved."


def documents() -> list[tuple[str, bytes]]:
    """Return (URL, text as bytes) of all documents of the demo, with the planted ones."""
    texts = prose()
    long = [(url, text) for url, text in texts if len(text.split()) > 400]
    out = [(url, text.encode("utf-8", "replace")) for url, text in texts]

    def plant(name: str, text: str | bytes) -> None:
        out.append(
            (
                f"https://{name}",
                text if isinstance(text, bytes) else text.encode("utf-8", "replace"),
            )
        )

    for number, (_, text) in enumerate(long[:16]):
        plant(f"mirror.example/docs/copy-{number}", text)
    for number, (_, text) in enumerate(long[20:44]):
        plant(f"mirror.example/docs/near-copy-{number}", _near_copy(text, number))
    for language, text in OTHER_LANGUAGES.items():
        plant(f"mill.example/{language}", text)
    for number in range(12):
        plant(f"shop.example/item/{number}", f"Item {number} not found. Back to the shop.")
        plant(f"news.example/{number}/consent", COOKIES + f"Article {number}.")
    for number in range(6):
        offers = " ".join(f"and the watch of the year number {line} is here" for line in range(6))
        plant(
            f"spam.example/{number}",
            "you can buy now " + "buy now " * 30 + f"{offers} at our shop {number}, and only today",
        )
        links = (
            "about the town",
            "of the old mill",
            "with the news of the week",
            "that people like to read",
        )
        items = [f"- page {line} {links[line % 4]} and what was said of it" for line in range(30)]
        plant(f"list.example/{number}", "\n".join(items))
        days = (
            f"The tale of the day number {line} began early and went further …"
            for line in range(12, 40)
        )
        plant(f"blog.example/tag/{number}", "\n".join(days))
        drawing = (
            "a drawing made of signs, as people in forums like to sign what they have said\n#### "
            "### #### ####\n"
        )
        plant(f"art.example/{number}", drawing * 8)
    for number, (_, text) in enumerate(long[50:54]):
        # Latin-1 bytes in a page that is declared as UTF-8.
        plant(
            f"latin.example/{number}",
            text.encode("utf-8", "replace").replace(b". ", b".\xa0\xe9\xff ", 6),
        )
    return out


def _wet(pages: list[tuple[str, bytes]]) -> bytes:
    """Return a WET file (WARC 1.0), each record a gzip member. The last record is truncated, and
    one in the middle has a wrong length.
    """
    out = io.BytesIO()

    def member(head: str, body: bytes, length: int | None = None) -> bytes:
        lines = (
            f"WARC/1.0\r\n{head}Content-Length: {len(body) if length is None else length}\r\n\r\n"
        )
        return gzip.compress(lines.encode() + body + b"\r\n\r\n", 6, mtime=0)

    out.write(
        member(
            f"WARC-Type: warcinfo\r\nWARC-Date: {DATE}\r\n"
            "Content-Type: application/warc-fields\r\n",
            b"software: demo\r\n",
        )
    )
    for number, (url, text) in enumerate(pages):
        head = (
            f"WARC-Type: conversion\r\nWARC-Target-URI: {url}\r\nWARC-Date: {DATE}\r\n"
            "WARC-Record-ID: "
            f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>\r\nContent-Type: "
            "text/plain\r\n"
        )
        out.write(member(head, text))
        if number == 20:
            out.write(member(head.replace(url, "https://liar.example/"), text, len(text) + 1000))
    out.write(
        member(head.replace(url, "https://cut.example/"), b"This record ends too early. " * 40)[
            :-60
        ]
    )
    return out.getvalue()


def _jsonl(pages: list[tuple[str, bytes]]) -> bytes:
    lines = [
        json.dumps(
            {"url": url, "text": text.decode("utf-8", "replace"), "source": {"page": number}},
            ensure_ascii=False,
        ).encode()
        for number, (url, text) in enumerate(pages)
    ]
    lines.insert(7, b'{"url": "https://broken.example/", "text": "this line is no JSON')
    lines.insert(9, b'{"url": "https://empty.example/", "title": "a page without a text"}')
    return b"\n".join(lines) + b"\n"


def write_shards(folder: Path) -> list[str]:
    """Write the documents as three raw shards; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = documents()
    # Documents are distributed in turn, so that copies and their originals are in different shards.
    first, second, third = pages[0::3], pages[1::3], pages[2::3]
    shards = {
        "crawl.warc.wet.gz": _wet(first),
        "pages.jsonl.zst": zstd.compress(_jsonl(second), level=3),
        "notes.jsonl.gz": gzip.compress(_jsonl(third), 6, mtime=0),
    }
    for name, data in shards.items():
        (folder / name).write_bytes(data)
    return list(shards)
