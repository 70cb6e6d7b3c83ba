"""Views: show the part of an artifact that a client's selector names.

A selector is foreign input: the result is always a page within the budget, or VIEW_FAILED. An artifact was cleaned
before it was stored, or is now, and a page of it is cleaned again: cutting and unquoting can expose what was not
visible before.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Any, Final

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.result import CleaningTimeout
from leafgate.digest.outline import largest_part, outline
from leafgate.digest.read_json import read_json, read_rows, resolve
from leafgate.digest.read_lines import PageLimit, View, find_text, read_lines
from leafgate.digest.selectors import Selector, parse_selector, view_failed
from leafgate.digest.shapes import detect_shape
from leafgate.digest.size import Count, total, weigh_exactly
from leafgate.digest.tables import Table, detect_dialect, json_lines, read_delimited, table_of_objects
from leafgate.model.envelope import Artifact

LARGEST_MEDIA: Final = 5 * 1024 * 1024  # bytes of an image or a sound that is shown whole
LARGEST_PARSED: Final = 32 * 1024 * 1024  # bytes of a text that is parsed for json and rows


@dataclass(frozen=True)
class ViewContent:
    """What a model reads: a text, and a block before it if the artifact is an image or a sound."""

    text: str
    block: dict[str, Any] | None = None


def show(raw_selector: object, artifact: Artifact, cleaner: Cleaner, count: Count, budget: int) -> ViewContent:
    """Return the page that a selector names, or raise VIEW_FAILED."""
    limit = PageLimit(total(count), cleaner, budget)
    selector = parse_selector(raw_selector)
    if limit.count(json.dumps(selector.as_json(), ensure_ascii=False)) > budget // 3:
        view_failed("this selector is too long")
    view = _view(selector, artifact if artifact.is_clean else _clean(artifact, cleaner), limit)
    return ViewContent(limit.finish(view), None if view.block is None else dict(view.block))


def _clean(artifact: Artifact, cleaner: Cleaner) -> Artifact:
    """The artifact, cleaned as a whole: in a part of a text, half a secret is not recognised."""
    try:
        text = cleaner(artifact.content.decode("utf-8", "replace"))
    except CleaningTimeout as error:
        view_failed(f"this text is not shown: {error}, the limit of this gateway")
    return replace(artifact, content=text.encode("utf-8", "replace"), is_clean=True)


def _view(selector: Selector, artifact: Artifact, limit: PageLimit) -> View:
    data = artifact.content
    if selector.type == "bytes":
        return _bytes(selector, artifact, limit)
    if selector.type == "stats":
        return _stats(artifact, limit)
    if not artifact.is_text:
        view_failed(f"this is {artifact.media_type}, {len(data)} bytes, and not a text: read it with bytes")
    if selector.type in ("json", "rows"):
        if len(data) > LARGEST_PARSED:
            view_failed(f"these are {len(data)} bytes, too many to parse: read them with lines or search")
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        if selector.type == "json":
            return read_json(selector, _parsed(text), limit)
        return read_rows(selector, _table(selector, text, limit), limit)
    read = find_text if selector.type == "search" else read_lines
    return read(selector, data, limit)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        view_failed("this JSON is nested too deeply to parse; read it with lines")
    except ValueError:
        view_failed(f"this is {detect_shape(text).name}, not JSON; read it with lines, rows or search")


def _table(selector: Selector, text: str, limit: PageLimit) -> Table:
    if json_lines(text) is not None:
        return table_of_objects([_parse_line(line) for line in text.split("\n") if line.strip()])
    if text[:64].lstrip()[:1] in ("[", "{"):
        value = _parsed(text)
        pointer = largest_part(value) if selector.pointer is None else selector.pointer
        for step in resolve(value, pointer, limit.cleaner):
            value = value[step]
        if isinstance(value, dict):
            value = [{"key": key, "value": inner} for key, inner in value.items()]
        if isinstance(value, list):
            return table_of_objects(value)
    dialect = detect_dialect(text)
    if dialect is None:
        view_failed(f"this is {detect_shape(text).name}, and not a table; read it with lines or search")
    return read_delimited(text, dialect)


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def _bytes(selector: Selector, artifact: Artifact, limit: PageLimit) -> View:
    """Show a part as base64, or a whole image or sound as a block of its kind."""
    data, media_type = artifact.content, artifact.media_type
    family = media_type.partition("/")[0]
    whole = selector.offset is None and selector.length is None
    if whole and not artifact.is_text and family in ("image", "audio") and len(data) <= LARGEST_MEDIA:
        block = {"type": family, "data": base64.b64encode(data).decode(), "mimeType": media_type}
        return View("", f"{media_type}, {len(data)} bytes", block=block)
    start = selector.offset or 0
    if start > 0 and start >= len(data):
        view_failed(f"there are {len(data)} bytes; {start} is beyond them")
    available = min(selector.length or len(data), len(data) - start)

    def render(size: int) -> View:
        part = data[start : start + size]
        following = replace(selector, offset=start + size) if start + size < len(data) else None
        position = f"bytes {start} to {start + size} of {len(data)}, base64"
        return View(base64.b64encode(part).decode(), position, following, encoded=True)

    size = limit.max_units(render, available, limit.budget)
    even = size - size % 3
    return render(even if even and size < available else size or min(1, available))


def _stats(artifact: Artifact, limit: PageLimit) -> View:
    """Show what the artifact is, with all its tokens counted."""
    if not artifact.is_text:
        return View("", f"{artifact.media_type}, {len(artifact.content)} bytes; read with bytes")
    text = artifact.content.decode("utf-8", "replace")
    shape = detect_shape(text)
    what = f"{shape.name}, {artifact.media_type}, {weigh_exactly(text, limit.count)}"
    if (table := shape.table) is not None:
        pairs = (f"{name} {kind}" for name, kind in zip(table.columns, table.kinds, strict=True))
        body = f"{table.rows} rows; columns: {', '.join(pairs)}"
    else:
        body = outline(shape.value, limit.count, limit.budget // 2) if shape.kind == "json" else ""
    size_on_page = limit.max_units(lambda n: View(body[:n], what), len(body), len(body)) if body else 0
    return View(body[:size_on_page], what)
