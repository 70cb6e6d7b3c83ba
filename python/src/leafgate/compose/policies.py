"""Turns sections of a configuration into the values that the rooms work with.

Policies, limits, cleaners, settings; and who may call, and what each principal may have: `auth` and `principals`. A bad
section raises a ConfigError that names its key and never repeats a hash.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from leafgate.admission.flows import FlowPolicy, FlowRule
from leafgate.admission.policy import CachePolicy, Limit, RateLimits
from leafgate.admission.retry import BreakerPolicy, RetryPolicy
from leafgate.clean.cleaner import Cleaner
from leafgate.clean.redact import RedactPolicy
from leafgate.clean.sanitize import SanitizePolicy
from leafgate.clean.secrets import DEFAULT_PATTERNS, SecretPattern
from leafgate.config import models
from leafgate.gateway.approval import ApprovalSettings
from leafgate.gateway.dispatch import Breakers, Dispatcher
from leafgate.gateway.execute import Controls
from leafgate.gateway.flows import Flows
from leafgate.meaning import Embedder
from leafgate.model.errors import ConfigError
from leafgate.model.rights import CapabilityPolicy, Rights, Rule, Visibility
from leafgate.model.tool import ALL_META_TOOLS
from leafgate.server.auth.bearer_tokens import BearerTokens, TokenEntry, read_hash
from leafgate.server.auth.capabilities import ScopeGrants
from leafgate.server.auth.layer import Auth, ResourceMetadata
from leafgate.server.front import OTHERS, Access
from leafgate.server.host_guard import is_loopback
from leafgate.state.memory import MemoryState
from leafgate.state.records import CacheBounds, State
from leafgate.state.routing import HttpEmbedder, MiniLmEmbedder

MEGABYTE: Final = 1024 * 1024


def make_controls(config: models.Config, state: State | None = None, counting: State | None = None) -> Controls:
    """The controls of a call; one without a section is off. `counting` stores counts of calls, `state` the rest."""
    state = state or MemoryState()
    counting = counting or state
    limits, cache, breaker = config.rate_limits, config.cache, config.breaker
    return Controls(
        policy=None if config.policy is None or config.policy.rules is None else make_policy(config.policy.rules),
        flows=_make_flows(config, state),
        tolerant_args=config.tolerant_args,
        strict_output=config.strict_output,
        quotas=None if limits is None else counting.quotas(make_rate_limits(limits), ""),
        cache=None if cache is None else state.results(CacheBounds(cache.ttl, cache.max_entries, cache.max_bytes)),
        cache_policy=CachePolicy() if cache is None else CachePolicy(cache.read_only, cache.allow),
        dispatcher=Dispatcher(
            retry=RetryPolicy() if config.retry is None else make_retry_policy(config.retry),
            breakers=None if breaker is None else Breakers(BreakerPolicy(breaker.failures, breaker.open_seconds)),
        ),
    )


def make_approvals(config: models.Config, state: State, clean: Cleaner, *, is_local: bool) -> ApprovalSettings:
    """How calls are approved.

    Operators answer over HTTP, at this gateway or at one with the same store. A gateway that other machines can reach
    without a token has no operators: every caller could answer as one.
    """
    is_served = config.transport in ("http", "sse")
    is_guarded = config.auth is not None or is_local
    has_operators = is_guarded if is_served else config.state not in ("auto", "memory")
    section = config.approvals
    return ApprovalSettings(section.by, section.wait_seconds, state.approvals(), has_operators, clean)


def make_policy(rules: Sequence[models.PolicyRule]) -> CapabilityPolicy:
    made = (Rule(rule.effect, rule.namespace, rule.tool, rule.tags or (), rule.principal) for rule in rules)
    return CapabilityPolicy(tuple(made))


def _make_flows(config: models.Config, state: State) -> Flows | None:
    """The flow rules; None without any, and then nothing is remembered."""
    sections = () if config.policy is None else config.policy.flows
    rules = (
        FlowRule(
            each.source.server, each.to.server, each.effect, each.source.kind, each.to.side_effects, each.principal
        )
        for each in sections
    )
    return Flows(FlowPolicy(tuple(rules)), state.flows(), make_redact_policy(config.redact)) if sections else None


def make_rate_limits(limits: models.RateLimits) -> RateLimits:
    by_meta_tool = {name: getattr(limits, name) for name in ALL_META_TOOLS}
    return RateLimits(
        {name: _limit(limit) for name, limit in by_meta_tool.items() if limit is not None},
        {glob: _limit(limit) for glob, limit in (limits.tools or {}).items()},
    )


def _limit(limit: models.CallLimit) -> Limit:
    return Limit(limit.max_calls_per_minute, limit.max_calls_per_session)


def make_retry_policy(retry: models.Retry) -> RetryPolicy:
    codes = frozenset(retry.retryable_codes)
    return RetryPolicy(retry.max_attempts, retry.base_delay, retry.max_delay, retry.jitter, codes)


def make_cleaners(config: models.Config) -> tuple[Cleaner, Mapping[str, Cleaner]]:
    """Return the cleaner for all foreign text, and those of servers that have a `sanitize` section."""
    redact = make_redact_policy(config.redact)
    sections = config.sanitize_by_server.items()
    by_server = {server: Cleaner(make_sanitize_policy(section), redact) for server, section in sections}
    return Cleaner(make_sanitize_policy(config.sanitize), redact), by_server


def make_sanitize_policy(section: models.Sanitize | None) -> SanitizePolicy:
    return SanitizePolicy() if section is None else SanitizePolicy(**dict(section))


def make_redact_policy(section: models.Redact | None) -> RedactPolicy:
    if section is None:
        return RedactPolicy()
    for place, pattern in enumerate(section.patterns):
        try:
            re.compile(pattern.regex.encode())
        except (re.error, UnicodeEncodeError) as error:  # a Config that a program wrote
            raise ConfigError(f"redact.patterns[{place}].regex: {error}") from None
    own = (SecretPattern(pattern.type, (pattern.start,), pattern.regex) for pattern in section.patterns)
    return RedactPolicy(patterns=(*DEFAULT_PATTERNS, *own), allow=section.allow)


def make_embedder(section: models.EmbedderSettings | None) -> Embedder | None:
    """Return the embedder for routing; None means the bundled model."""
    if section is None:
        return None
    if section.kind == "minilm":
        return MiniLmEmbedder(section.path or "")
    if section.url is None:
        raise ConfigError("embedder: kind http needs a url")
    return HttpEmbedder(section.url, model=section.model or "", headers=section.headers)


# Who may call, and what each principal may have


def make_access(
    auth: models.Auth | None,
    principals: Mapping[str, models.PrincipalSettings],
    digest_of: Callable[[str], str | None],
    path: str,
    counting: State | None = None,
) -> Access:
    """Return the access that two sections of a configuration describe.

    `digest_of` finds the digest of a map by its name; `path` is the path of the MCP endpoint; `counting` stores the
    counts of calls.
    """
    counting = counting or MemoryState()
    if auth is not None and auth.jwt is None:
        _check_names(auth, principals)
    megabytes = {name: entry.artifact_quota_mb for name, entry in principals.items()}
    return Access(
        auth=None if auth is None else _make_auth(auth, path),
        rights={name: _make_rights(name, entry, digest_of, counting) for name, entry in principals.items()},
        quotas={name: count * MEGABYTE for name, count in megabytes.items() if count is not None},
    )


def requires_token(auth: models.Auth | None) -> bool:
    """Whether every caller needs a token."""
    return auth is not None and auth.required


def refuse_to_open(auth: models.Auth | None, *, bound: str, insecure_bind: bool) -> None:
    """Raise ConfigError if a change of settings would open a gateway that other machines can reach.

    If the section was removed, nothing is refused: the previous one stays in effect until the next start, which
    checks again.
    """
    if auth is not None and not auth.required and not insecure_bind and not is_loopback(bound):
        raise ConfigError(
            f"auth.required: {bound} can be reached from other machines; only insecure_bind opens it to all"
        )


def _check_names(auth: models.Auth, principals: Mapping[str, models.PrincipalSettings]) -> None:
    """Refuse names without a token: a misspelt one would leave a principal without its restrictions."""
    names = {OTHERS, *(token.name for token in auth.tokens)}
    for stranger in principals:
        if stranger not in names:
            near = difflib.get_close_matches(stranger, sorted(names), n=1)
            suggestion = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"principals.{stranger}: no token has this name{suggestion}")


def _make_auth(section: models.Auth, path: str) -> Auth:
    scopes, jwt = section.scopes, section.jwt
    grants = ScopeGrants(None if scopes is None else {name: frozenset(granted) for name, granted in scopes.items()})
    entries: list[TokenEntry] = []
    for place, token in enumerate(section.tokens):
        where = f"auth.tokens[{place}]"
        if not grants.grant_token(token.scopes):
            raise ConfigError(f"{where}.scopes: this token would allow nothing; name a scope that auth.scopes grants")
        entries.append(TokenEntry(token.name, read_hash(token.hash, f"{where}.hash"), token.scopes))
    if len({entry.hash for entry in entries}) < len(entries):
        raise ConfigError("auth.tokens: two tokens have the same hash; give each name its own token")
    verifier = None
    if jwt is not None:
        # The libraries for JWTs are a tenth of the time to start.
        from leafgate.server.auth.jwt_verifier import JwtRules, JwtVerifier, keys_of_file, keys_of_url  # noqa: PLC0415

        rules = JwtRules(jwt.issuer, jwt.audience, jwt.algorithms, jwt.principal_claim)
        # The keys are read when the first token needs them.
        verifier = JwtVerifier(rules, keys_of_file(jwt.jwks) if isinstance(jwt.jwks, Path) else keys_of_url(jwt.jwks))
    # There is metadata only where an authorization server issues tokens.
    servers = section.authorization_servers or (() if jwt is None else (jwt.issuer,))
    return Auth(
        tokens=BearerTokens(entries),
        jwt=verifier,
        grants=grants,
        metadata=ResourceMetadata(servers, tuple(grants.table or ()), section.resource, path) if servers else None,
        required=section.required,
    )


def _make_rights(
    name: str, entry: models.PrincipalSettings, digest_of: Callable[[str], str | None], counting: State
) -> Rights:
    where = f"principals.{name}"
    tools, limits = entry.tools, entry.rate_limits
    digests = {each: digest_of(each) for each in entry.maps or ()}
    for each, digest in digests.items():
        if digest is None:
            raise ConfigError(f"{where}.maps: {each} is not among the maps that this gateway offers")
    return Rights(
        visibility=Visibility() if tools is None else Visibility(tools.include or (), tools.exclude or ()),
        policy=None if entry.policy is None else make_policy(entry.policy.rules),
        quotas=None if limits is None else counting.quotas(make_rate_limits(limits), where),
        maps=None if entry.maps is None else frozenset(filter(None, digests.values())),
    )
