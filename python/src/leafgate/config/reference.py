"""The reference of a configuration, for people. In: the table of keys. Out: docs/configuration.md. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from leafgate.config.keys import TOP
from leafgate.config.kinds import Key, Kind, ListOf, MapOf, Section, Text

EXAMPLE: Final = """\
transport: http
map: qwen/qwen2
mcpServers:
  files:
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", /srv/files]
    exclude: [write_*]
  tickets:
    url: https://tickets.example/mcp
    headers: {Authorization: "Bearer ${TICKETS_TOKEN}"}
    timeout: 20
retry: {max_attempts: 3}
log: {level: info, format: json}
"""

_HEAD: Final = f"""\
# Configuration

This page is made from the table of keys that the gateway itself reads by: `leafgate config reference` prints it.

One file says everything. It may be YAML, TOML, JSON, or JSON with comments:

```yaml
{EXAMPLE}```

`leafgate config check FILE` tells everything that is wrong with a file, by line and key, with the fix; `--json` is
for programs. `leafgate config schema` prints a JSON Schema (also in `spec/schemas/leafgate-config.schema.json`), with
which editors complete keys and mark mistakes. A key that is not known is refused, with the one that was probably meant.

## A client's own file

A JSON file of Claude Desktop, Claude Code (`.mcp.json`), VS Code (`mcp.json`) or Cursor (`mcp.json`) is taken as it is.
Settings in it that are for the client are passed over, and a notice says which. Servers with `disabled: true` are left
out. A JSON file whose name begins with `leafgate`, or whose `$schema` names leafgate, is leafgate's own: in it, unknown
keys are refused. In a client's file, a `timeout` from 1000 is taken for milliseconds, as Claude Code writes it.

## Variables

In every value, these are filled in when the file is loaded. Values that come in this way are never shown in errors.

| written | means |
|---|---|
| `${{NAME}}`, `${{env:NAME}}` | an environment variable; it is an error if it is not set |
| `${{NAME:-default}}` | the same, with what counts if it is not set |
| `${{file:path}}` | the content of a file, such as a mounted secret, without its last newline |
| `${{input:name}}` | what VS Code would ask for: `LEAFGATE_INPUT_NAME` of the environment, or the input's default |
| `${{workspaceFolder}}`, `${{userHome}}`, `${{pathSeparator}}` | as VS Code and Cursor fill them |
| `$${{` | a plain `${{` |

Paths are relative to the file that names them; `~/` is the home folder. Numbers and switches may be variables too.

In YAML, `yes`, `no`, `on` and `off` are texts, as in YAML 1.2: a switch is `true` or `false`.
"""


def reference_text() -> str:
    """The whole page."""
    groups: dict[str, list[Key]] = {}
    for key in TOP.keys:
        groups.setdefault(key.group, []).append(key)
    seen: set[str] = set()
    chapters = [_chapter(group, keys, seen) for group, keys in groups.items()]
    return "\n".join((_HEAD, *chapters))


def _chapter(group: str, keys: list[Key], seen: set[str]) -> str:
    rows = [row for key in keys for row in _rows(key, key.name, seen)]
    return "\n".join((f"## {group}", "", "| key | value | without it | meaning |", "|---|---|---|---|", *rows, ""))


def _rows(key: Key, path: str, seen: set[str]) -> Iterator[str]:
    default = "needed" if key.required else ("" if key.default in (None, {}) else f"`{json.dumps(key.default)}`")
    yield f"| `{path}` | {_cell(_value(key.kind))} | {default} | {_cell(key.doc)} |"
    yield from _inner(key.kind, path, seen)


def _inner(kind: Kind, path: str, seen: set[str]) -> Iterator[str]:
    """The rows of what is inside a value. A section that several places share is told once."""
    match kind:
        case Section():
            if kind.name in seen:
                return
            seen.update({kind.name} - {""})
            for key in kind.keys:
                yield from _rows(key, f"{path}.{key.name}", seen)
        case MapOf():
            yield from _inner(kind.value, f"{path}.<{kind.keys}>", seen)
        case ListOf():
            yield from _inner(kind.entry, f"{path}[]", seen)
        case _:
            return


def _value(kind: Kind) -> str:
    match kind:
        case Text() if kind.choices:
            return ", ".join(f"`{choice}`" for choice in kind.choices)
        case ListOf(entry=Text(choices=(_, *_))):
            return f"a list of {_value(kind.entry)}"
        case _:
            return kind.hint


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")
