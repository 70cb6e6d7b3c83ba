"""Shows a part of an artifact. In: a selector as the client sent it, and the artifact. Out: a page of it. Pure.

A selector is foreign input: whatever it is, the answer is a page within the budget, or VIEW_FAILED. What is shown was
cleaned before it was stored, and is cleaned again: cutting and unquoting may bring out what was not there before.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from leafgate.firewall.cleaner import Cleaner
from leafgate.firewall.find_text import find_text
from leafgate.firewall.fit import Count, total
from leafgate.firewall.outline import largest_part, outline
from leafgate.firewall.page import Limit, View
from leafgate.firewall.read_json import read_json, resolve
from leafgate.firewall.read_lines import read_lines
from leafgate.firewall.read_rows import read_rows
from leafgate.firewall.selectors import Selector, parse_selector, view_failed
from leafgate.firewall.shape import shape_of
from leafgate.firewall.size import weigh_exactly
from leafgate.firewall.tables import Table, delimited, json_lines, read_delimited, table_of_objects
from leafgate.model.envelope import Artifact

LARGEST_MEDIA: Final = 5 * 1024 * 1024  # bytes of an image or a sound that is shown whole
LARGEST_PARSED: Final = 32 * 1024 * 1024  # bytes of a text that is parsed for json and rows


@dataclass(frozen=True)
class Page:
    """What a model reads: a text, and a block before it where the artifact is an image or a sound."""

    text: str
    block: dict[str, Any] | None = None


def show(sent: object, artifact: Artifact, cleaner: Cleaner, count: Count, budget: int) -> Page:
    """The page that a selector asks for."""
    limit = Limit(total(count), cleaner, budget)
    selector = parse_selector(sent)
    if limit.count(json.dumps(selector.as_json(), ensure_ascii=False)) > budget // 3:
        view_failed("this selector is too long")
    view = _view(selector, artifact, limit)
    return Page(limit.finished(view), None if view.block is None else dict(view.block))


def _view(selector: Selector, artifact: Artifact, limit: Limit) -> View:
    data = artifact.content
    if selector.type == "bytes":
        return _bytes(selector, artifact, limit)
    if selector.type == "stats":
        return _stats(artifact, limit)
    if not artifact.is_text:
        view_failed(f"this is {artifact.media_type}, {len(data)} bytes, and no text: read it with bytes")
    if selector.type in ("json", "rows") and len(data) > LARGEST_PARSED:
        view_failed(f"these are {len(data)} bytes, too many to be parsed: read them with lines or search")
    if selector.type == "json":
        return read_json(selector, _parsed(data), limit)
    if selector.type == "rows":
        return read_rows(selector, _table(selector, data, limit), limit)
    read = find_text if selector.type == "search" else read_lines
    return read(selector, data, limit)


def _parsed(data: bytes) -> Any:
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return json.loads(text)
    except RecursionError:
        view_failed("this JSON is nested too deeply to be parsed; read it with lines")
    except ValueError:
        view_failed(f"this is {shape_of(text).name}, not JSON; read it with lines, rows or search")


def _table(selector: Selector, data: bytes, limit: Limit) -> Table:
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    start = text[:64].lstrip()[:1]
    if json_lines(text) is not None:
        return table_of_objects([_line(line) for line in text.split("\n") if line.strip()])
    if start in ("[", "{"):
        value = _parsed(data)
        pointer = largest_part(value) if selector.pointer is None else selector.pointer
        path = resolve(value, pointer, limit.cleaner)
        for step in path:
            value = value[step]
        if isinstance(value, dict):
            value = [{"key": key, "value": inner} for key, inner in value.items()]
        if isinstance(value, list):
            return table_of_objects(value)
    dialect = delimited(text)
    if dialect is None:
        view_failed(f"this is {shape_of(text).name}, and no table; read it with lines or search")
    return read_delimited(text, dialect)


def _line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def _bytes(selector: Selector, artifact: Artifact, limit: Limit) -> View:
    """Base64 of a part; an image or a sound whole, as a block of its kind."""
    data, media_type = artifact.content, artifact.media_type
    family = media_type.partition("/")[0]
    whole = selector.offset is None and selector.length is None
    if whole and not artifact.is_text and family in ("image", "audio") and len(data) <= LARGEST_MEDIA:
        block = {"type": family, "data": base64.b64encode(data).decode(), "mimeType": media_type}
        return View("", f"{media_type}, {len(data)} bytes", block=block)
    start = selector.offset or 0
    if start > 0 and start >= len(data):
        view_failed(f"there are {len(data)} bytes; {start} is beyond them")
    wanted = min(selector.length or len(data), len(data) - start)

    def render(taken: int) -> View:
        part = data[start : start + taken]
        go_on = None
        if start + taken < len(data):
            go_on = selector.at(offset=start + taken)
        shown = f"bytes {start} to {start + taken} of {len(data)}, base64"
        return View(base64.b64encode(part).decode(), shown, go_on, encoded=True)

    taken = limit.fullest(render, wanted, limit.budget)
    even = taken - taken % 3
    return render(even if even and taken < wanted else taken or min(1, wanted))


def _stats(artifact: Artifact, limit: Limit) -> View:
    """What the artifact is, with all its tokens counted."""
    if not artifact.is_text:
        return View("", f"{artifact.media_type}, {len(artifact.content)} bytes; read with bytes")
    text = artifact.content.decode("utf-8", "replace")
    shape = shape_of(text)
    size = weigh_exactly(text, limit.count)
    what = f"{shape.name}, {artifact.media_type}, {size}"
    table = shape.table
    if table is not None:
        pairs = (f"{name} {kind}" for name, kind in zip(table.columns, table.kinds, strict=True))
        body = f"{table.rows} rows; columns: {', '.join(pairs)}"
    else:
        body = outline(shape.value, limit.count, limit.budget // 2) if shape.kind == "json" else ""
    kept = limit.fullest(lambda n: View(body[:n], what), len(body), len(body)) if body else 0
    return View(body[:kept], what)
