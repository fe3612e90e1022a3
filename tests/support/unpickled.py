"""What shows that a pickle was loaded."""

import os
from pathlib import Path


class Opened:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)
