"""Tokens: tokenizers, and the shards that trainers read. The names of `__all__` are public."""

from gristmill.system.lazy_names import lazy

_PLACES = {
    "TokenizerVersion": "tokens.growth_record:TokenizerVersion",
    "check_version": "tokens.growth_record:check_version",
    "required_version": "tokens.growth_record:required_version",
}
__all__ = [*_PLACES]  # noqa: PLE0604
__getattr__ = lazy(__name__, _PLACES)
