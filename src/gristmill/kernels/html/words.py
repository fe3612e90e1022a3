"""Words of classes, ids, roles and headings that say what a part of a page is, as bits.

class="postComments post-4"  ->  the bits of `comment` and of `post`
"""

import numpy as np

from gristmill.kernels.html.names import name_key, name_number, name_table
from gristmill.kernels.jit.compile import helper

# A group of words has one bit, by its place; at most 63.
GROUPS = (
    "article articles articlebody",
    "body bd",
    "content contents",
    "entry entries",
    "main primary",
    "page pages",
    "post posts postbody",
    "text txt richtext",
    "story stories",
    "blog blogs",
    "comment comments disqus reply replies respond kommentare",
    "foot footer ft colophon contentinfo",
    "head header hd masthead banner",
    "nav navi navigation navbar menu menus submenu",
    "side sidebar aside rail complementary secondary",
    "widget widgets module",
    "share sharing social facebook twitter addthis follow sns",
    "related recommended recommendations recommend similar also",
    "more popular trending latest recent",
    "promo promotion promoted cta",
    "ad ads adv advert advertisement advertising sponsor sponsored dfp",
    "breadcrumb breadcrumbs crumb crumbs",
    "cookie cookies consent gdpr privacy",
    "login signin register signup account user profile",
    "popup modal overlay dialog lightbox",
    "subscribe subscription newsletter email",
    "tag tags category categories cat topic topics label labels",
    "author authors byline bio contributor",
    "date time timestamp published datetime updated",
    "caption captions figcaption figure credit credits",
    "image images img photo picture gallery slideshow carousel slider",
    "copyright legal disclaimer terms",
    "pager pagination paging prev previous next",
    "search",
    "title headline heading subject",
    "meta info details detail",
    "summary excerpt intro lead teaser description desc deck standfirst",
    "list lists listing",
    "item items result results",
    "grid card cards feed tile tiles",
    "link links",
    "hidden hide invisible sr noprint",
    "print",
    "tool tools toolbar utility utilities button btn buttons",
    "tab tabs accordion",
    "forum thread message messages",
    "product products price cart shop",
    "question questions answer answers faq",
    "toc",
    "wiki mw",
    "reference references reflist footnote footnotes citation",
    "video player audio media",
    "form field input",
    "wrapper container wrap inner outer",
    "section block box",
    "hero",
    "single",
    "quote blockquote",
    "spec specs specification specifications features feature",
    "review reviews rating ratings",
    "left right",
    "top bottom",
    "html prose markdown wysiwyg",
)
BITS = {word: place for place, group in enumerate(GROUPS) for word in group.split()}
WORD_TABLE = name_table({word: place + 1 for word, place in BITS.items()})
LONGEST = 16


@helper
def word_bits(data, start, stop, most, table):
    """Return the bits of the words in data[start:stop], which are runs of ASCII letters, cut before
    a capital behind a small letter; no more than `most` words are read.
    """
    bits = np.uint64(0)
    at = start
    words = np.int64(0)
    while at < stop and words < most:
        while at < stop and np.uint8((data[at] | 0x20) - 0x61) >= 26:
            at += 1
        first = at
        small = False
        while at < stop and np.uint8((data[at] | 0x20) - 0x61) < 26:
            capital = data[at] < 0x60
            if capital and small:
                break
            small = not capital
            at += 1
        if at - first >= 2:
            words += 1
            if at - first <= LONGEST:
                number = name_number(name_key(data, first, at - first), table)
                if number > 0:
                    bits |= np.uint64(1) << np.uint64(number - 1)
        elif at == first:
            break
    return bits
