"""An n-gram model's estimate by Kneser-Ney, an n-gram at a time."""

import math
from collections import Counter, defaultdict

Gram = tuple[str, ...]
B, E, U = "<s>", "</s>", "<unk>"


class Estimate:
    """Interpolated Kneser-Ney with three discounts, an n-gram at a time."""

    def __init__(self, lines: list[list[str]], order: int, least: int) -> None:
        self.order = order
        raw: list[Counter[Gram]] = [Counter() for _ in range(order + 1)]
        for line in lines:
            words = [B, *line, E]
            for size in range(1, order + 1):
                raw[size].update(tuple(words[k : k + size]) for k in range(len(words) - size + 1))
        del raw[1][(B,)]
        self.adjusted: list[dict[Gram, int]] = [{} for _ in range(order + 1)]
        for size in range(1, order + 1):
            before = defaultdict(set)
            if size < order:
                for gram in raw[size + 1]:
                    before[gram[1:]].add(gram[0])
            for gram, count in raw[size].items():
                self.adjusted[size][gram] = (
                    count if size == order or gram[0] == B else len(before[gram])
                )
        self.vocabulary = {gram[0] for gram in raw[1]} | {U}
        self.kept = [
            {gram for gram, count in counts.items() if size < 3 or count >= least}
            for size, counts in enumerate(raw)
        ]
        self.discounts = [(0.0, 0.0, 0.0, 0.0)] + [
            self._discount(size) for size in range(1, order + 1)
        ]
        self.whole: Counter[Gram] = Counter()
        self.given: defaultdict[Gram, float] = defaultdict(float)
        for size in range(1, order + 1):
            for gram, count in self.adjusted[size].items():
                self.whole[gram[:-1]] += count
                self.given[gram[:-1]] += (
                    self._discount_of(gram) if gram in self.kept[size] else count
                )

    def _discount(self, size: int) -> tuple[float, ...]:
        n = Counter(self.adjusted[size].values())
        if not (n[1] and n[2] and n[3]):
            return (0.0, 0.5, 1.0, 1.5)
        y = n[1] / (n[1] + 2 * n[2])
        found = tuple(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
        return (
            (0.0, *found)
            if all(0 < d <= k for k, d in enumerate(found, 1))
            else (0.0, 0.5, 1.0, 1.5)
        )

    def _discount_of(self, gram: Gram) -> float:
        return self.discounts[len(gram)][min(self.adjusted[len(gram)][gram], 3)]

    def back(self, context: Gram) -> float:
        """What a context hands down."""
        return self.given[context] / self.whole[context] if self.whole[context] else 1.0

    def share(self, gram: Gram) -> float:
        """The probability of an n-gram's last word after the others, stored or not."""
        if not gram:
            return 1.0 / len(self.vocabulary)
        context = gram[:-1]
        if not self.whole[context]:
            return self.share(gram[1:])
        here = 0.0
        if gram in self.kept[len(gram)]:
            here = (self.adjusted[len(gram)][gram] - self._discount_of(gram)) / self.whole[context]
        return here + self.back(context) * self.share(gram[1:])

    def arpa(self) -> str:
        """The model in KenLM's text format."""
        tables = [
            [(U,), (B,), *sorted(self.kept[1] - {(U,)})],
            *(sorted(grams) for grams in self.kept[2:]),
        ]
        text = "\\data\\\n" + "".join(
            f"ngram {size}={len(grams)}\n" for size, grams in enumerate(tables, 1)
        )
        for size, grams in enumerate(tables, 1):
            text += f"\n\\{size}-grams:\n"
            for gram in grams:
                share = -99.0 if gram == (B,) else math.log10(self.share(gram))
                text += f"{share:.9f}\t{' '.join(gram)}"
                text += f"\t{math.log10(self.back(gram)):.9f}\n" if size < self.order else "\n"
        return text + "\n\\end\\\n"
