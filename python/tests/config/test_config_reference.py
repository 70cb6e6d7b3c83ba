import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from config_documents import DOCUMENTS, near_misses
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from leafgate.config.document import document_of
from leafgate.config.kinds import Reading, Section, keys_of, kind_of
from leafgate.config.load import config_of
from leafgate.config.models import ConfigFile
from leafgate.config.reference import config_schema, reference_text, schema_text
from leafgate.config.variables import Variables

COMMITTED = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_committed_reference_is_up_to_date() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == reference_text(), "run: leafgate config reference > docs/..."


def test_its_example_is_a_configuration() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", reference_text(), re.DOTALL)
    config = config_of(document_of(Path("leafgate.yaml"), "yaml", example), {"TICKETS_TOKEN": "t"})
    assert [server.name for server in config.servers] == ["files", "tickets"]


def test_every_key_has_a_row() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", reference_text(), re.MULTILINE)
    assert {*keys_of(ConfigFile)} <= {*rows}
    assert {"mcpServers.<name>.command", "auth.tokens[].hash", "policy.rules[].effect"} <= {*rows}
    assert len(rows) == len({*rows})


def test_every_row_has_its_four_cells() -> None:
    rows = [line for line in reference_text().splitlines() if line.startswith("| `")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in rows]
    assert {*cells} <= {2, 4}  # two in the table of variables


SCHEMA_FILE = Path(__file__).parents[3] / "spec" / "schemas" / "leafgate-config.schema.json"
VALIDATOR = Draft202012Validator(config_schema())
ENVIRON = {"T": "http", "P": "1", "S": "true", "U": "https://x", "F": "a.json", "H": "sha256:" + "0" * 64}
SLOW = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def our_verdict(value: dict[str, Any]) -> bool:
    try:
        ConfigFile.model_validate(value, context=Reading(Variables(ENVIRON, Path())))
    except ValidationError:
        return False
    return True


def test_the_committed_schema_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run: leafgate config schema > spec/schemas/..."


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(config_schema())


GOOD = """
mcpServers: {a: {command: x}}
---
servers: {a: {url: 'http://x/mcp', type: sse, headers: {A: 1, B: null}}}
---
catalog: tools.json
---
catalog: tools.json
mcpServers: {}
---
mcpServers: {a: {command: x, args: [1, true, b], env: {A: 1.5}, envFile: e, cwd: null, check: trust}}
---
mcpServers: {a: {disabled: true, anything: goes}, b: {command: x, disabled: false}}
---
mcpServers: {a: {command: x}}
transport: ${T}
port: ${P}
hydrate: ${S}
drain_seconds: ${P}
---
mcpServers: {a: {url: '${U}/mcp', timeout: '${P}'}}
auth: {jwt: {issuer: i, audience: [a, b], jwks: '${U}'}, scopes: {r: [browse, view]}}
---
mcpServers: {a: {command: x}}
auth:
  tokens: [{name: a, hash: '${H}', scopes: [r]}]
  jwt: {issuer: i, audience: a, jwks: 'https://x/jwks'}
  required: false
principals: {'*': {tools: {include: ['a:*']}, policy: {rules: []}, maps: [x], artifact_quota_mb: 5}}
---
mcpServers: {a: {command: x}}
port: 9000.0
embedder: null
sanitize: null
log: {level: debug}
maps:
  files: [a.json]
  urls: [{url: 'https://x/m', sha256: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'}]
$schema: ./leafgate-config.schema.json
"""

BAD = """
{}
---
transport: http
---
mcpServers: {}
---
mcpServers: []
---
mcpServers: {a: {}}
---
mcpServers: {a: {command: x, url: 'http://x'}}
---
mcpServers: {a: {command: ''}}
---
mcpServers: {a: {command: x, comand: y}}
---
mcpServers: {a: {url: 'ftp://x'}}
---
mcpServers: {a: {url: 'http:// x'}}
---
mcpServers: {a: {command: x, timeout: 0}}
---
mcpServers: {a: {command: x, timeout: 86401}}
---
mcpServers: {a: {command: x, disabled: 1}}
---
mcpServers: {'': {command: x}}
---
mcpServers: {a: null}
---
catalog: ''
---
catalog: null
---
catalog: c.json
port: '9000'
---
catalog: c.json
port: 65536
---
catalog: c.json
port: 1.5
---
catalog: c.json
port: null
---
catalog: c.json
transport: tcp
---
catalog: c.json
hydrate: yes
---
catalog: c.json
policy: {}
---
catalog: c.json
policy: {rules: [{effect: maybe}]}
---
catalog: c.json
auth: {}
---
catalog: c.json
auth: {tokens: []}
---
catalog: c.json
auth: {tokens: [{name: a}]}
---
catalog: c.json
auth: {jwt: {issuer: i, audience: [], jwks: k}}
---
catalog: c.json
auth: {jwt: {issuer: i, audience: a, jwks: 'http://x'}}
---
catalog: c.json
auth: {jwt: {issuer: i, audience: a, jwks: 'file:///x'}}
---
catalog: c.json
auth: {tokens: [{name: a, hash: the-token-itself}]}
---
catalog: c.json
principals: {a: {tools: {include: []}}}
---
catalog: c.json
maps: {urls: [{url: 'http://x', sha256: abc}]}
---
catalog: c.json
retry: {jitter: 1.1}
---
catalog: c.json
zz: 1
"""


def corpus(text: str) -> Iterator[dict[str, Any]]:
    for part in text.split("---\n"):
        yield dict(document_of(Path("x"), "yaml", part).value)


@pytest.mark.parametrize("value", [*corpus(GOOD)], ids=json.dumps)
def test_good_documents_pass_both(value: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(value)] == []
    assert our_verdict(value)


@pytest.mark.parametrize("value", [*corpus(BAD)], ids=json.dumps)
def test_bad_documents_pass_neither(value: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(value)
    assert not our_verdict(value)


@SLOW
@given(DOCUMENTS)
def test_every_document_of_the_table_passes_both(value: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(value)] == []
    assert our_verdict(value)


@SLOW
@given(near_misses())
def test_schema_and_reader_agree_on_near_misses(value: dict[str, Any]) -> None:
    before = deepcopy(value)
    assert our_verdict(value) == VALIDATOR.is_valid(value)
    assert value == before


def sections(kind: Any, entry: Any = None) -> Iterator[type[Section]]:
    if isinstance(kind, type):
        yield kind
        for key in keys_of(kind).values():
            yield from sections(key.kind, key.entry)
    elif entry is not None:
        yield from sections(*kind_of(entry))


def test_every_key_is_described_for_editors() -> None:
    schema = config_schema()
    assert {*schema["properties"]} == {*keys_of(ConfigFile)}
    assert all(described.get("description") for described in schema["properties"].values())
    for section in sections(ConfigFile):
        assert all(key.doc.endswith(".") for key in keys_of(section).values())
