"""`leafgate serve`, as an operator starts it: which configuration it uses, and what it says about its servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PROGRAM, Person, somebody
from warm_python import PYTHON

NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
BROKEN = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no database at ' + 'hand')"]}


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def test_the_file_of_the_folder_is_used_and_a_failed_server_leads_to_doctor(ada: Person) -> None:
    (ada.folder / "leafgate.yaml").write_text(json.dumps({"mcpServers": {"notes": NOTES, "broken": BROKEN}}))
    words = [str(PROGRAM), "serve", "--transport", "http", "--port", "0"]
    env = {**os.environ, "HOME": str(ada.home)}
    with (ada.home / "err").open("w+") as err:
        process = subprocess.Popen(words, cwd=ada.folder, env=env, stdout=subprocess.PIPE, stderr=err, text=True)
        try:
            assert process.stdout is not None
            banner = ""
            for line in process.stdout:
                banner += line
                if "Ctrl-C stops" in line:
                    break
            url = re.search(r"MCP endpoint (http://\S+)/mcp", banner)
            assert url is not None, banner
            assert re.search(r"notes +up, \d tools", banner)
            assert re.search(r"broken +down: ", banner)
            assert "leafgate doctor --config leafgate.yaml says what is wrong" in banner

            # The commands of a client find it by the environment.
            status = ada.runs("status", "--json", env={"LEAFGATE_URL": url[1]})
            assert [each["name"] for each in json.loads(status.out)["upstreams"]] == ["notes", "broken"]
            page = ada.runs("call", "tool_browse", "query=search notes", env={"LEAFGATE_URL": f"{url[1]}/mcp"})
            assert "notes:search_notes#" in page.out
        finally:
            process.terminate()
            process.communicate(timeout=60)
        err.seek(0)
        assert "leafgate: using leafgate.yaml; --config names another file" in err.read()


def test_the_demo_runs_only_where_there_is_no_file_or_when_asked_for(ada: Person) -> None:
    assert "using the demo servers" in ada.runs("serve").err
    (ada.folder / "leafgate.yaml").write_text("mcpServers: 5\n")
    refused = ada.runs("serve")
    assert (refused.code, "leafgate.yaml:1: mcpServers" in refused.err) == (2, True)
    demo = ada.runs("serve", "--demo")
    assert (demo.code, "leafgate.yaml" in demo.err) == (0, False)
    assert ada.runs("serve", "--demo", "--config", "leafgate.yaml").code == 2


def test_what_a_command_starts_for_itself_has_the_demo_servers(ada: Person) -> None:
    (ada.folder / "leafgate.yaml").write_text("mcpServers: 5\n")
    ran = ada.runs("call", "tool_browse", "query=search notes", "--demo")
    assert ran.code == 0, ran.said
    assert "notes:search_notes#" in ran.out
