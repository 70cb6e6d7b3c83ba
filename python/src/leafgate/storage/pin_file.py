"""Reads a lock file of approved definitions. In: a path. Out: Pins, or a ConfigError. Touches the file."""

from __future__ import annotations

import json
from pathlib import Path

from leafgate.catalog.pins import Pins, read_pins
from leafgate.model.errors import ConfigError


def load_pins(path: Path) -> Pins:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return read_pins(document, str(path))
