"""What is negotiated: the map and form of the ids that a client wants of the gateway, and the gateway of a server; and
arguments that a client sends as ids."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from leafgate.model.errors import GatewayError, IdsError
from leafgate.model.leaf import LeafPayload, is_digest, parse_digest
from leafgate.model.request import Form
from leafgate.tokens.encoder import Encoder

ACCEPT_META_KEY: Final = "ai.codec/accept"
MAP_HEADER: Final = "x-codec-map"
FORMS: Final[tuple[Form, ...]] = get_args(Form)

# The extension that servers declare who follow a wish (spec 6.7).
LEAF_EXTENSION: Final = "ai.codec/leaf-tokenization"
WishForm = Literal["none", "ids", "packed"]
WISH_FORMS: Final[tuple[WishForm, ...]] = get_args(WishForm)
MAX_WISHES: Final = 64

ARGUMENTS_KEY: Final = "_codec_meta"
MAX_ARGUMENT_IDS: Final = 1 << 18
# The limit of arguments in JSON. A token spells up to 128 bytes, so a short list of ids can spell a long text.
MAX_ARGUMENT_BYTES: Final = 4 << 20

# Clients send the header in two forms: the digest alone, and a URL with the digest, in any spelling. The URL,
# which may contain semicolons, is not used.
_URL_FORM = re.compile(r".*;\s*sha256=([^;\s]*)", re.IGNORECASE)


def negotiate(
    meta: Mapping[str, Any] | None, header: str | None, default: str | None, maps: Collection[str]
) -> tuple[str | None, Form]:
    """Return the digest of the map, or None for no ids, and the form.

    The request's `_meta` comes first, then the header, then the configured default. A `_meta` that has a form and no
    map leaves the map to the header and the default. A gateway in front of this one asks as it asks any server.
    """
    wish = read_wish(meta)
    if wish is not None:
        known = next((digest for digest in wish.maps if digest in maps), None)
        return (None, "text") if wish.form == "none" or known is None else (known, "both")
    accept = meta.get(ACCEPT_META_KEY) if meta else None
    map_id, form = (None, "both") if accept is None else _read_accept(accept)
    if form == "text":
        return None, form
    if map_id is not None:
        return check_map_id(map_id, maps), form
    return check_map_id(_from_header(header), maps) if header else default, form


def _read_accept(accept: object) -> tuple[object, Form]:
    if not isinstance(accept, Mapping):
        raise GatewayError("ARGS_INVALID", f"{ACCEPT_META_KEY} is an object with map_id and form")
    form = accept.get("form", "both")
    if form not in FORMS:
        raise GatewayError("ARGS_INVALID", f"the form of {ACCEPT_META_KEY} is one of {', '.join(FORMS)}")
    if not isinstance(accept.get("packed", False), bool):
        raise GatewayError("ARGS_INVALID", f"packed of {ACCEPT_META_KEY} is true or false")
    return accept.get("map_id"), form


def wants_packed(meta: Mapping[str, Any] | None) -> bool:
    """Whether the ids of an answer are packed, where it has any. The rest of the wish is valid."""
    wish = read_wish(meta)
    if wish is not None:
        return wish.form == "packed"
    accept = meta.get(ACCEPT_META_KEY) if meta else None
    return isinstance(accept, Mapping) and accept.get("packed") is True


@dataclass(frozen=True)
class IdsWish:
    """What a server is asked for: ids of the first of these maps that it has, in this form."""

    maps: tuple[str, ...]
    form: WishForm

    def as_json(self) -> dict[str, Any]:
        return {"maps": [*self.maps], "form": self.form}


def read_wish(meta: Mapping[str, Any] | None) -> IdsWish | None:
    """The wish in the `_meta` of a call; None if there is none, or none that can be understood."""
    accept = meta.get(ACCEPT_META_KEY) if isinstance(meta, Mapping) else None
    if not isinstance(accept, Mapping) or not isinstance(accept.get("maps"), list):
        return None
    form = accept.get("form", "ids")
    if form not in WISH_FORMS:
        return None
    digests = [parse_digest(map_id) for map_id in accept["maps"][:MAX_WISHES] if is_digest(map_id)]
    return IdsWish(tuple(digests), form)


def _from_header(header: str) -> str:
    in_url = _URL_FORM.fullmatch(header.strip())
    return in_url.group(1) if in_url else header.strip()


def check_map_id(map_id: object, maps: Collection[str]) -> str:
    """Return the digest of a client's map, or raise ARGS_INVALID if it is not one of these maps."""
    if not is_digest(map_id):
        raise GatewayError("ARGS_INVALID", "a map is named by its digest, sha256: and 64 hex digits")
    digest = parse_digest(map_id)
    if digest not in maps:
        raise GatewayError("ARGS_INVALID", f"this gateway has no map {digest}")
    return digest


# Arguments as ids (spec 6.5): `{"_codec_meta": {"map_id", "ids"}}` means the JSON object whose text the ids spell.


def read_argument_ids(args: Mapping[str, Any]) -> LeafPayload | None:
    """Return the payload in these arguments, with unverified ids, or None if they are plain."""
    if ARGUMENTS_KEY not in args:
        return None
    payload = args[ARGUMENTS_KEY]
    if len(args) > 1:
        raise _bad(f"{ARGUMENTS_KEY} stands for all arguments; other arguments beside it are not allowed")
    if not isinstance(payload, Mapping) or not is_digest(payload.get("map_id")):
        raise _bad(f"{ARGUMENTS_KEY} is an object with map_id, sha256: and 64 hex digits, and ids")
    ids = payload.get("ids")
    if not isinstance(ids, Sequence) or isinstance(ids, str | bytes):
        raise _bad(f"the ids of {ARGUMENTS_KEY} are an array")
    if len(ids) > MAX_ARGUMENT_IDS:
        raise _bad(f"{ARGUMENTS_KEY} holds more than {MAX_ARGUMENT_IDS} ids")
    return LeafPayload(parse_digest(payload["map_id"]), ids)


def decode_arguments(payload: LeafPayload, encoder: Encoder) -> dict[str, Any]:
    """Return the object that the ids spell. Control ids and unknown ids are refused, as in a leaf."""
    if any(type(id) is bool for id in payload.ids):  # True would decode like 1
        raise _bad(f"the ids of {ARGUMENTS_KEY} cannot be decoded: not-integer")
    try:
        raw = encoder.decode_bytes(payload.ids)
    except IdsError as error:
        raise _bad(f"the ids of {ARGUMENTS_KEY} cannot be decoded: {error.reason}") from None
    if len(raw) > MAX_ARGUMENT_BYTES:
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell more than {MAX_ARGUMENT_BYTES} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise _bad(f"the ids of {ARGUMENTS_KEY} do not spell UTF-8") from None
    try:
        decoded = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _bad(f"the ids of {ARGUMENTS_KEY} do not spell JSON") from None
    if not isinstance(decoded, dict):
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell JSON that is not an object")
    if ARGUMENTS_KEY in decoded:
        raise _bad(f"{ARGUMENTS_KEY} inside {ARGUMENTS_KEY}")
    return decoded


def _bad(message: str) -> GatewayError:
    return GatewayError("ARGS_INVALID", message, path=ARGUMENTS_KEY)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
