"""What a right answer of echo.py says: known to the server, and to whoever checks it."""

from __future__ import annotations

import hashlib


def answer_to(mark: str, size: int) -> str:
    body = (hashlib.sha256(mark.encode()).hexdigest() + "\n") * (size // 65)
    return f"{mark} {hashlib.sha256(body.encode()).hexdigest()}\n{body}"
