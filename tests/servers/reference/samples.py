"""The smallest picture and sound that are valid files. Out: base64, as content blocks carry it."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from typing import Final


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """Eight samples of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 8)
    return file.getvalue()


PNG: Final = base64.b64encode(_png()).decode()
WAV: Final = base64.b64encode(_wav()).decode()
