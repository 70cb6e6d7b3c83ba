"""Whatever a server says to its caller during a call is clean, and says nothing in ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from leafgate.firewall.cleaner import make_cleaner
from leafgate.gateway.clean_caller import CleanCaller
from leafgate.model.leaf import CODEC_META_KEY

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LEAF = {CODEC_META_KEY: {"map_id": "a" * 64, "ids": [1, 2, 3]}}


class Listener:
    """A caller that remembers what it heard."""

    owner = "me"
    takes_input_requests = True
    log_level = "info"

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.resume: Mapping[str, Any] = {"requestState": "s"}
        self.capabilities: Mapping[str, Any] = {"roots": {}}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append((progress, total, message))

    async def log(self, params: Mapping[str, Any]) -> None:
        self.heard.append(params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.heard.append((method, params))
        return {"answer": SECRET}


async def test_progress_log_lines_and_questions_are_clean() -> None:
    listener = Listener()
    caller = CleanCaller(listener, make_cleaner())
    await caller.progress(1, 3, f"with {SECRET}")
    await caller.progress(2, 3, None)
    await caller.log({"level": "info", "data": {"key": SECRET, "_meta": LEAF, "n": 5}})
    question = {"message": f"{SECRET}?\x1b[2J", "url": f"https://login.example/?t={SECRET}", "_meta": LEAF}
    assert await caller.ask("elicitation/create", question) == {"answer": SECRET}  # the client's own words
    first, second, line, (method, asked) = listener.heard
    assert first[:2] == (1, 3)
    assert second == (2, 3, None)
    assert (line["level"], line["data"]["n"], method) == ("info", 5, "elicitation/create")
    assert asked["url"] == question["url"]
    told = f"{first} {line} {asked['message']}"
    assert SECRET not in told
    assert "\x1b" not in asked["message"]
    assert CODEC_META_KEY not in f"{line} {asked}"


def test_who_the_caller_is_stays() -> None:
    caller = CleanCaller(Listener(), make_cleaner())
    told = caller.owner, caller.takes_input_requests, caller.resume, caller.capabilities, caller.log_level
    assert told == ("me", True, {"requestState": "s"}, {"roots": {}}, "info")
