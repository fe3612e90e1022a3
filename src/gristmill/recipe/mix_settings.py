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

    # The rule. Unset: the one whose parameter is given, else `proportional`.
    rule: Rule | None = None
    # Of each source its share of the tokens; together 1, or 100.
    weights: dict[str, Share] | None = None
    targets: dict[str, Tokens] | None = None  # Of each source its tokens.
    # Shares are n^(1/T) of n tokens; 1 is proportional, more is flatter.
    temperature: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    # How often a source may be read in all stages together.
    max_epochs: Annotated[float, Meta(gt=0, le=1e6)] | None = None

    @property
    def kind(self) -> Rule:
        """Return the rule, as named or as its parameter says."""
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

    name: Annotated[str, Meta(min_length=1, max_length=100)]  # Its name, in plans and reports.
    tokens: Tokens | None = None  # Tokens of the stage. Unset: the sum of its targets.
    # Tokens of a window. Unset: as before.
    sequence_length: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None
    # Windows of a step. Unset: as before.
    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None


class Mix(Shares, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of training, or its first stage where there are stages behind it."""

    # Tokens of training, or of its first stage. Unset: the sum of the targets, else one epoch.
    tokens: Tokens | None = None
    sequence_length: Annotated[int, Meta(ge=1, le=1 << 24)] = 2048  # Tokens of a window.
    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)] = 512  # Windows of a training step.
    stage: list[MixStage] = []  # Further stages, each with shares of its own.
