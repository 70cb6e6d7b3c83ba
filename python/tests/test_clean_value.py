"""Foreign JSON that is no result: clean, without ids, and off the loop where it is large."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from leafgate.firewall.cleaner import make_cleaner
from leafgate.gateway.clean_value import clean_value

pytestmark = pytest.mark.anyio

LEAF = {"ai.codec/leaf-tokenization": {"map_id": "sha256:" + "a" * 64, "ids": [1, 2, 3]}}


async def test_texts_are_clean_and_opaque_ones_stay() -> None:
    raw = {"contents": [{"uri": "notes://\u200bone", "text": "zero\u200bwidth", "_meta": {**LEAF, "mine": 1}}]}
    cleaned = await clean_value(raw, make_cleaner(), keep=("uri",))
    assert cleaned == {"contents": [{"uri": "notes://\u200bone", "text": "zerowidth", "_meta": {"mine": 1}}]}


@pytest.mark.parametrize(("size", "is_here"), [(100, True), (100_000, False), (2_000_000, False)])
async def test_large_ones_are_cleaned_in_a_thread(size: int, is_here: bool) -> None:
    cleaner, here, seen = make_cleaner(), threading.current_thread(), set[bool]()

    def json_of(value: Any) -> Any:
        seen.add(threading.current_thread() is here)
        return cleaner.json(value)

    await clean_value({"contents": [{"text": "x" * size}]}, replace(cleaner, json=json_of))
    assert seen == {is_here}
