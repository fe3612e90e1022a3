"""What import counts: the documents of other tools' files get numbers, and the side of their end of
text is found or checked.
"""

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.trainer_formats.token_blocks import Side


class DocumentTally:
    """Numbers documents, and counts on which side each has its end of text."""

    def __init__(self, end_of_text: int) -> None:
        self._end = end_of_text
        self._rows: dict[int, int] = {}  # documents so far, by file
        self._in_split = 0
        self._last_ends = True
        self.documents = self.tokens = self.empty = 0
        self.begin = self.finish = self.unended = 0

    def add(self, tokens: np.ndarray, lengths: np.ndarray, files: np.ndarray) -> np.ndarray:
        """Count a block of documents; returns their numbers (n,) int64."""
        numbers = np.empty(len(lengths), np.int64)
        for file in np.unique(files).tolist():
            here = files == file
            count, row = int(here.sum()), self._rows.get(file, 0)
            if row + count >= 1 << 32:
                raise RecipeError("a file of 2^32 documents or more: divide it")
            numbers[here] = (file << 32) + np.arange(row, row + count)
            self._rows[file] = row + count
        kept = lengths[lengths > 0]
        self.empty += len(lengths) - len(kept)
        self.tokens += len(tokens)
        self.documents += len(kept)
        self._in_split += len(kept)
        stops = np.cumsum(kept)
        ended = tokens[stops - 1] == self._end
        self.finish += int(ended.sum())
        self.begin += int((tokens[stops - kept] == self._end).sum())
        if len(kept):
            self._last_ends = bool(ended[-1])
        return numbers

    def close(self) -> int:
        """End a split; returns its number of documents."""
        count, self._in_split = self._in_split, 0
        self.unended += bool(count) and not self._last_ends
        self._last_ends = True
        return count

    def side(self, stated: Side | None, indexed: bool) -> Side:
        """Return the side that the documents have. Raises VerificationError if it is not the stated
        one, RecipeError if they differ and none is stated.
        """
        if not self.documents:
            raise VerificationError("the files hold no token")
        counts = {"after": self.finish, "before": self.begin}
        if stated is None:
            if self.finish == self.documents:
                return "after"
            if self.begin == self.documents:
                return "before"
            if not any(counts.values()):
                return "none"
            raise RecipeError(
                f"{self.finish:,} of {self.documents:,} documents end with the end of text "
                f"{self._end}, and {self.begin:,} begin with it. If that is as it should be, say "
                "--end-of-text-side none; otherwise name their tokenizer"
            )
        if stated != "none":
            # Without an index the end of text divides documents: only the last may have none.
            missing = self.documents - counts[stated]
            if missing > (0 if indexed or stated == "before" else self.unended):
                raise VerificationError(
                    f"{missing:,} of {self.documents:,} documents have no end of text {self._end} "
                    f"{stated} them: the tokenizer is another, or see --end-of-text-side"
                )
        return stated
