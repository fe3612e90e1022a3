"""The language of a block of code, as its class says it.

class="language-c++", "lang-py", "brush: js", "highlight-source-c", "sourceCode hs"
"""

import re

from gristmill.filters.extract.markdown.page_source import PageSource
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.tokens import START

CODE, CLASS = ELEMENT["code"], ATTRIBUTE["class"]
WORD = re.compile(rb"[^ \t\n\f\r;]+")
PREFIX = re.compile(
    rb"(?:language-|lang-|highlight-source-|highlight-|brush:)(?=.)", re.IGNORECASE | re.DOTALL
)
BEFORE_LANGUAGE = {b"brush:", b"sourcecode"}
NO_LANGUAGES = {b"default", b"none", b"text", b"plaintext"}
LANGUAGE = re.compile(rb"[-+#.0-9A-Za-z]{1,20}")


def code_language(page: PageSource, token: int) -> bytes:
    """Return the language that the class of a token names, or nothing."""
    language = _of_class(page.attribute(token, CLASS) or b"")
    is_name = LANGUAGE.fullmatch(language) and language.lower() not in NO_LANGUAGES
    return language if is_name else b""


def _of_class(names: bytes) -> bytes:
    before = b""
    for match in WORD.finditer(names):
        word = match[0]
        if before.lower() in BEFORE_LANGUAGE:
            return word
        if prefix := PREFIX.match(word):
            return word[prefix.end() :]
        before = word
    return b""


def pre_language(page: PageSource, openings: list[int]) -> bytes:
    """Return the language of a <pre>: of its own class, of a <code> in it, of what it lies in.

    `openings`: the tokens that open the <pre> and the elements around it, from inside out.
    """
    for step, token in enumerate(openings):
        language = code_language(page, token)
        if step == 0:
            for place in range(token + 1, min(token + 4, page.many)):
                if page.names[place] == CODE and page.kinds[place] == START:
                    language = language or code_language(page, place)
        if language:
            return language
    return b""
