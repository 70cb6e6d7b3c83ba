"""docs/security.md: its commands run, and its configurations are ones that a gateway can be made of."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from warm_python import PYTHON

from leafgate.compose.policies import make_access
from leafgate.config.load import load_config
from leafgate.model.rights import CAPABILITIES

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "sh"])
def test_commands_run(block: str, tmp_path: Path) -> None:
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "leafgate"
        subprocess.run([PYTHON, "-m", "leafgate.cli", *words], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "yaml"])
def test_configurations_are_good(block: str, tmp_path: Path) -> None:
    file = tmp_path / "leafgate.yaml"
    file.write_text(block)
    config = load_config(file)
    access = make_access(config.auth, config.principals, lambda name: None, "/mcp")
    assert (access.auth is not None) == ("auth:" in block)


def test_every_capability_is_told() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert [row for row in rows if row in CAPABILITIES] == [*CAPABILITIES]
