"""Arguments that came as ids. In: a tool's arguments, and the Encoder of their map. Out: arguments as JSON (spec 6.5).

Touches nothing. `{"_codec_meta": {"map_id", "ids"}}` stands for the JSON object whose text those ids spell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leafgate.model.errors import GatewayError, IdsError
from leafgate.model.leaf import Payload, is_digest, parse_digest
from leafgate.tokens.encoder import Encoder

ARGUMENTS_KEY: Final = "_codec_meta"
MAX_ARGUMENT_IDS: Final = 1 << 18
# As much as may come as JSON. A token spells up to 128 bytes, so a small list of ids may stand for a large text.
MAX_ARGUMENT_BYTES: Final = 4 << 20


def claimed_arguments(args: Mapping[str, Any]) -> Payload | None:
    """The payload in these arguments, not yet judged; None where they are plain."""
    if ARGUMENTS_KEY not in args:
        return None
    found = args[ARGUMENTS_KEY]
    if len(args) > 1:
        raise _bad(f"{ARGUMENTS_KEY} stands for all arguments; there is no room for others beside it")
    if not isinstance(found, Mapping) or not is_digest(found.get("map_id")):
        raise _bad(f"{ARGUMENTS_KEY} is an object with map_id, sha256: and 64 hex digits, and ids")
    ids = found.get("ids")
    if not isinstance(ids, Sequence) or isinstance(ids, str | bytes):
        raise _bad(f"the ids of {ARGUMENTS_KEY} are an array")
    if len(ids) > MAX_ARGUMENT_IDS:
        raise _bad(f"{ARGUMENTS_KEY} holds more than {MAX_ARGUMENT_IDS} ids")
    return Payload(parse_digest(found["map_id"]), ids)


def decode_arguments(payload: Payload, encoder: Encoder) -> dict[str, Any]:
    """The object that the ids spell. Control ids and ids of no token are refused, as in a leaf."""
    if any(type(id) is bool for id in payload.ids):  # else true would be read as 1
        raise _bad(f"the ids of {ARGUMENTS_KEY} cannot be decoded: not-integer")
    try:
        spelled = encoder.decode_bytes(payload.ids)
    except IdsError as error:
        raise _bad(f"the ids of {ARGUMENTS_KEY} cannot be decoded: {error.reason}") from None
    if len(spelled) > MAX_ARGUMENT_BYTES:
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell more than {MAX_ARGUMENT_BYTES} bytes")
    try:
        text = spelled.decode()
    except UnicodeDecodeError:
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell no UTF-8") from None
    try:
        decoded = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell no JSON") from None
    if not isinstance(decoded, dict):
        raise _bad(f"the ids of {ARGUMENTS_KEY} spell JSON that is no object")
    if ARGUMENTS_KEY in decoded:
        raise _bad(f"{ARGUMENTS_KEY} inside {ARGUMENTS_KEY}")
    return decoded


def _bad(message: str) -> GatewayError:
    return GatewayError("ARGS_INVALID", message, path=ARGUMENTS_KEY)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
