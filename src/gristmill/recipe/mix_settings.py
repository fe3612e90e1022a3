"""The recipe's `[mix]`: how much of each source a training run reads. It changes no byte of the
corpus, so it is no part of a content key.
"""

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Rule = Literal["weights", "proportional", "temperature", "unimax", "targets"]
SUM = 1e-6  # how far shares may be from 1 in all
Share = Annotated[float, Meta(ge=0, le=1e300)]
Tokens = Annotated[int, Meta(ge=1, le=1 << 60)]


class Shares(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for the shares of tokens of sources, or of parts of sources."""

    # null: of the parameter that is given, else proportional
    rule: Rule | None = None
    weights: dict[str, Share] | None = None  # shares of tokens, which sum to 1 (or to 100)
    targets: dict[str, Tokens] | None = None  # tokens of each source
    temperature: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # n^(1/T); 1: proportional
    # how often a source may be read in all stages together
    max_epochs: Annotated[float, Meta(gt=0, le=1e6)] | None = None

    @property
    def kind(self) -> Rule:
        """The rule, as named or as its parameter says."""
        if self.rule is not None:
            return self.rule
        given = [name for name in ("weights", "targets", "temperature") if self._has(name)]
        return given[0] if given else "proportional"  # type: ignore[return-value]

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not None

    def __post_init__(self) -> None:
        of = {"weights": "weights", "targets": "targets", "temperature": "temperature"}
        for name in of:
            if self._has(name) and self.kind != name:
                raise ValueError(f'{name} is not for rule = "{self.kind}"')
            if self.kind == name and not self._has(name):
                raise ValueError(f'rule = "{name}" needs {name}')
        if self.kind == "unimax" and self.max_epochs is None:
            raise ValueError('rule = "unimax" needs max_epochs, the most that a source is repeated')
        if self.weights is not None:
            total = math.fsum(self.weights.values())
            if min(abs(total - 1), abs(total - 100) / 100) > SUM:
                raise ValueError(
                    f"weights are shares that sum to 1 (or to 100), not to {total:.9g}"
                )
        if self.targets is not None and not self.targets:
            raise ValueError("targets names no source")


class MixStage(Shares, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of training with shares of its own; it follows the one before it."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    tokens: Tokens | None = None  # null: the sum of its targets
    sequence_length: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None  # null: as before
    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None  # windows; null: as before


class Mix(Shares, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of training, or its first stage where there are stages behind it."""

    tokens: Tokens | None = None  # of this stage; null: the sum of its targets, else one epoch
    sequence_length: Annotated[int, Meta(ge=1, le=1 << 24)] = 2048  # tokens of a window
    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)] = 512  # windows of a step
    stage: list[MixStage] = []
