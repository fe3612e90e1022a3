"""The language of a block of code, as its class says it.

class="language-c++", "lang-py", "brush: js", "highlight-source-c", "sourceCode hs"
"""

import numpy as np

from gristmill.kernels.html.formulas import is_word, put_bytes
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.tags import is_space
from gristmill.kernels.html.tokens import START
from gristmill.kernels.jit.compile import helper

CODE = ELEMENT["code"]
CLASS = ATTRIBUTE["class"]
LONGEST_NAME = 20  # bytes of a language's name


@helper
def _word_of_class(data, at, stop):
    """The language that a class names: (start, stop), or zeros."""
    nothing = (np.int64(0), np.int64(0))
    take = False
    while at < stop:
        while at < stop and (is_space(data[at]) or data[at] == 0x3B):
            at += 1
        start = at
        while at < stop and not (is_space(data[at]) or data[at] == 0x3B):
            at += 1
        end = at
        if end == start:
            break
        if take:
            return start, end
        take = is_word(data, start, end, BRUSH) or is_word(data, start, end, SOURCE_CODE)
        for prefix in PREFIXES:
            size = np.int64(0)
            while size < len(prefix) and prefix[size] != 0:
                size += 1
            if end - start > size and is_word(data, start, start + size, prefix[:size]):
                return start + size, end
    return nothing


BRUSH, SOURCE_CODE = (np.frombuffer(word, np.uint8) for word in (b"brush:", b"sourcecode"))
PREFIXES = np.array(
    [
        list(word.ljust(20, b"\0"))
        for word in (b"language-", b"lang-", b"highlight-source-", b"highlight-", b"brush:")
    ],
    np.uint8,
)
NO_LANGUAGES = np.array(
    [list(word.ljust(20, b"\0")) for word in (b"default", b"none", b"text", b"plaintext")], np.uint8
)


@helper
def _language_of(page, token):
    """The language that the class of a token names: (start, stop), or zeros."""
    nothing = (np.int64(0), np.int64(0))
    attributes = page.attributes
    for place in range(page.tokens.attributes[token], page.tokens.attributes[token + 1]):
        if attributes.names[place] != CLASS:
            continue
        start, stop = _word_of_class(
            page.data, np.int64(attributes.starts[place]), np.int64(attributes.stops[place])
        )
        if stop == start or stop - start > LONGEST_NAME:
            return nothing
        for at in range(start, stop):
            byte = page.data[at]
            letter = np.uint8((byte | 0x20) - 0x61) < 26 or np.uint8(byte - 0x30) < 10
            if not (letter or byte == 0x2B or byte == 0x2D or byte == 0x23 or byte == 0x2E):
                return nothing
        for word in NO_LANGUAGES:
            size = np.int64(0)
            while word[size] != 0:
                size += 1
            if is_word(page.data, start, stop, word[:size]):
                return nothing
        return start, stop
    return nothing


@helper
def put_language(page, pre, elements, opened, out, to):
    """Write the language of a <pre>: of its own class, of a <code> in it, of what it lies in."""
    element = np.int64(pre)
    start = stop = np.int64(0)
    for step in range(4):
        token = np.int64(opened[element])
        if element == 0 or token < 0:
            break
        start, stop = _language_of(page, token)
        if step == 0:
            for place in range(token + 1, min(token + 4, page.many)):
                is_code = page.tokens.names[place] == CODE and page.tokens.kinds[place] == START
                if stop == start and is_code:
                    start, stop = _language_of(page, place)
        if stop > start:
            break
        element = np.int64(elements.parents[element])
    return put_bytes(page.data, start, stop, out, to)
