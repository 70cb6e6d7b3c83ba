import json
from pathlib import Path

import pytest

from leafgate.compose.servers import load_saved_offers, with_saved
from leafgate.model.errors import ConfigError, UpstreamFailure
from leafgate.ports import Offers, ToolListing
from leafgate.upstream.fleet import Fleet

READ, WRITE, PING = {"name": "read"}, {"name": "write"}, {"name": "ping"}
SAVED = [{"server": "files", "tool": READ}, {"server": "mail", "tool": PING}, {"server": "files", "prompt": WRITE}]


def saved(folder: Path, document: object = SAVED) -> Offers:
    file = folder / "tools.json"
    file.write_text(json.dumps(document))
    return load_saved_offers(file)


def test_a_file_gives_what_its_servers_offered(tmp_path: Path) -> None:
    offers = saved(tmp_path)
    assert offers.tools == [ToolListing("files", READ), ToolListing("mail", PING)]
    assert offers.prompts == [ToolListing("files", WRITE)]


def test_a_list_of_tools_without_servers_is_taken_too(tmp_path: Path) -> None:
    assert saved(tmp_path, [READ]).tools == [ToolListing("", READ)]


def test_a_server_that_is_up_speaks_for_itself(tmp_path: Path) -> None:
    kept = saved(tmp_path)
    assert [each.server for each in with_saved(Offers(), kept).tools] == ["files", "mail"]
    offers = with_saved(Offers(tools=[ToolListing("files", WRITE)]), kept)
    assert offers.tools == [ToolListing("files", WRITE), ToolListing("mail", PING)]
    assert offers.prompts == []


@pytest.mark.anyio
async def test_a_call_of_a_saved_tool_says_that_nobody_is_there() -> None:
    with pytest.raises(UpstreamFailure) as raised:
        await Fleet(()).request("mail", "tools/call", {"name": "ping", "arguments": {}})
    assert raised.value.code == "UPSTREAM_UNAVAILABLE"


@pytest.mark.parametrize("content", ["", "5", "{}", '[{"no": "name"}]'])
def test_a_bad_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "tools.json").write_text(content)
    with pytest.raises(ConfigError, match=r"tools\.json"):
        load_saved_offers(tmp_path / "tools.json")
