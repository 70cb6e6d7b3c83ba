"""Who may come in, and what each may have, as the operator configured it. In: `auth` and `principals`. Out: an Access.

Touches nothing yet: files and URLs of keys are read when the first token wants them. A bad section is a ConfigError
that names its key and never repeats a hash.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.admission.capability import policy_of
from leafgate.admission.quota import rate_limits_of
from leafgate.admission.visibility import EVERYTHING, Visibility
from leafgate.gateway.rights import AS_EVERYBODY, Rights
from leafgate.model.errors import ConfigError
from leafgate.model.principal import CAPABILITIES, Principal, is_principal_name
from leafgate.server.auth.bearer_tokens import BearerTokens, TokenEntry, read_hash
from leafgate.server.auth.layer import Auth
from leafgate.server.auth.resource_metadata import ResourceMetadata
from leafgate.server.auth.scope_grants import ScopeGrants
from leafgate.server.auth.verified import Verifier
from leafgate.server.host_guard import is_loopback
from leafgate.storage.memory_state import MemoryState
from leafgate.storage.state import State

OTHERS: Final = "*"
MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Access:
    """Who comes in (None: everybody, unasked), what each may have, and how many bytes of kept results."""

    auth: Auth | None = None
    rights: Mapping[str, Rights] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)

    def rights_of(self, principal: Principal | None) -> Rights:
        """For somebody over HTTP; those without a name, or without an entry of their own, are the others."""
        name = None if principal is None else principal.name
        others = self.rights.get(OTHERS, AS_EVERYBODY)
        return others if name is None else self.rights.get(name, others)

    def artifact_quota_of(self, name: str | None) -> int | None:
        """The bytes that somebody's kept results may take; None: as the store has it."""
        others = self.quotas.get(OTHERS)
        return others if name is None else self.quotas.get(name, others)


def make_access(
    auth: Mapping[str, Any] | None,
    principals: Mapping[str, Mapping[str, Any]],
    digest_of: Callable[[str], str | None],
    path: str,
    counting: State | None = None,
) -> Access:
    """The access that two sections of a configuration describe.

    `digest_of` finds the digest of a map by its name; `path` is the path of the MCP endpoint; `counting` keeps the
    counts of calls.
    """
    counting = counting or MemoryState()
    _check_names(auth, principals)
    megabytes = {name: entry.get("artifact_quota_mb") for name, entry in principals.items()}
    return Access(
        auth=None if auth is None else _auth(auth, path),
        rights={name: _rights(name, entry, digest_of, counting) for name, entry in principals.items()},
        quotas={name: count * MEGABYTE for name, count in megabytes.items() if count is not None},
    )


def asks_everybody(auth: Mapping[str, Any] | None) -> bool:
    """Whether nobody comes in without a token."""
    return auth is not None and auth.get("required", True) is True


def stay_closed(auth: Mapping[str, Any] | None, *, bound: str, insists: bool) -> None:
    """A gateway that others can reach stays one that asks them; for settings that change while it runs.

    Where the section is gone altogether nothing is refused: the last one holds until the next start, which asks again.
    """
    if auth is not None and not asks_everybody(auth) and not insists and not is_loopback(bound):
        raise ConfigError(
            f"auth.required: {bound} can be reached from other machines; only insecure_bind opens it to all"
        )


def _check_names(auth: Mapping[str, Any] | None, principals: Mapping[str, Mapping[str, Any]]) -> None:
    """Where all names are known, a misspelt one would leave somebody with more than was meant for them."""
    if auth is None or auth.get("jwt") is not None:
        return
    known = {OTHERS, *(str(entry.get("name")) for entry in auth.get("tokens", ()))}
    stranger = next((name for name in principals if name not in known), None)
    if stranger is not None:
        raise ConfigError(f"principals.{stranger}: no token has this name{_nearest(stranger, known)}")


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _auth(section: Mapping[str, Any], path: str) -> Auth:
    table = section.get("scopes")
    grants = ScopeGrants(None if table is None else {str(scope): _granted(scope, table[scope]) for scope in table})
    entries = [_token(f"auth.tokens[{place}]", entry, grants) for place, entry in enumerate(section.get("tokens", ()))]
    names = [entry.name for entry in entries]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigError(f"auth.tokens: two tokens are called {repeated}; give each its own name")
    if len({entry.hash for entry in entries}) < len(entries):
        raise ConfigError("auth.tokens: two tokens have the same hash; give each name a token of its own")
    return Auth(
        tokens=BearerTokens(entries),
        jwt=None if section.get("jwt") is None else _jwt(section["jwt"]),
        grants=grants,
        metadata=_metadata(section, grants, path),
        required=section.get("required", True) is True,
    )


def _granted(scope: object, capabilities: object) -> Any:
    if not isinstance(capabilities, Sequence) or not set(capabilities) <= set(CAPABILITIES):
        raise ConfigError(f"auth.scopes.{scope}: a list of {', '.join(CAPABILITIES)}")
    return frozenset(capabilities)


def _token(where: str, entry: Mapping[str, Any], grants: ScopeGrants) -> TokenEntry:
    name, scopes = entry.get("name"), entry.get("scopes")
    if not is_principal_name(name) or name == OTHERS:
        raise ConfigError(f"{where}.name: a name that can be printed, of at most 256 characters")
    allowed = grants.of_token(scopes)
    if not allowed:
        raise ConfigError(f"{where}.scopes: this token would allow nothing; name a scope that auth.scopes grants")
    return TokenEntry(
        str(name), read_hash(str(entry.get("hash")), f"{where}.hash"), None if scopes is None else tuple(scopes)
    )


def _jwt(section: Mapping[str, Any]) -> Verifier:
    from leafgate.cli.jwt_auth import jwt_verifier  # noqa: PLC0415  its libraries are a tenth of the time to start

    return jwt_verifier(section)


def _metadata(section: Mapping[str, Any], grants: ScopeGrants, path: str) -> ResourceMetadata | None:
    """There is something to tell only where tokens can be had from somebody."""
    issuer = (section.get("jwt") or {}).get("issuer")
    servers = section.get("authorization_servers") or ([] if issuer is None else [issuer])
    if not servers:
        return None
    return ResourceMetadata(tuple(servers), tuple(grants.table or ()), section.get("resource"), path)


def _rights(name: str, entry: Mapping[str, Any], digest_of: Callable[[str], str | None], counting: State) -> Rights:
    where = f"principals.{name}"
    tools, policy = entry.get("tools"), entry.get("policy")
    limits, maps = entry.get("rate_limits"), entry.get("maps")
    return Rights(
        visibility=EVERYTHING if tools is None else _visibility(where, tools),
        policy=None if policy is None else policy_of(policy),
        quotas=None if limits is None else counting.quotas(rate_limits_of(limits), where),
        maps=None if maps is None else frozenset(_digest(f"{where}.maps", name, digest_of) for name in maps),
    )


def _visibility(where: str, tools: Mapping[str, Any]) -> Visibility:
    include, exclude = tools.get("include"), tools.get("exclude")
    if include is not None and not include:
        raise ConfigError(f'{where}.tools.include: an empty list would show everything; for nothing, exclude "*"')
    return Visibility(tuple(include or ()), tuple(exclude or ()))


def _digest(where: str, name: str, digest_of: Callable[[str], str | None]) -> str:
    found = digest_of(name)
    if found is None:
        raise ConfigError(f"{where}: {name} is not among the maps that this gateway offers")
    return found
