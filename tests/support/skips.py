"""Skips for want of a part of the surroundings."""

import os

import pytest

REQUIRED = set(filter(None, os.environ.get("GRISTMILL_REQUIRE", "").split(",")))


def missing(part: str, reason: str) -> None:
    """Skip for want of a part of the surroundings; fail where GRISTMILL_REQUIRE names it."""
    if part in REQUIRED:
        pytest.fail(f"GRISTMILL_REQUIRE names {part!r}, and {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
