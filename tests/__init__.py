"""gristmill's tests."""
