"""Codes of languages: what a recipe's `keep` means in a model's labels.

    en, eng         English in any script: en, eng, eng_Latn
    eng_Latn        English in Latin letters: eng_Latn alone
    zh, zho         a macrolanguage: itself and its members (cmn, yue, ...) in any script, but for
                    members with a two-letter code of their own (id of ms)

A label that a model spells so is that label and no other. Codes are those of ISO 639-1, ISO 639-3
and its table of macrolanguages (https://iso639-3.sil.org), scripts those of ISO 15924.
"""

import difflib
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

TWO_LETTERS = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak "
    "be:bel bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre "
    "cs:ces cu:chu cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa "
    "et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn "
    "gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind "
    "ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik "
    "kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat "
    "lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal "
    "mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld nn:nno no:nor "
    "nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus pt:por "
    "qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin sk:slk "
    "sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel "
    "tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig "
    "uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho "
    "zu:zul "
)
MEMBERS = (
    "aka fat; ara aao abh abv acm acq acw acx acy adf aeb aec afb apc apd arb arq ars ary arz auz "
    "avl ayh ayl ayn ayp pga shu ssh; aym ayc ayr; aze azb azj; cre crj crk crl crm csw cwd; est "
    "ekk vro; fas pes prs; ful ffm fub fuc fue fuf fuh fui fuq fuv; grn gnw gug gui gun nhd; iku "
    "ike ikt; ipk esi esk; kau kby knc krt; kom koi kpv; kon kng kwy ldi; kur ckb kmr sdh; lav "
    "ltg lvs; mlg bhr bmm bzc msh plt skg tdx tkg txy xmv xmw; mon khk mvf; msa bjn btj bve bvu "
    "coa dup hji jak jax kvb kvr kxd lce lcf liw max meo mfa mfb min mqg msi mui orn ors pel pse "
    "tmw urk vkk vkt xmm zlm zmi zsm; nep dty npi; oji ciw ojb ojc ojg ojs ojw otw; ori ory spv; "
    "orm gax gaz hae orc; pus pbt pbu pst; que qub qud quf qug quh quk qul qup qur qus quw qux "
    "quy quz qva qvc qve qvh qvi qvj qvl qvm qvn qvo qvp qvs qvw qvz qwa qwc qwh qws qxa qxc qxh "
    "qxl qxn qxo qxp qxr qxt qxu qxw; san cls vsn; sqi aae aat aln als; srd sdc sdn src sro; swa "
    "swc swh; uzb uzn uzs; yid ydd yih; zha zch zeh zgb zgm zgn zhd zhn zlj zln zlq zqe zyb zyg "
    "zyj zyn zzj; zho cdo cjy cmn cnp cpx csp czh czo gan hak hnm hsn luh lzh mnp nan sjc wuu yue "
)


@cache
def _three_letters() -> dict[str, str]:
    return dict(pair.split(":") for pair in TWO_LETTERS.split())


@cache
def _members() -> dict[str, frozenset[str]]:
    groups = [group.split() for group in MEMBERS.split(";")]
    return {group[0]: frozenset(group[1:]) for group in groups}


def _parts(label: str) -> tuple[str, str]:
    """Return the language, of three letters where it has them, and the script, or nothing."""
    language, _, script = label.partition("_")
    return _three_letters().get(language, language), script


def means(wanted: str, label: str) -> bool:
    """Return whether an entry of `keep` means a label that is not spelt as it is."""
    language, script = _parts(wanted)
    other, written = _parts(label)
    if script and script != written:
        return False
    return language == other or other in _members().get(language, ())


def same(labels: pa.Array, others: pa.Array) -> np.ndarray:
    """Of n rows whether two labels mean one language, (n,) bool; a null means none."""
    first, other = labels.dictionary_encode(), others.dictionary_encode()
    words = [[*codes.dictionary.to_pylist(), None] for codes in (first, other)]
    rows, columns = (
        codes.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        for codes, known in zip((first, other), words, strict=True)
    )
    pairs, place = np.unique(rows * len(words[1]) + columns, return_inverse=True)
    codes = [divmod(pair, len(words[1])) for pair in pairs.tolist()]
    equal = [_same(words[0][row], words[1][column]) for row, column in codes]
    return np.array(equal, bool)[place]


def _same(label: str | None, other: str | None) -> bool:
    if label is None or other is None:
        return False
    return label == other or means(label, other) or means(other, label)


def place(label: str, keep: Sequence[str]) -> int | None:
    """Return which of `keep` a label is: the one that is spelt so, else the first that means it."""
    if label in keep:
        return keep.index(label)
    return next((number for number, wanted in enumerate(keep) if means(wanted, label)), None)


class LabelPlaces:
    """Which of `keep` labels are. Each label is looked up once: the entries may be thousands."""

    def __init__(self, keep: Sequence[str]) -> None:
        self._keep = list(keep)
        self._known: dict[str, int] = {}

    def of(self, labels: pa.Array) -> np.ndarray:
        """Return the place of each of n labels, (n,) int64; -1: none."""
        codes = labels.dictionary_encode()
        words = codes.dictionary.to_pylist()
        for word in words:
            if word not in self._known:
                known = place(word, self._keep)
                self._known[word] = -1 if known is None else known
        table = np.array([*map(self._known.__getitem__, words), -1], np.int64)
        indices = codes.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        return np.asarray(table[indices])


def unknown(keep: Iterable[str], labels: Sequence[str]) -> str | None:
    """Return what is wrong with an entry of `keep` that means none of a model's labels, and what
    may be meant; None: each means one.
    """
    spelt = frozenset(labels)
    for wanted in keep:
        if wanted in spelt or any(means(wanted, label) for label in labels):
            continue
        language, script = _parts(wanted)
        near = [label for label in labels if _parts(label)[0] == language]
        if script and near and all(not _parts(label)[1] for label in near):
            return f"the model's labels name no script: write {near[0]!r} for {wanted!r}"
        wider = [
            macrolanguage for macrolanguage, members in _members().items() if language in members
        ]
        near += [label for label in labels if _parts(label)[0] in wider]
        near += difflib.get_close_matches(wanted, labels, 5, 0.5)
        shown = list(dict.fromkeys(near))[:5] or [*labels[:5], "..."]
        return f"{wanted!r} is none of the model's {len(labels)} labels: {', '.join(shown)}?"
    return None
