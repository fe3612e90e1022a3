"""IBANs, ISO 13616: a country's length and kinds of characters (SWIFT's IBAN Registry, release
101), and 1 by modulo 97; in a row, or in groups with the same separator between all: groups of
four, or others, where no group is a word (letters alone, where an account may have digits).
"""

import re

from gristmill.filters.pii.alone import END, SEPARATOR

SHAPE = rf"[A-Za-z]{{2}}[0-9]{{2}}(?:{SEPARATOR}?[A-Za-z0-9]){{11}}"
# Of each country the BBAN's characters: n digits, a capital letters, c both.
IBANS = """
AD n8c12 AE n19 AL n8c16 AT n16 AZ a4c20 BA n16 BE n12 BG a4n6c8 BH a4c14 BI n23 BR n23a1c1
BY c4n4c16 CH n5c12 CR n18 CY n8c16 CZ n20 DE n18 DJ n23 DK n14 DO c4n20 EE n16 EG n25 ES n20
FI n14 FK a2n12 FO n14 FR n10c11n2 GB a4n14 GE a2n16 GI a4c15 GL n14 GR n7c16 GT c24 HN a4n20
HR n17 HU n24 IE a4n14 IL n19 IQ a4n15 IS n22 IT a1n10c12 JO a4n4c18 KW a4c22 KZ n3c13 LB n4c20
LC a4c24 LI n5c12 LT n16 LU n3c13 LV a4c13 LY n21 MC n10c11n2 MD c20 ME n18 MK n3c10n2 MN n16
MR n23 MT a4n5c18 MU a4n19a3 NI a4n20 NL a4n10 NO n11 OM n3c16 PK a4c16 PL n24 PS a4c21 PT n21
QA a4c21 RO a4c16 RS n18 RU n14c15 SA n2c18 SC a4n20a3 SD n14 SE n20 SI n15 SK n20 SM a1n10c12
SO n19 ST n21 SV a4n20 TL n19 TN n20 TR n6c16 UA n6c19 VA n18 VG a4n16 XK n16 YE a4n4c18
"""
_END = re.compile(END)


def _kinds(layout: str) -> str:
    return "".join(kind * int(size) for kind, size in re.findall(r"([nac])([0-9]+)", layout))


_KINDS = {  # of a country the kind of each character
    country: _kinds(layout)
    for country, layout in zip(IBANS.split()[::2], IBANS.split()[1::2], strict=True)
}
_CLASSES = {"n": "[0-9]", "a": "[A-Z]", "c": "[0-9A-Z]"}
_LAYOUTS = {
    country: re.compile("".join(map(_CLASSES.__getitem__, kinds)))
    for country, kinds in _KINDS.items()
}
_RUNS = {
    size: re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}(?:{SEPARATOR}?[A-Za-z0-9]){{{size}}}")
    for size in set(map(len, _KINDS.values()))
}


def iban(_: str, here: str) -> int:
    """Return the length of the IBAN that starts `here`; 0: there is none."""
    country = here[:2].upper()
    if country not in _KINDS:
        return 0
    run = _RUNS[len(_KINDS[country])].match(here)
    if not run or not _END.match(here, run.end()):
        return 0
    signs = set(re.findall(SEPARATOR, run[0]))
    groups = re.split(SEPARATOR, run[0])
    plain = "".join(groups)
    capital = plain.upper()
    if len(signs) > 1 or plain not in (capital, plain.lower()):
        return 0
    if not _LAYOUTS[country].fullmatch(capital, 4):
        return 0
    if signs and not _in_fours(groups) and _has_word(groups, _KINDS[country]):
        return 0
    rest = int("".join(str(int(sign, 36)) for sign in capital[4:] + capital[:4])) % 97
    return run.end() if rest == 1 else 0


def _in_fours(groups: list[str]) -> bool:
    return all(len(group) == 4 for group in groups[:-1]) and len(groups[-1]) <= 4


def _has_word(groups: list[str], kinds: str) -> bool:
    """Return whether a group behind the first four characters is letters, where digits may
    stand.
    """
    place = -4
    for group in groups:
        own, free = group[max(0, -place) :], kinds[max(0, place) : max(0, place + len(group))]
        if own.isalpha() and set(free) == {"c"}:
            return True
        place += len(group)
    return False
