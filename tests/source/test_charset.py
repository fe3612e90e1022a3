"""Charsets: what decides, in which order, and that nothing raises."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.source.archives.charset import decode_page, find_codec, read, to_utf8

RUSSIAN = "Мельница стоит у реки, и вода вертит колесо день и ночь. "
CHINESE = "磨坊建在河边，水流日夜转动着水轮，面粉越磨越多。"
TAIWANESE = "磨坊建在河邊，水流日夜轉動著水輪，麵粉越磨越多。"
JAPANESE = "水車小屋は川のほとりにあり、昼も夜も車輪が回っています。"
KOREAN = "물레방아는 강가에 있고 물은 밤낮으로 바퀴를 돌립니다. "
FRENCH = "Le moulin est à côté de la rivière, où l’été s’achève déjà. "
THAI = "โรงสีอยู่ริมแม่น้ำและน้ำหมุนกังหันทั้งวันทั้งคืน "


def decode(data: bytes, header: str | None = None) -> str:
    return read(data, header).text


# (text, label, the codec that made the bytes)
LABELLED = [
    (RUSSIAN, "windows-1251", "cp1251"),
    (RUSSIAN, "KOI8-R", "koi8-r"),
    (RUSSIAN, "cp866", "cp866"),
    (CHINESE, "gb2312", "gbk"),
    (CHINESE, "GBK", "gb18030"),
    (CHINESE + "㐀𠀀", "gb2312", "gb18030"),
    (TAIWANESE, "big5", "big5"),
    (JAPANESE, "shift_jis", "cp932"),
    (JAPANESE + "①㈱", "x-sjis", "cp932"),
    (JAPANESE, "euc-jp", "euc_jp"),
    (JAPANESE + "①", "EUC-JP", "euc_jis_2004"),
    (JAPANESE, "iso-2022-jp", "iso2022_jp"),
    (KOREAN, "euc-kr", "euc_kr"),
    (KOREAN + "똠방각하", "ks_c_5601-1987", "cp949"),
    (FRENCH, "iso-8859-1", "cp1252"),
    (FRENCH, "latin1", "cp1252"),
    (FRENCH, "x-user-defined", "cp1252"),
    (THAI, "tis-620", "cp874"),
    (CHINESE, "hz-gb-2312", "hz"),
    (KOREAN.replace(" ", ""), "iso-2022-kr", "iso2022_kr"),
]


@pytest.mark.parametrize(
    ("text", "label", "codec"), LABELLED, ids=lambda value: value if len(value) < 20 else ""
)
def test_a_label_means_what_browsers_take_it_for(text: str, label: str, codec: str) -> None:
    for room in ("", "<p>" * 50):
        page = room + text * 3
        data = page.encode(codec)
        assert decode(data, label) == decode(data, f' "{label}" '.strip(' "')) == page
        tags = (
            f"<meta charset={label}>",
            f'<META content="text/html;Charset= {label}" HTTP-EQUIV="Content-Type"/>',
            f"<meta charset='{label}' />",
        )
        for tag in tags:
            assert decode(tag.encode() + data) == tag + page
        declared = f'<?xml version="1.0" encoding="{label}"?>'
        assert decode(declared.encode() + data) == declared + page


def test_a_byte_order_mark_comes_before_all() -> None:
    for mark, codec in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ):
        assert decode(mark + CHINESE.encode(codec), "big5") == CHINESE


def test_well_formed_utf_8_comes_before_labels() -> None:
    for label in ("gbk", "iso-8859-1", "utf-16", "shift_jis", "iso-2022-jp", None):
        for text in (CHINESE, RUSSIAN, FRENCH, KOREAN):
            assert (
                decode(f"<meta charset=big5>{text}".encode(), label) == f"<meta charset=big5>{text}"
            )


def test_utf_8_with_little_damage_is_utf_8_still() -> None:
    damaged = RUSSIAN.encode() * 4 + b"\xe9" + RUSSIAN.encode()
    for label in (None, "utf-8", "windows-1251", "gb2312"):
        assert decode(damaged, label) == damaged.decode("utf-8", "replace")


def test_bad_bytes_in_a_page_of_utf_8_stay_bad_bytes() -> None:
    # As many bad as good ones, and more English than either.
    data = "<p>The café’s menu ".encode() * 3 + b"caf\xe9 and \x93quotes\x94 of another page "
    for label in (None, "utf-8"):
        assert decode(data, label) == data.decode("utf-8", "replace")
    assert decode(data, "windows-1252") == data.decode(
        "cp1252"
    )  # said, and nothing in it speaks for UTF-8 alone


@pytest.mark.parametrize("header", ["utf-8", None])
def test_a_page_said_to_be_utf_8_without_a_character_of_it_is_read_by_its_bytes(
    header: str | None,
) -> None:
    for text in ("RTÉ", "café menu", "no – other access", "Català, Español, Français"):
        page = f"<meta charset=utf-8><p>{text}</p>"
        assert read(page.encode("cp1252"), header) == (page, True)
    assert decode((RUSSIAN * 2).encode("cp1251"), "utf-8") == RUSSIAN * 2


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        ("Eski değirmen nehrin kıvrıldığı yerde durur ve öğütür. ", "cp1254"),
        ("Stary młyn stoi nad rzeką, jesienią miele żyto. ", "cp1250"),
        ("Stary młyn stoi nad rzeką, jesienią miele żyto. ", "iso8859-2"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy. ", "cp1250"),
        ("Ο μύλος στέκει δίπλα στο ποτάμι και το νερό γυρίζει τον τροχό. ", "cp1253"),
        ("הטחנה עומדת ליד הנהר והמים מסובבים את הגלגל. ", "cp1255"),
        ("تقف الطاحونة عند النهر ويدير الماء العجلة ليلا ونهارا. ", "cp1256"),
        ("Malūnas stovi prie upės, o vanduo suka ratą dieną ir naktį. ", "cp1257"),
        (THAI, "cp874"),
        (CHINESE, "gb18030"),
        (TAIWANESE, "big5"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "cp949"),
    ],
)
def test_letters_beat_a_label_that_makes_nonsense_of_them(text: str, codec: str) -> None:
    page = f"<p>{text * 3}</p>"
    assert read(page.encode(codec), "iso-8859-1") == (page, True)
    assert read(page.encode(codec), "utf-8") == (page, True)
    # and the label stands where the bytes read well in it
    western = f"<p>{FRENCH * 3}</p>"
    assert read(western.encode("cp1252"), "iso-8859-1") == (western, False)


@pytest.mark.parametrize(
    "words", ["© 2008 · Home » News", "\xa0|\xa0", "It’s “here” – 25°C", "§ 3 £5 €9 ™", "é", "Ø"]
)
def test_signs_and_single_letters_tell_nothing_of_a_charset(words: str) -> None:
    page = f"<p>An English page. {words} </p>" * 20
    for label in ("iso-8859-1", "windows-1252", None):
        assert decode(page.encode("cp1252"), label) == page


def test_what_is_decoded_against_its_label_is_said() -> None:
    assert decode_page(RUSSIAN.encode(), "windows-1251") == (RUSSIAN.encode(), True)
    assert decode_page(RUSSIAN.encode(), "utf-8") == (RUSSIAN.encode(), False)
    assert decode_page(RUSSIAN.encode()) == (RUSSIAN.encode(), False)
    page = f"<meta charset=koi8-r>{RUSSIAN}"
    assert decode_page(page.encode()) == (page.encode(), True)
    assert decode_page(b"<meta charset=koi8-r>ASCII", "utf-8") == (
        b"<meta charset=koi8-r>ASCII",
        False,
    )


@pytest.mark.parametrize(
    "words",
    [
        "¿Qué? ¡Ay! señor José, 1º, 2ª, Peña, año, 25°C, £5",
        "À côté de la forêt, où l’été s’achève déjà; crêpes, garçon",
        "São João não põe à mão opções, três",
        "Ål, øl og æbler på øen; så får søen lov",
        "Città, perché, più, così, però, virtù",
    ],
)
def test_unlabelled_western_pages_are_no_central_european_ones(words: str) -> None:
    english = (
        "This page is in English but for a few words of another language, which stand in it here "
        "and there. "
    )
    for page in (
        english + words + english,
        words * 5,
        f"<h1>{words.upper()}</h1>" + english * 20,
        words.title() + english * 3,
    ):
        page = page.encode("cp1252", "ignore").decode("cp1252")
        assert decode(page.encode("cp1252")) == page


@pytest.mark.parametrize(
    "words",
    [
        "Příliš žluťoučký kůň úpěl ďábelské ódy, která běžela. ",
        "Zażółć gęślą jaźń; łódź płynie po rzece. ",
        "Árvíztűrő tükörfúrógép, őszi időben hűvös. ",
    ],
)
def test_central_european_pages_stay_what_they_are(words: str) -> None:
    assert decode((words * 6).encode("cp1250")) == words * 6


def test_a_character_cut_off_at_the_end_is_no_fault() -> None:
    for text, label, codec in (
        (CHINESE, None, "utf-8"),
        (CHINESE, "gbk", "gbk"),
        (JAPANESE, "shift_jis", "cp932"),
        (KOREAN.strip(". "), "euc-kr", "cp949"),
    ):
        assert decode(text.encode(codec)[:-1], label) == text[:-1] + "\ufffd"


@pytest.mark.parametrize(
    ("text", "codec", "header", "meta"),
    [
        (RUSSIAN, "cp1251", "windows-1251", "koi8-r"),  # the header first
        (RUSSIAN, "cp1251", "utf-8", "windows-1251"),
        (RUSSIAN, "cp1251", None, "windows-1251"),
        (JAPANESE, "cp932", "euc-jp", "shift_jis"),
        (JAPANESE, "euc_jp", "shift_jis", "euc-jp"),
        # Bytes that fit each other in twos are no Latin, whatever the header says.
        (CHINESE, "gbk", "iso-8859-1", "gb2312"),
        (KOREAN, "cp949", "windows-1252", "euc-kr"),
        (TAIWANESE, "big5", "iso-8859-1", "big5"),
        (RUSSIAN, "cp1251", "windows-1251", "gb2312"),
        (FRENCH, "cp1252", "iso-8859-1", "utf-8"),
        (FRENCH, "cp1252", "gb2312", "iso-8859-1"),
        (FRENCH, "cp1252", "no such charset", "iso-8859-1"),
        (RUSSIAN, "cp1251", "idna", "windows-1251"),
    ],
)
def test_where_header_and_meta_disagree_the_one_that_fits_wins(
    text: str, codec: str, header: str | None, meta: str
) -> None:
    page = f'<meta http-equiv="content-type" content="text/html; charset={meta}">{text * 3}'
    assert decode(page.encode(codec), header) == page


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (CHINESE, "gbk"),
        (TAIWANESE, "big5"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (KOREAN, "cp949"),
        (FRENCH, "cp1252"),
        (THAI, "cp874"),
    ],
)
def test_without_a_label_the_bytes_tell(text: str, codec: str) -> None:
    page = "<html><body><p>" + text * 8
    assert decode(page.encode(codec)) == page
    assert decode(page.encode(codec), "no such charset") == page


def test_few_bytes_are_windows_1252() -> None:
    # uchardet takes quotes of English pages for letters of DOS charsets.
    for text in ("It’s a mill – “still”.", "caf\xe9", "\xa9 2008", "‘a’ “b” ‘c’ “d” ‘e’ “f” ’s"):
        assert decode(text.encode("cp1252")) == text


def test_labels_lie_in_meta_only() -> None:
    data = (FRENCH * 3).encode("cp1252")
    for trap in (
        "<!-- <meta charset=koi8-r> -->",
        "<p charset=koi8-r>",
        '<meta name="description" content="of charset=koi8-r">',
        "<!-- <meta charset=koi8-r>",
        "<metadata charset=koi8-r>",
        "x" * 5000 + "<meta charset=koi8-r>",
    ):
        assert decode(trap.encode() + data) == trap + FRENCH * 3


@pytest.mark.parametrize(
    "label",
    [
        "",
        " ",
        "x" * 10_000,
        "\ud800",
        "ü",
        "unicode_escape",
        "rot13",
        "hex",
        "idna",
        "undefined",
        "utf-7",
        "mbcs",
        "\0",
        "punycode",
        "base64",
    ],
)
def test_an_unknown_label_is_none(label: str) -> None:
    assert find_codec(label) is None
    assert decode(b"caf\xe9 \\u0041", label) == "café \\u0041"


def test_what_fits_nowhere_is_replaced() -> None:
    noise = bytes(range(128, 256)) * 8
    for label in (None, "utf-8", "gbk", "iso-2022-jp", "windows-1252", "utf-16"):
        assert "\ufffd" in decode(noise, label)
    assert (
        decode((CHINESE * 9).encode("gbk") + b"\xff\xff!", "gbk") == CHINESE * 9 + "\ufffd\ufffd!"
    )


def test_ascii_is_ascii() -> None:
    for label in (None, "utf-8", "utf-16", "iso-2022-jp", "hz", "utf-32be"):
        assert decode(b"<p>a ~{ b \x1b c</p>", label).startswith("<p>a ")
        assert decode(b"<p>plain</p>", label) == "<p>plain</p>"


ANY = st.one_of(
    st.binary(max_size=300), st.sampled_from([text.encode(codec) for text, _, codec in LABELLED])
)
NAMES = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from([label for _, label, _ in LABELLED] + ["utf-16", "utf-32"]),
)


@settings(max_examples=400, deadline=None)
@given(data=st.lists(ANY, max_size=3).map(b"".join), header=NAMES, meta=NAMES)
def test_nothing_raises_and_the_short_way_is_the_long_one(
    data: bytes, header: str | None, meta: str | None
) -> None:
    data = (f"<meta charset={meta}>".encode("utf-8", "replace") if meta else b"") + data
    text = decode(data, header)
    assert decode(data, header) == text
    assert to_utf8(data, header) == text.encode("utf-8", "replace")
