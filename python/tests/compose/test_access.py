"""The sections `auth` and `principals`, made into what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_documents import make_config

from leafgate.compose.policies import make_access, refuse_to_open, requires_token
from leafgate.config.models import Auth
from leafgate.model.errors import ConfigError
from leafgate.model.rights import ANONYMOUS, Principal, Rights, Visibility
from leafgate.server.auth.bearer_tokens import hash_secret, new_token
from leafgate.server.front import Access

pytestmark = pytest.mark.anyio

DIGESTS = {"toy": "sha256:" + "0" * 64}
HASH = "sha256:" + "0f" * 32
JWT = {"issuer": "https://issuer.test", "audience": "gateway", "jwks": Path("jwks.json")}


def access(auth: dict[str, Any] | None = None, **principals: Any) -> Access:
    config = make_config(principals=principals, **({} if auth is None else {"auth": auth}))
    return make_access(config.auth, config.principals, DIGESTS.get, "/mcp")


def auth_section(required: bool) -> Auth:
    return Auth(tokens=[{"name": "ann", "hash": HASH}], required=required)


async def test_without_sections_nobody_is_asked_and_all_have_all() -> None:
    made = access()
    assert made.auth is None
    for who in (None, ANONYMOUS, Principal("ann")):
        assert made.rights_of(who) == Rights()
        assert made.artifact_quota_of(None if who is None else who.name) is None


async def test_tokens() -> None:
    secret = new_token()
    made = access({"tokens": [{"name": "ann", "hash": hash_secret(secret), "scopes": ["browse"]}]}).auth
    assert made is not None
    assert await made.identify(secret) == Principal("ann", frozenset({"browse"}))
    assert made.metadata is None


def test_the_metadata_names_who_issues_tokens() -> None:
    by_issuer = access({"jwt": JWT}).auth
    assert by_issuer is not None
    assert by_issuer.metadata is not None
    assert by_issuer.metadata.authorization_servers == ("https://issuer.test",)
    named = access({"jwt": JWT, "authorization_servers": ["https://as.test"], "resource": "https://gw.test/mcp"}).auth
    assert named is not None
    assert named.metadata is not None
    assert named.metadata.authorization_servers == ("https://as.test",)
    assert named.metadata.resource == "https://gw.test/mcp"


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({"tokens": [{"name": "a\nb", "hash": HASH}]}, r"auth\.tokens\[0\]\.name"),
        ({"tokens": [{"name": "*", "hash": HASH}]}, r"auth\.tokens\[0\]\.name"),
        ({"tokens": [{"hash": HASH}]}, r"auth\.tokens\[0\]: name is missing"),
        ({"tokens": [{"name": "ann", "hash": "lg_a-token-itself"}]}, r"auth\.tokens\[0\]\.hash: needs to be a hash"),
        ({"tokens": [{"name": "ann", "hash": HASH}, {"name": "ann", "hash": HASH}]}, "another token has this name"),
        ({"tokens": [{"name": "ann", "hash": HASH}, {"name": "ben", "hash": HASH}]}, "the same hash"),
        ({"tokens": [{"name": "ann", "hash": HASH, "scopes": []}]}, "would allow nothing"),
        ({"tokens": [{"name": "ann", "hash": HASH, "scopes": ["brwose"]}]}, "would allow nothing"),
        ({"tokens": [{"name": "ann", "hash": HASH}], "scopes": {"look": ["browse"]}}, "would allow nothing"),
        ({"jwt": JWT, "scopes": {"look": ["stare"]}}, r"auth\.scopes\.look"),
        ({"jwt": JWT, "scopes": {"look": "browse"}}, r"auth\.scopes\.look"),
        ({"jwt": {**JWT, "algorithms": ["HS256"]}}, r"auth\.jwt\.algorithms\[0\]: one of RS256"),
        ({"jwt": {**JWT, "algorithms": ["RS256", "none"]}}, r"auth\.jwt\.algorithms\[1\]: one of RS256"),
        ({"jwt": {**JWT, "jwks": "http://issuer.example/jwks"}}, r"auth\.jwt\.jwks"),
    ],
)
def test_a_bad_section_is_told_by_its_key(auth: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        access(auth)
    assert "lg_a-token" not in str(raised.value)


def test_each_has_their_own_and_the_others_share() -> None:
    others = {"tools": {"exclude": ["secret:*"]}, "artifact_quota_mb": 1}
    mine = {"maps": ["toy"], "policy": {"rules": [{"effect": "allow"}]}, "artifact_quota_mb": 2}
    made = access(None, **{"*": others, "ann": mine})
    ann = made.rights_of(Principal("ann"))
    assert (ann.visibility, ann.maps) == (Visibility(), frozenset(DIGESTS.values()))
    assert ann.policy is not None
    for who in (None, ANONYMOUS, Principal("ben")):
        assert made.rights_of(who).visibility == Visibility(exclude=("secret:*",))
        assert made.rights_of(who).policy is None
    assert made.artifact_quota_of("ann") == 2 * 1024 * 1024
    assert made.artifact_quota_of("ben") == made.artifact_quota_of(None) == 1024 * 1024


async def test_limits_are_counted_for_each_of_the_others() -> None:
    made = access(None, **{"*": {"rate_limits": {"tool_browse": {"max_calls_per_minute": 1}}}})
    quotas = made.rights_of(Principal("ann")).quotas
    assert quotas is made.rights_of(Principal("ben")).quotas
    assert quotas is not None
    assert await quotas.take("principal:ann", ["tool_browse"]) is None
    assert await quotas.take("principal:ann", ["tool_browse"]) is not None
    assert await quotas.take("principal:ben", ["tool_browse"]) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"maps": ["no-such-map"]}, r"principals\.ann\.maps"),
        ({"tools": {"include": []}}, r"principals\.ann\.tools\.include"),
        ({"policy": {"rules": [{"effect": "perhaps"}]}}, "effect"),
        ({"rate_limits": {"tool_brows": {}}}, "rate_limits"),
    ],
)
def test_a_bad_entry_is_told(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        access(None, ann=entry)


def test_an_entry_for_nobody_is_refused_where_all_names_are_known() -> None:
    tokens = {"tokens": [{"name": "ann", "hash": HASH}]}
    with pytest.raises(ConfigError, match=r"principals\.anne: no token has this name; did you mean ann\?"):
        access(tokens, anne={}, **{"*": {}})
    assert access(tokens, ann={}, **{"*": {}}).rights.keys() == {"ann", "*"}
    assert access({**tokens, "jwt": JWT}, anne={}).rights.keys() == {"anne"}


@pytest.mark.parametrize(("required", "asks"), [(None, False), (True, True), (False, False)])
def test_whether_every_caller_needs_a_token(required: bool | None, asks: bool) -> None:
    assert requires_token(None if required is None else auth_section(required)) is asks


@pytest.mark.parametrize(
    ("auth", "bound", "insists"),
    [
        (auth_section(False), "127.0.0.1", False),
        (auth_section(False), "0.0.0.0", True),
        (auth_section(True), "0.0.0.0", False),
        (None, "0.0.0.0", False),
    ],
)
def test_what_may_change_while_it_runs(auth: Auth | None, bound: str, insists: bool) -> None:
    refuse_to_open(auth, bound=bound, insecure_bind=insists)


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "192.0.2.1", "gateway.test"])
def test_what_may_not(bound: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.required"):
        refuse_to_open(auth_section(False), bound=bound, insecure_bind=False)
