"""The private names of libraries that the server uses: this fails when a new version of a library lacks one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import leafgate.server

ROOM = Path(leafgate.server.__file__).parent


def test_uvicorns_protocols_have_these_parts() -> None:
    assert [*inspect.signature(HttpToolsProtocol._start_asgi_task).parameters] == ["self", "cycle", "app"]
    for name in ("on_message_begin", "on_headers_complete", "on_message_complete", "pause_writing", "resume_writing"):
        assert callable(getattr(HttpToolsProtocol, name)), name
    assert callable(H11Protocol.handle_events)


def test_private_names_of_libraries_are_used_in_one_file_each() -> None:
    """An attribute that begins with an underscore and belongs neither to `self` nor to `cls` is another object's."""
    attribute = r"(?<!\w)(?!self\b|cls\b)[a-z]\w*(?:\.[a-z]\w*)*\._[a-z]\w*|super\(\)\._[a-z]\w*"
    module = r"^(?:from|import) [\w.]*\._\w+"
    foreign = re.compile(f"{attribute}|{module}", re.MULTILINE)
    users = {path.name for path in ROOM.rglob("*.py") if foreign.search(path.read_text(encoding="utf-8"))}
    assert users <= {"http.py"}
