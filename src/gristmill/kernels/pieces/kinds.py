"""Name what patterns of pieces ask of a code point, of Unicode 16.0."""

from pathlib import Path

import numpy as np

from gristmill.kernels.unicode.tables import PointBits

# Bits of a kind.
LETTER = 1  # general category L*
NUMBER = 2  # general category N*
SPACE = 4  # White_Space, what \s is in these patterns
MARK = 8  # general category M*
CAPITAL = 16  # general category Lu or Lt
SMALL = 32  # general category Ll
SIGN = 64  # general category P* or S*
KANA_HAN = 128  # U+4E00..U+9FA5 and U+3040..U+30FF, assigned or not (DeepSeek's class)

with np.load(Path(__file__).with_name("kinds.npz")) as _tables:
    KINDS = PointBits(_tables["blocks"], _tables["pages"])
