"""Foreign JSON that goes out whole: clean, without ids, and with its addresses and bytes as they were."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.deliver import ServerCleaning, clean_value
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LEAF = {CODEC_META_KEY: {"map_id": "a" * 64, "ids": [1, 2, 3]}}


@pytest.mark.parametrize("more", [0, 20_000])
async def test_opaque_texts_stay_and_the_rest_is_clean(more: int) -> None:
    """What is large is cleaned in a thread; it makes no difference."""
    raw = {"contents": [{"uri": SECRET, "text": f"{SECRET} " + "x" * more, "_meta": LEAF}]}
    (part,) = (await clean_value(raw, ServerCleaning(Cleaner()), keep=("uri",)))["contents"]
    assert part["uri"] == SECRET
    assert SECRET not in part["text"]
    assert part["text"].endswith(" " + "x" * more)
    assert "_meta" not in part


@pytest.mark.parametrize(("size", "is_here"), [(100, True), (100_000, False), (2_000_000, False)])
async def test_large_ones_are_cleaned_in_a_thread(size: int, is_here: bool) -> None:
    here, on_the_loop = threading.current_thread(), set[bool]()

    class Watching(Cleaner):
        def json(self, value: Any) -> Any:
            on_the_loop.add(threading.current_thread() is here)
            return super().json(value)

    await clean_value({"contents": [{"text": "x" * size}]}, ServerCleaning(Watching()))
    assert on_the_loop == {is_here}
