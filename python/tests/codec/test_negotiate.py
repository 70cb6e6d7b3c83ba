from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.codec.negotiate import (
    ACCEPT_META_KEY,
    ARGUMENTS_KEY,
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENT_IDS,
    decode_arguments,
    negotiate,
    read_argument_ids,
    wants_packed,
)
from leafgate.model.errors import GatewayError
from leafgate.model.leaf import LeafPayload
from leafgate.tokens.encoder import Encoder

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_without_a_wish_the_default_counts() -> None:
    assert negotiate(None, None, A, {A}) == (A, "both")
    assert negotiate({}, None, None, {A}) == (None, "both")


def test_the_request_comes_before_the_header_and_the_default() -> None:
    assert negotiate({ACCEPT_META_KEY: {"map_id": B, "form": "ids"}}, A, A, {A, B}) == (B, "ids")
    assert negotiate({}, B, A, {A, B}) == (B, "both")


@pytest.mark.parametrize(
    "header",
    [
        A,
        "a" * 64,
        A.upper().replace("SHA256", "sha256"),
        f"https://x.example/m;sha256={'a' * 64}",
        f"https://x.example/m;v=2/n.json; sha256={'A' * 64}",
        f"https://x.example/m;SHA256=sha256:{'a' * 64}",
    ],
)
def test_the_header_has_two_forms(header: str) -> None:
    assert negotiate(None, header, None, {A}) == (A, "both")


@pytest.mark.parametrize(
    ("wish", "expected", "packed"),
    [
        ({"maps": [B, A], "form": "packed"}, (A, "both"), True),
        ({"maps": [A], "form": "ids"}, (A, "both"), False),
        ({"maps": [A], "form": "none"}, (None, "text"), False),
        ({"maps": [B], "form": "packed"}, (None, "text"), True),
        ({"map_id": A, "form": "ids", "packed": True}, (A, "ids"), True),
        ({"packed": True}, (A, "both"), True),
    ],
)
def test_a_gateway_is_asked_as_a_server_is(wish: dict[str, Any], expected: tuple[str, str], packed: bool) -> None:
    assert negotiate({ACCEPT_META_KEY: wish}, None, A, {A}) == expected
    assert wants_packed({ACCEPT_META_KEY: wish}) is packed


def test_text_means_no_ids() -> None:
    assert negotiate({ACCEPT_META_KEY: {"form": "text"}}, None, A, {A}) == (None, "text")


def test_a_form_alone_keeps_the_default_map() -> None:
    assert negotiate({ACCEPT_META_KEY: {"form": "ids"}}, None, A, {A}) == (A, "ids")


def test_a_form_alone_goes_with_the_map_of_the_header() -> None:
    assert negotiate({ACCEPT_META_KEY: {"form": "ids"}}, B, A, {A, B}) == (B, "ids")
    assert negotiate({ACCEPT_META_KEY: {}}, B, None, {A, B}) == (B, "both")
    assert negotiate({ACCEPT_META_KEY: {"form": "text"}}, B, A, {A, B}) == (None, "text")
    with pytest.raises(GatewayError):
        negotiate({ACCEPT_META_KEY: {"form": "ids"}}, "no digest", A, {A})


@pytest.mark.parametrize(
    ("meta", "header"),
    [
        ({ACCEPT_META_KEY: "yes"}, None),
        ({ACCEPT_META_KEY: {"form": "all"}}, None),
        ({ACCEPT_META_KEY: {"map_id": 5}}, None),
        ({ACCEPT_META_KEY: {"packed": "yes"}}, None),
        ({ACCEPT_META_KEY: {"map_id": "https://evil.example/map.json"}}, None),
        ({ACCEPT_META_KEY: {"map_id": B}}, None),
        (None, "https://evil.example/map.json"),
        (None, B),
    ],
)
def test_what_is_not_offered_is_refused(meta: dict | None, header: str | None) -> None:
    with pytest.raises(GatewayError) as raised:
        negotiate(meta, header, A, {A})
    assert raised.value.code == "ARGS_INVALID"


def as_ids(encoder: Encoder, text: str) -> dict[str, Any]:
    return {ARGUMENTS_KEY: {"map_id": encoder.map.digest, "ids": encoder.encode(text)}}


def decoded(encoder: Encoder, text: str) -> dict[str, Any]:
    payload = read_argument_ids(as_ids(encoder, text))
    assert payload is not None
    return decode_arguments(payload, encoder)


def test_plain_arguments_claim_nothing() -> None:
    assert read_argument_ids({}) is None
    assert read_argument_ids({"query": "the cat", "meta": 1}) is None


def test_the_object_that_the_ids_spell(toy: Encoder) -> None:
    assert decoded(toy, '{"query": "the cat", "n": [1, 2.5, null]}') == {"query": "the cat", "n": [1, 2.5, None]}


def test_hashes_in_any_accepted_spelling(toy: Encoder) -> None:
    bare = toy.map.digest.removeprefix("sha256:").upper()
    found = read_argument_ids({ARGUMENTS_KEY: {"map_id": bare, "ids": [1]}})
    assert found == LeafPayload(toy.map.digest, [1])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "object"),
        ("ids", "object"),
        ([1, 2], "object"),
        ({"ids": [1]}, "map_id"),
        ({"map_id": "sha256:12", "ids": [1]}, "map_id"),
        ({"map_id": "https://evil.example/map.json", "ids": [1]}, "map_id"),
        ({"map_id": "a" * 64}, "array"),
        ({"map_id": "a" * 64, "ids": "12"}, "array"),
        ({"map_id": "a" * 64, "ids": [0] * (MAX_ARGUMENT_IDS + 1)}, "more than"),
    ],
)
def test_what_is_no_payload_is_refused(value: Any, told: str) -> None:
    with pytest.raises(GatewayError, match=told) as refused:
        read_argument_ids({ARGUMENTS_KEY: value})
    assert refused.value.body.error == "ARGS_INVALID"


def test_nothing_stands_beside_it(toy: Encoder) -> None:
    with pytest.raises(GatewayError, match="beside"):
        read_argument_ids({**as_ids(toy, "{}"), "query": "x"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not spell JSON"),
        ("{", "not spell JSON"),
        ("[1]", "not an object"),
        ('"text"', "not an object"),
        ('{"n": NaN}', "not spell JSON"),
        ("[" * 100_000, "not spell JSON"),
        ('{"_codec_meta": {}}', "inside"),
    ],
)
def test_what_spells_no_object_is_refused(toy: Encoder, text: str, told: str) -> None:
    with pytest.raises(GatewayError, match=told):
        decoded(toy, text)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["1"], "not-integer"),
        ([1.5], "not-integer"),
        ([None], "not-integer"),
        ([True], "not-integer"),
        ([123, False, 125], "not-integer"),
        ([-1], "negative"),
        ([2**40], "too-large"),
        ([99_999], "unknown-id"),
        ([0xC3], "not spell UTF-8"),
    ],
)
def test_ids_that_cannot_be_decoded(toy: Encoder, ids: list[Any], told: str) -> None:
    with pytest.raises(GatewayError, match=told):
        decode_arguments(LeafPayload(toy.map.digest, ids), toy)


def test_control_ids_are_refused(toy: Encoder) -> None:
    special = next(iter(toy.map.special_ids))
    with pytest.raises(GatewayError, match="special-id"):
        decode_arguments(LeafPayload(toy.map.digest, [special]), toy)


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key != ARGUMENTS_KEY), st.integers() | st.text()))
def test_any_object_comes_back(qwen: Encoder, value: dict[str, Any]) -> None:
    assert decoded(qwen, json.dumps(value)) == value


def test_booleans_are_no_ids_though_they_would_spell_json(qwen: Encoder) -> None:
    spelled = [next(id for id, token in qwen.map.token_of_id.items() if token == bytes([byte])) for byte in b'{"a":1}']
    assert decode_arguments(LeafPayload(qwen.map.digest, spelled), qwen) == {"a": 1}
    assert 1 in spelled
    with pytest.raises(GatewayError, match="not-integer"):
        decode_arguments(LeafPayload(qwen.map.digest, [id == 1 or id for id in spelled]), qwen)


def test_few_ids_do_not_stand_for_a_huge_text(qwen: Encoder) -> None:
    blank = max((token for token in qwen.map.token_of_id.values() if not token.strip(b" ")), key=len)
    (longest,) = qwen.encode(blank.decode())
    ids = [*qwen.encode('{"a": 1'), *[longest] * (MAX_ARGUMENT_BYTES // len(blank)), *qwen.encode("}")]
    assert len(ids) < MAX_ARGUMENT_IDS
    with pytest.raises(GatewayError, match="spell more than"):
        decode_arguments(LeafPayload(qwen.map.digest, ids), qwen)
