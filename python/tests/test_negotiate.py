import pytest

from leafgate.codec.negotiate import ACCEPT_META_KEY, negotiate
from leafgate.model.errors import GatewayError

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
