"""What tests share: corpora, servers, faults, slow twins."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
