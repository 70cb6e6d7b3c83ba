"""The TypeScript client at a real gateway: in frames and in JSON, in both eras, with text, ids and both."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from gateways import SERVERS, gateway_on_http
from implementations import HERE, TIME_LIMIT

from leafgate.maps.files import MapFiles

MAP = "qwen/qwen2"
ENCODER = MapFiles().load(MAP)
ERAS = {"stateless": "2026-07-28", "handshake": "2025-11-25"}
FORMS = ("both", "ids", "text")
STEPS = [{"progress": n, "total": 3, "message": f"step {n}"} for n in (1, 2, 3)]
LONG = "".join(f"{n} rye loaves\n" for n in range(5_000))
# The last is beyond the threshold of compression. None is a text that the firewall would change.
TEXTS = ["the cat", "", "Grüße, 的 and 😀", "  blanks \n\tand 1234 don't", "international breads " * 80]

Way = tuple[str, bool, str]
WAYS: list[Way] = [*product(ERAS, (True, False), FORMS)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[Way, dict[str, Any]]:
    """What the client got, by era, whether in frames, and form."""
    folder = tmp_path_factory.mktemp("binary")
    with gateway_on_http("--config", str(_config(folder))) as gateway:
        question = {
            "url": f"{gateway.url}/mcp",
            "map": MAP,
            "texts": TEXTS,
            "long": LONG,
            "ways": [{"era": era, "frames": frames, "form": form} for era, frames, form in WAYS],
        }
        ran = subprocess.run(
            ["node", str(HERE / "call-gateway.mjs")],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stderr == ""
    cancelled = (folder / "seen.jsonl").read_text().count('"notifications/cancelled"')
    assert cancelled == len(WAYS), "each abandoned call is cancelled at the server behind"
    return dict(zip(WAYS, json.loads(ran.stdout), strict=True))


def _config(folder: Path) -> Path:
    server = {"command": sys.executable, "args": [str(SERVERS / "faulty.py")], "env": {"FAULTY_FOLDER": str(folder)}}
    file = folder / "gateway.json"
    file.write_text(json.dumps({"mcpServers": {"faulty": server}}))
    return file


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("form", FORMS)
def test_frames_are_spoken_and_say_the_same_as_json(found: dict[Way, dict[str, Any]], era: str, form: str) -> None:
    frames, plain = found[era, True, form], found[era, False, form]
    assert (frames["speaksFrames"], plain["speaksFrames"]) == (True, False)
    assert frames["version"] == plain["version"] == ERAS[era]
    assert frames["tools"] == plain["tools"] == ["tool_browse", "tool_hydrate", "tool_execute", "tool_view"]
    assert frames["answers"] == plain["answers"]
    assert frames["refused"] == plain["refused"] == {"name": "RpcError", "code": -32601, "fault": "caller"}


@pytest.mark.parametrize("way", WAYS)
def test_texts_and_ids_are_those_of_the_map(found: dict[Way, dict[str, Any]], way: Way) -> None:
    form = way[2]
    for text, answer in zip(TEXTS, found[way]["answers"], strict=False):
        assert answer["texts"] == [text]
        assert answer["ids"] == [None if form == "text" or not text else ENCODER.encode(text)]
        assert [block["text"] for block in answer["result"]["content"]] == ["" if form == "ids" else text]


@pytest.mark.parametrize("way", WAYS)
def test_hydration_gives_the_schema(found: dict[Way, dict[str, Any]], way: Way) -> None:
    described = found[way]["described"]
    assert described["hydrated"]["id"].startswith("faulty:echo#")
    assert described["hydrated"]["args_schema"]["properties"]["text"] == {"type": "string"}
    assert described["unknown"] == [None, True]


@pytest.mark.parametrize("way", WAYS)
def test_progress_views_errors_and_aborts(found: dict[Way, dict[str, Any]], way: Way) -> None:
    told, dry, unknown, lost = found[way]["answers"][len(TEXTS) :]
    assert told["texts"] == ["told somebody"]
    assert found[way]["progress"] == STEPS
    assert (dry["isError"], json.loads(dry["texts"][0])["dry_run"]) == (False, True)
    assert (unknown["isError"], json.loads(unknown["texts"][0])["error"]) == (True, "HYDRATE_FAILED")
    assert (lost["isError"], json.loads(lost["texts"][0])["error"]) == (True, "VIEW_FAILED")
    assert found[way]["seen"][0].startswith("1 rye loaves\n2 rye loaves\n[lines 2 to 3 of 5000")
    assert found[way]["aborted"]["name"] == "TimeoutError"
