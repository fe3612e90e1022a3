"""Scripts by their letters: ISO 15924's code for what most letters of a text belong to.

A letter is a code point of category L (Unicode 16.0) that belongs to one script; letters of several
(U+00B5, U+30FC, mathematical ones) count for none. Three writing systems mix scripts: Hiragana and
Katakana count as one, and where they, or Hangul, are a twentieth of what they make up with the
Chinese characters or more, these are theirs: `Jpan`, `Kore`; else those are `Hani`.
"""

from functools import cache

import numpy as np
import pyarrow as pa

from gristmill.columns import utf8_buffers

# The letters of each script, from and to in hexadecimal, from Unicode's Scripts.txt; what lies
# between and is no letter is left to the category.
LETTERS = """
Adlm 1E900-1E94B  Aghb 10530-10563  Ahom 11700-11746  Arab 620-63F 641-6FF 750-77F 870-8C9 FB50-FEFC 10EC2-10EC4
1EE00-1EEBB  Armi 10840-10855  Armn 531-588 FB13-FB17  Avst 10B00-10B35  Bali 1B05-1B4C  Bamu A6A0-A6E5 16800-16A38
Bass 16AD0-16AED  Batk 1BC0-1BE5  Beng 980-9FC  Bhks 11C00-11C40  Bopo 3105-312F 31A0-31BF  Brah 11003-11075  Bugi
1A00-1A16  Buhd 1740-1751  Cakm 11103-11147  Cans 1401-167F 18B0-18F5 11AB0-11ABF  Cari 102A0-102D0  Cham AA00-AA4B
Cher 13A0-13FD AB70-ABBF  Chrs 10FB0-10FC4  Copt 3E2-3EF 2C80-2CF3  Cpmn 12F90-12FF0  Cprt 10800-1083F  Cyrl 400-52F
1C80-1C8A 1D2B 1D78 A640-A69D 1E030-1E06D  Deva 904-97F A8F2-A8FE  Diak 11900-11941  Dogr 11800-1182B  Dsrt
10400-1044F  Dupl 1BC00-1BC99  Egyp 13000-143FA  Elba 10500-10527  Elym 10FE0-10FF6  Ethi 1200-138F 2D80-2DDE
AB01-AB2E 1E7E0-1E7FE  Gara 10D4A-10D85  Geor 10A0-10FF 1C90-1CBF 2D00-2D2D  Glag 2C00-2C5F  Gong 11D60-11D98  Gonm
11D00-11D46  Goth 10330-10349  Gran 11305-11361  Grek 370-373 376-3E1 3F0-3FF 1D26-1D2A 1D5D-1D61 1D66-1D6A 1DBF
1F00-1FFC 2126 AB65  Gujr A85-AF9  Gukh 16100-1611D  Guru A05-A74  Hang 1100-11FF 3131-318E A960-A97C AC00-D7FB
FFA0-FFDC  Hani 3005 303B 3400-9FFF F900-FAD9 16FE3 20000-323AF  Hano 1720-1731  Hatr 108E0-108F5  Hebr 5D0-5F2
FB1D-FB4F  Hira 3041-309F 1B001-1B11F 1B132-1B152  Hluw 14400-14646  Hmng 16B00-16B8F  Hmnp 1E100-1E14E  Hung
10C80-10CF2  Ital 10300-1032F  Java A984-A9B2  Kali A90A-A925  Kana 30A1-30FA 30FD-30FF 31F0-31FF FF66-FF6F FF71-FF9D
1AFF0-1B000 1B120-1B122 1B155-1B167  Kawi 11F02-11F33  Khar 10A00-10A35  Khmr 1780-17DC  Khoj 11200-11240  Kits
18B00-18CFF  Knda C80-CF2  Krai 16D40-16D6C  Kthi 11083-110AF  Lana 1A20-1AA7  Laoo E81-EDF  Latn 41-AA BA-2B8 2E0-2E4
1D00-1D25 1D2C-1D5C 1D62-1D65 1D6B-1D77 1D79-1DBE 1E00-1EFF 2071-209C 212A-212B 2132 214E-2184 2C60-2C7F A722-A787
A78B-A7FF AB30-AB64 AB66-AB69 FB00-FB06 FF21-FF5A 10780-107BA 1DF00-1DF2A  Lepc 1C00-1C4F  Limb 1900-191E  Lina
10600-10767  Linb 10000-100FA  Lisu A4D0-A4FD 11FB0  Lyci 10280-1029C  Lydi 10920-10939  Mahj 11150-11176  Maka
11EE0-11EF2  Mand 840-858  Mani 10AC0-10AE4  Marc 11C72-11C8F  Medf 16E40-16E7F  Mend 1E800-1E8C4  Merc 109A0-109BF
Mero 10980-1099F  Mlym D04-D7F  Modi 11600-11644  Mong 1820-18AA  Mroo 16A40-16A5E  Mtei AAE0-AAF4 ABC0-ABE2  Mult
11280-112A8  Mymr 1000-108E A9E0-A9FE AA60-AA7F  Nagm 1E4D0-1E4EB  Nand 119A0-119E3  Narb 10A80-10A9C  Nbat
10880-1089E  Newa 11400-11461  Nkoo 7CA-7FA  Nshu 16FE1 1B170-1B2FB  Ogam 1681-169A  Olck 1C5A-1C7D  Onao 1E5D0-1E5F0
Orkh 10C00-10C48  Orya B05-B71  Osge 104B0-104FB  Osma 10480-1049D  Ougr 10F70-10F81  Palm 10860-10876  Pauc
11AC0-11AF8  Perm 10350-10375  Phag A840-A873  Phli 10B60-10B72  Phlp 10B80-10B91  Phnx 10900-10915  Plrd 16F00-16F9F
Prti 10B40-10B55  Rjng A930-A946  Rohg 10D00-10D23  Runr 16A0-16F8  Samr 800-828  Sarb 10A60-10A7C  Saur A882-A8B3
Shaw 10450-1047F  Shrd 11183-111DC  Sidd 11580-115DB  Sind 112B0-112DE  Sinh D85-DC6  Sogd 10F30-10F45  Sogo
10F00-10F27  Sora 110D0-110E8  Soyo 11A50-11A9D  Sund 1B83-1BBF  Sunu 11BC0-11BE0  Sylo A800-A822  Syrc 710-74F
860-86A  Tagb 1760-1770  Takr 11680-116B8  Tale 1950-1974  Talu 1980-19C9  Taml B83-BD0  Tang 16FE0 17000-18AFF
18D00-18D08  Tavt AA80-AADD  Telu C05-C61  Tfng 2D30-2D6F  Tglg 1700-171F  Thaa 780-7B1  Thai E01-E46  Tibt F00-F8C
Tirh 11480-114C7  Tnsa 16A70-16ABE  Todr 105C0-105F3  Toto 1E290-1E2AD  Tutg 11380-113D3  Ugar 10380-1039D  Vaii
A500-A62B  Vith 10570-105BC  Wara 118A0-118FF  Wcho 1E2C0-1E2EB  Xpeo 103A0-103CF  Xsux 12000-12543  Yezi 10E80-10EB1
Yiii A000-A48C  Zanb 11A00-11A3A
"""

KANA = ("Hira", "Kana")
MIXED = 20  # Kana or Hangul, where they are one letter of so many, own the Chinese characters


def labels() -> list[str]:
    """The codes that a text may get, sorted."""
    return sorted({*_codes(), "Jpan", "Kore"} - {*KANA, "Hang"})


@cache
def _codes() -> tuple[str, ...]:
    return tuple(word for word in LETTERS.split() if word[0].isalpha() and word[-1].islower())


@cache
def _table() -> np.ndarray:
    """Of each code point the place of its script in `_codes`, from 1; 0: no letter, or of no
    script. (0x110000,) uint8.
    """
    from gristmill.kernels.unicode.tables import CLASS_INDEX, CLASS_PAGES, LETTER

    table = np.zeros(0x110000, np.uint8)
    script = 0
    for word in LETTERS.split():
        if script < len(_codes()) and word == _codes()[script]:
            script += 1
        else:
            first, _, last = word.partition("-")
            table[int(first, 16) : int(last or first, 16) + 1] = script
    is_letter = CLASS_PAGES.reshape(-1, 256)[CLASS_INDEX].reshape(-1) & LETTER
    table[is_letter == 0] = 0
    return table


def dominant(texts: pa.Array, characters: int | None) -> tuple[pa.Array, np.ndarray]:
    """Of n texts the script of most letters among the first `characters` code points (None: all),
    and its share of these letters.

    Returns (labels (n,) string, null where there is no letter; shares (n,) float64, 0 there). Of
    equal counts the first code wins.
    """
    from gristmill.kernels.unicode import scripts

    codes = _codes()
    place = {code: number for number, code in enumerate(codes, 1)}
    most = np.iinfo(np.int32).max if characters is None else characters
    counts = scripts.count_letters(*utf8_buffers(texts), _table(), len(codes) + 1, characters=most)
    letters = counts.sum(1)
    han, hangul = counts[:, place["Hani"]].copy(), counts[:, place["Hang"]]
    kana = counts[:, [place[code] for code in KANA]].sum(1)
    most = np.maximum(kana, hangul)
    owned = (most > 0) & (most * MIXED >= most + han)
    japanese = kana + np.where(owned & (kana >= hangul), han, 0)
    korean = hangul + np.where(owned & (kana < hangul), han, 0)
    counts[:, place["Hani"]] = np.where(owned, 0, han)
    counts[:, place["Hira"]], counts[:, place["Kana"]], counts[:, place["Hang"]] = (
        japanese,
        0,
        korean,
    )
    winner = counts.argmax(1)
    best = counts[np.arange(len(counts)), winner]
    names = [None, *({"Hira": "Jpan", "Hang": "Kore"}.get(code, code) for code in codes)]
    return pa.array(names, pa.string()).take(pa.array(winner, mask=best == 0)), best / np.maximum(
        letters, 1
    )
