"""What the kernels find in a page of HTML: its blocks, what is counted in them, their rows."""

import numpy as np

from gristmill.kernels.html import blocks, counts, features, tokens

PLACES = {name: place for place, name in enumerate(features.NAMES)}
SENTENCES = (
    "The mill stood by the river, and the miller ground the grist of three villages in it.",
    "Read more | Share",
    "Comments (3)",
    "© 2024 The Mill. All rights reserved!",
    "水車は川のそばに立っていて、粉屋は三つの村の麦を挽いた。",
    "Short",
    "A heading: of some words",
    "، عربي؟ ",
)


class Work:
    """What the kernels find in a page."""

    def __init__(self, page: str) -> None:
        data = np.frombuffer(page.encode(), np.uint8)
        found, attributes = tokens.room(len(data))
        self.work, self.counted = blocks.room(len(data)), counts.room(len(data))
        count = tokens.tokenize(data, found, attributes)
        self.elements, self.many, self.size = blocks.build(
            data, found, attributes, count, self.work
        )
        sizes = (self.elements, self.many)
        counts.count(self.work.text, self.work.elements, self.work.blocks, sizes, self.counted)
        rows = features.features(self.work.elements, self.work.blocks, self.many, self.counted)
        self.rows = np.concatenate([*(part.copy() for part in rows), np.empty((0, len(PLACES)))])

    def value(self, block: int, name: str) -> float:
        return float(self.rows[block, PLACES[name]])
