import re
from pathlib import Path

from leafgate.config.document import document_of
from leafgate.config.keys import TOP
from leafgate.config.load import config_of
from leafgate.config.reference import EXAMPLE, reference_text

COMMITTED = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_committed_reference_is_up_to_date() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == reference_text(), "run: leafgate config reference > docs/..."


def test_its_example_is_a_configuration() -> None:
    config = config_of(document_of(Path("leafgate.yaml"), "yaml", EXAMPLE), {"TICKETS_TOKEN": "t"})
    assert [server.name for server in config.servers] == ["files", "tickets"]
    assert EXAMPLE in reference_text()


def test_every_key_has_a_row() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", reference_text(), re.MULTILINE)
    assert {*TOP.by_name} <= {*rows}
    assert {"mcpServers.<name>.command", "auth.tokens[].hash", "policy.rules[].effect"} <= {*rows}
    assert len(rows) == len({*rows})


def test_every_row_has_its_four_cells() -> None:
    rows = [line for line in reference_text().splitlines() if line.startswith("| `")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in rows]
    assert {*cells} <= {2, 4}  # two in the table of variables
