"""Which map a client wants its ids in. In: what the request says. Out: a digest and a form. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

from leafgate.model.call import Form
from leafgate.model.errors import GatewayError
from leafgate.model.leaf import is_digest, parse_digest

ACCEPT_META_KEY: Final = "ai.codec/accept"
MAP_HEADER: Final = "x-codec-map"
FORMS: Final[tuple[Form, ...]] = get_args(Form)

# The header has two forms in the wild: the digest alone, and a URL with it, each in any of a digest's spellings. The
# URL, which may hold a semicolon of its own, is never looked at.
_URL_FORM = re.compile(r".*;\s*sha256=([^;\s]*)", re.IGNORECASE)


def negotiate(
    meta: Mapping[str, Any] | None, header: str | None, default: str | None, offered: Collection[str]
) -> tuple[str | None, Form]:
    """The request's own wish first, then the header, then the configured default, else no ids.

    A wish that names a form and no map leaves the map to those that come after it.
    """
    wish = meta.get(ACCEPT_META_KEY) if meta else None
    named, form = (None, "both") if wish is None else _read_wish(wish)
    if form == "text":
        return None, form
    if named is not None:
        return offered_map(named, offered), form
    return offered_map(_from_header(header), offered) if header else default, form


def _read_wish(wish: object) -> tuple[object, Form]:
    if not isinstance(wish, Mapping):
        raise GatewayError("ARGS_INVALID", f"{ACCEPT_META_KEY} is an object with map_id and form")
    form = wish.get("form", "both")
    if form not in FORMS:
        raise GatewayError("ARGS_INVALID", f"the form of {ACCEPT_META_KEY} is one of {', '.join(FORMS)}")
    return wish.get("map_id"), form


def _from_header(header: str) -> str:
    in_url = _URL_FORM.fullmatch(header.strip())
    return in_url.group(1) if in_url else header.strip()


def offered_map(named: object, offered: Collection[str]) -> str:
    """The digest of a map that a client named, or ARGS_INVALID."""
    if not is_digest(named):
        raise GatewayError("ARGS_INVALID", "a map is named by its digest, sha256: and 64 hex digits")
    digest = parse_digest(named)
    if digest not in offered:
        raise GatewayError("ARGS_INVALID", f"this gateway has no map {digest}")
    return digest
