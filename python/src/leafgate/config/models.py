"""Every key of a configuration: names, types, limits, defaults and documentation.

The reader (load), the JSON Schema and the reference page (reference) follow from these models; no other file lists
keys. A loaded configuration is a Config: the same settings, with its servers as specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field, InstanceOf

from leafgate.config.kinds import (
    FILE,
    FILE_OR_URL,
    SECURE_URL,
    STATE,
    SWITCH,
    WRITTEN,
    ListOf,
    MapOf,
    Section,
    choice,
    key,
    number,
    text,
    whole,
)
from leafgate.model.errors import RETRYABLE, ErrorCode
from leafgate.model.leaf import CheckMode
from leafgate.model.request import EnvelopeForm
from leafgate.model.rights import CAPABILITIES, Capability
from leafgate.model.tool import ExposureMode
from leafgate.upstream import ServerSpec

DAY: Final = 86_400
USUAL_CONFIG: Final = "leafgate.yaml"  # where commands look without --config
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8808

Transport = Literal["stdio", "http", "sse"]
ServerType = Literal["stdio", "http", "sse", "streamable-http", "streamableHttp"]
Owner = Literal["user", "session"]
Links = Literal["off", "flag", "strip"]
Effect = Literal["allow", "deny", "require_approval"]
FlowKind = Literal["untrusted", "secret", "any"]
FlowEffect = Literal["deny", "require_approval", "flag"]
Approver = Literal["client", "operator", "either"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
OnFinding = Literal["report", "hold"]
OnInstructions = Literal["off", "flag", "quarantine"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

Word = Annotated[str, text("a text that is not empty", least=1)]
AnyText = Annotated[str, text()]
AsWritten = Annotated[str, WRITTEN]
OnOff = Annotated[bool, SWITCH]
File = Annotated[Path, FILE]
Seconds = Annotated[float, number(0, DAY, above=True, unit="seconds")]
ShortSeconds = Annotated[float, number(0, 3600, unit="seconds")]
Share = Annotated[float, number(0, 1)]
Count = Annotated[int, whole(1)]
LimitCount = Annotated[int, whole(0)]
Words = Annotated[tuple[Word, ...], ListOf("a list of texts")]
MapNames = Annotated[tuple[Word, ...], ListOf("a list of map digests or ids")]
Globs = Annotated[tuple[Word, ...], ListOf("a list of globs on tool names, such as [get_*]")]
IdGlobs = Annotated[tuple[Word, ...], ListOf("a list of globs on tool ids, such as [files:*]")]
Environment = Annotated[dict[str, AsWritten], MapOf("an object from names to values", keys="NAME", drop_null=True)]
Headers = Annotated[dict[str, AsWritten], MapOf("an object from header names to values", keys="header", drop_null=True)]
Url = Annotated[str, text("a URL that begins with http:// or https://", pattern=r"https?://[^\s/]\S*")]
Digest = Annotated[
    str, text("a sha256 digest, 64 hex digits, with or without sha256: before it", pattern=r"(sha256:)?[0-9a-fA-F]{64}")
]
Hash = Annotated[
    str,
    text(
        "a hash; `leafgate token new NAME` makes a token and its hash",
        pattern=r"sha256:[0-9a-f]{64}|scrypt:[0-9]{1,9}:[0-9]{1,3}:[0-9]{1,3}:[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+",
    ),
]
StateText = Annotated[str, STATE]
CheckLevel = Annotated[CheckMode, choice("canonical", "sampled", "decode", "trust")]
AlgorithmName = Annotated[Algorithm, choice(*get_args(Algorithm))]
RetryableCode = Annotated[ErrorCode, choice(*sorted(RETRYABLE))]
Reaction = Annotated[OnFinding, choice(*get_args(OnFinding))]
InstructionReaction = Annotated[OnInstructions, choice(*get_args(OnInstructions))]
TypeOfServer = Annotated[ServerType, choice(*get_args(ServerType))]


class Sanitize(Section):
    escape_html: OnOff = key("Escape `<`, `>`, `&` and quotes.", False)
    links: Annotated[Links, choice(*get_args(Links))] = key("What happens to links.", "flag")
    trusted_hosts: Words = key("Links to these hosts, and to those below them, are left alone.", ())


class Server(Section):
    hint: ClassVar = "an object with a command or a url"
    exactly_one: ClassVar = ("command", "url")

    command: Word | None = key("The program to start; it speaks MCP on its standard input and output.", nullable=True)
    args: Annotated[tuple[AsWritten, ...], ListOf("a list of texts")] = key("Its arguments.", (), nullable=True)
    env: Environment | None = key(
        "Environment variables for it. Nothing of the gateway's own environment is passed on but what a program needs "
        "to run.",
        nullable=True,
    )
    envFile: File | None = key("A file of `NAME=value` lines for its environment; `env` goes before it.", nullable=True)
    cwd: Word | None = key("The folder it is started in.", nullable=True)
    url: Url | None = key("Where it answers, in place of a command.", nullable=True)
    headers: Headers | None = key("HTTP headers for it, such as Authorization.", nullable=True)
    type: TypeOfServer | None = key(
        "How to reach it. `http` is Streamable HTTP. Without it: `stdio` for a command, `http` for a url."
    )
    transport: TypeOfServer | None = key("The same as `type`, as some clients call it.")
    timeout: Seconds = key("Seconds a call may take.", 60.0)
    start_timeout: Seconds = key("Seconds it may take to come up.", 30.0)
    disabled: OnOff = key("Leave this server out; nothing else of it is looked at.", False)
    namespace: Word | None = key("The name under which its tools appear. By default the server's name.", nullable=True)
    include: Globs = key("Only tools with such names are shown.", ())
    exclude: Globs = key("Tools with such names are not shown.", ())
    concurrency: Count | None = key("Most calls under way at once.", nullable=True)
    required: OnOff = key("The gateway does not start without it.", False)
    check: CheckLevel | None = key("As the global `check`, for this server.")
    sanitize: Sanitize | None = key("As the global `sanitize`, for this server.", nullable=True)
    instructions: InstructionReaction | None = key("As the global `instructions`, for this server.")


Servers = Annotated[dict[str, Server], MapOf("an object with at least one server", switched_off="disabled")]


class PolicyRule(Section):
    effect: Annotated[Effect, choice(*get_args(Effect))] = key("What happens to a call that fits.", ...)
    namespace: Word | None = key("A glob on the tool's namespace.")
    tool: Word | None = key("A glob on the tool's id or name.")
    tags: Words | None = key("Tags that the tool must have, all of them.")
    principal: Word | None = key("A glob on the caller's name.")


class FlowSource(Section):
    hint: ClassVar = "an object with server and kind"

    server: Word = key("A glob on the name under which the server's tools appear.", ...)
    kind: Annotated[FlowKind, choice(*get_args(FlowKind))] = key(
        "What is followed: text that the server returned (`untrusted`), secrets that were redacted in it (`secret`), "
        "or both (`any`).",
        "any",
    )


class FlowTarget(Section):
    hint: ClassVar = "an object with server and side_effects"

    server: Word = key("A glob on the name under which the server's tools appear.", ...)
    side_effects: OnOff = key(
        "Only calls of tools that are not declared read-only. Without it: everything that goes to the server.", False
    )


class FlowRule(Section):
    source: FlowSource = key("What was read.", ..., alias="from")
    to: FlowTarget = key("Where it would go.", ...)
    effect: Annotated[FlowEffect, choice(*get_args(FlowEffect))] = key(
        "What happens to such a call: it is refused (`deny`), a person is asked (`require_approval`), or it is only "
        "reported (`flag`).",
        ...,
    )
    principal: Word | None = key("A glob on the caller's name.")


Rules = Annotated[tuple[PolicyRule, ...], ListOf("a list of rules")]
Flows = Annotated[tuple[FlowRule, ...], ListOf("a list of objects with from, to and effect")]


class Policy(Section):
    hint: ClassVar = "an object with rules or flows, each a list"
    needs_a_key: ClassVar = True

    rules: Rules | None = key(
        "The first rule that fits decides; if none fits, the call is denied. Without it: all tools may be called."
    )
    flows: Flows = key(
        "What callers have read from one server and send to another; see [flow policy](security.md#flow-policy). "
        "Every rule that fits counts; the strongest effect decides.",
        (),
    )


class PrincipalPolicy(Section):
    hint: ClassVar = "an object with one key, rules, that is a list"

    rules: Rules = key("The first rule that fits decides; if none fits, the call is denied.", ...)


class Approvals(Section):
    by: Annotated[Approver, choice(*get_args(Approver))] = key(
        "Who approves: the person at the client (`client`), an operator with `leafgate approvals` or on the dashboard "
        "(`operator`), or an operator only for clients that cannot be asked (`either`).",
        "either",
    )
    wait_seconds: Seconds = key("Seconds that a call waits for an operator. Many clients give up after 60.", 50.0)


class CallLimit(Section):
    max_calls_per_minute: LimitCount | None = key("Calls within any 60 seconds.", nullable=True)
    max_calls_per_session: LimitCount | None = key("Calls of one session.", nullable=True)


class RateLimits(Section):
    hint: ClassVar = "an object with limits by meta-tool, and tools"

    tool_browse: CallLimit | None = key("Limits of `tool_browse`.")
    tool_hydrate: CallLimit | None = key("Limits of `tool_hydrate`.")
    tool_execute: CallLimit | None = key("Limits of `tool_execute`.")
    tool_view: CallLimit | None = key("Limits of `tool_view`.")
    resource_browse: CallLimit | None = key("Limits of `resource_browse`.")
    resource_read: CallLimit | None = key("Limits of `resource_read`.")
    prompt_browse: CallLimit | None = key("Limits of `prompt_browse`.")
    prompt_get: CallLimit | None = key("Limits of `prompt_get`.")
    tools: Annotated[dict[str, CallLimit], MapOf("an object from tool ids or globs to limits", keys="glob")] | None = (
        key("Limits by tool id or glob; the first that fits counts.")
    )


class Token(Section):
    name: Word = key("The principal that the token stands for.", ...)
    hash: Hash = key("The token's hash; the token itself is never in a file.", ...)
    scopes: Words | None = key("Names in `auth.scopes`; where there is no such table, capabilities.")


class Jwt(Section):
    issuer: Word = key("Who must have issued it (`iss`).", ...)
    audience: Annotated[tuple[Word, ...], ListOf("a text or a list of texts", least=1, or_one=True)] = key(
        "For whom it must be (`aud`).", ...
    )
    jwks: Annotated[Path | str, FILE_OR_URL] = key("The issuer's keys.", ...)
    algorithms: Annotated[tuple[AlgorithmName, ...], ListOf("a list of asymmetric algorithms", least=1)] = key(
        "Signatures that are accepted.", ("RS256", "ES256")
    )
    principal_claim: Word = key("The claim that names the caller.", "sub")


Capabilities = Annotated[tuple[Annotated[Capability, choice(*CAPABILITIES)], ...], ListOf("a list of capabilities")]
Scopes = Annotated[dict[str, Capabilities], MapOf("an object from scope names to lists of capabilities", keys="scope")]


class Auth(Section):
    hint: ClassVar = "an object with tokens or jwt"
    any_of: ClassVar = ("tokens", "jwt")
    any_what: ClassVar = "tokens or jwt is needed; without them every caller would be refused"

    tokens: Annotated[tuple[Token, ...], ListOf("a list of objects with name and hash")] = key(
        "Bearer tokens that are known beforehand.", ()
    )
    jwt: Jwt | None = key("JSON Web Tokens of an OAuth 2.1 authorization server.")
    resource: Url | None = key("This gateway's own URL, for the protected-resource metadata.")
    authorization_servers: Annotated[tuple[Url, ...], ListOf("a list of URLs")] | None = key(
        "Where clients get tokens, for the same metadata."
    )
    scopes: Scopes | None = key("What each scope allows.")
    required: OnOff = key("Callers without a token are refused.", True)


class PrincipalTools(Section):
    include: Annotated[tuple[Word, ...], ListOf("a list of globs on tool ids, such as [files:*]", least=1)] | None = (
        key("Only these tools are visible.")
    )
    exclude: IdGlobs | None = key("These tools are not visible.")


class PrincipalSettings(Section):
    tools: PrincipalTools | None = key("Which tools this principal sees.")
    policy: PrincipalPolicy | None = key("The rules of the global `policy`, for this principal. Its flows stay.")
    rate_limits: RateLimits | None = key("As the global `rate_limits`, for this principal.")
    maps: MapNames | None = key("Maps whose ids this principal may ask for.")
    artifact_quota_mb: Annotated[int, whole(1, 1_000_000)] | None = key("Most megabytes of stored results.")


class MapUrl(Section):
    url: Annotated[str, SECURE_URL] = key("Where the map is.", ...)
    sha256: Digest = key("The digest of its bytes; others are refused.", ...)
    id: Word | None = key("A short name for it.")


class Maps(Section):
    files: Annotated[tuple[File, ...], ListOf("a list of paths")] = key("Map files beside the bundled ones.", ())
    urls: Annotated[tuple[MapUrl, ...], ListOf("a list of objects with url and sha256")] = key(
        "Maps to fetch once and store.", ()
    )
    allow: MapNames | None = key("Only these maps may be asked for. Without it: all maps of the gateway.")


class Cache(Section):
    read_only: OnOff = key("Cache results of tools that their servers declare read-only.", False)
    allow: IdGlobs | None = key("Only tools with such ids.", nullable=True)
    ttl: Annotated[float, number(0, 10**9, above=True, unit="seconds")] = key("Seconds that a result is cached.", 300.0)
    max_entries: Count = key("Most results in the cache.", 1_000)
    max_bytes: Count = key("Most bytes in the cache.", 64 * 1024 * 1024)


class Retry(Section):
    max_attempts: Annotated[int, whole(1, 10)] = key("Attempts altogether; 1 means no retry.", 1)
    base_delay: ShortSeconds = key("Seconds before the second attempt; then twice as many.", 0.5)
    max_delay: ShortSeconds = key("Most seconds between two attempts.", 10.0)
    jitter: Share = key("The part of a delay that chance may take away.", 0.5)
    retryable_codes: Annotated[tuple[RetryableCode, ...], ListOf("a list of error codes")] = key(
        "Errors that are tried again. A call that timed out may have run all the same.",
        ("UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"),
    )


class Breaker(Section):
    failures: Count = key("Transport failures in a row that open it.", 5)
    open_seconds: Seconds = key("Seconds until a call may try again.", 30.0)


class SecretPatternSettings(Section):
    type: Annotated[str, text("lower-case words with -", pattern=r"[a-z0-9-]{1,40}")] = key(
        "Its name in the mark.", ...
    )
    start: Annotated[str, text("two characters or more", least=2)] = key("What it literally begins with.", ...)
    regex: Word = key("A regular expression that fits all of it.", ...)


class Redact(Section):
    allow: Words = key("Values that are not secrets: whole, or their beginning followed by `*`.", ())
    patterns: Annotated[
        tuple[SecretPatternSettings, ...], ListOf("a list, each entry an object with type, start and regex")
    ] = key("Further kinds of secrets.", ())


class EmbedderSettings(Section):
    kind: Annotated[Literal["http", "minilm"], choice("http", "minilm")] = key("An endpoint, or a local model.", ...)
    url: Url | None = key("The endpoint, for `http`.")
    model: AnyText | None = key("The model's name there, for `http`.")
    headers: Headers | None = key("HTTP headers for it, for `http`.")
    path: AnyText | None = key("The model's folder or name, for `minilm`.")


class Tracing(Section):
    endpoint: Url = key("The URL of an OTLP receiver, over HTTP.", ...)
    headers: Headers | None = key("HTTP headers for it.")
    service_name: Word = key("The name of this service in traces.", "leafgate")
    sample_ratio: Share = key("The part of the calls that are traced.", 1.0)


class Log(Section):
    level: Annotated[LogLevel, choice(*get_args(LogLevel))] = key("What is logged.", "warning")
    format: Annotated[LogFormat, choice(*get_args(LogFormat))] = key("How it is written.", "text")


class Input(Section):
    id: Word = key("The name in `${input:name}`.", ...)
    default: AsWritten | None = key("The value without an environment variable.", nullable=True)
    type: AnyText | None = key("How the client asks for it.")
    description: AnyText | None = key("What the client says then.")
    password: OnOff | None = key("Whether the client hides it.")


class Saved(Section):
    chapter: ClassVar = "Servers"

    catalog: File | None = key(
        "A file of saved tool definitions to serve, beside or in place of servers. Its tools can be found and looked "
        "at; a call of one that no server offers answers UPSTREAM_UNAVAILABLE."
    )


class Serving(Section):
    chapter: ClassVar = "Serving"

    transport: Annotated[Transport, choice(*get_args(Transport))] | None = key(
        "How clients reach the gateway. `http` is Streamable HTTP. Without it: stdio."
    )
    host: Word = key("The address to listen on.", DEFAULT_HOST)
    port: Annotated[int, whole(0, 65535)] = key("The port to listen on; 0 finds a free one.", DEFAULT_PORT)
    allowed_hosts: Words = key("More values of the Host header that are answered.", ())
    allowed_origins: Words = key("More values of the Origin header that are answered.", ())
    insecure_bind: OnOff = key("Listen on an address that others can reach, without `auth`.", False)
    drain_seconds: ShortSeconds = key("Seconds that running calls get when the gateway stops.", 3.0)
    max_connections: Annotated[int, whole(1, 65_536)] = key(
        "Connections over HTTP that are open at once; further ones are answered with 503.", 4_096
    )
    startup_wait_seconds: ShortSeconds = key(
        "Seconds after the start for which lists, searches and calls wait for servers that are still starting. A "
        "server that has failed is not waited for.",
        10.0,
    )
    state: StateText = key(
        "Where results, counts of calls and counters are stored: `memory`; a file that outlives the process; or a "
        "Redis or Valkey server that gateways share. `auto` is memory; over stdio, results that were withheld are in "
        "a file of the user, because some clients start a gateway for each call. See [scaling](scaling.md#state).",
        "auto",
    )


class Showing(Section):
    chapter: ClassVar = "What clients see"

    mode: Annotated[ExposureMode, choice(*(mode.value for mode in ExposureMode))] = key(
        "`gateway`: a few meta-tools; `transparent`: all tools without schemas; `passthrough`: as their servers show "
        "them.",
        ExposureMode.GATEWAY,
    )
    hydrate: OnOff = key("Offer `tool_hydrate`.", True)
    prefix_names: OnOff = key(
        "Put the server's name before the name of every listed tool and prompt, also where no other server has the "
        "name. A name then stays the same when a server is added.",
        False,
    )
    url_safe_names: OnOff = key("No effect: listed names are safe in every mode, and encoded ids are accepted.", False)
    budget: Annotated[int, whole(100, 10_000_000)] = key(
        "Most tokens of a result that is shown whole; of larger ones, a digest is.", 800
    )
    envelope: Annotated[EnvelopeForm, choice(*get_args(EnvelopeForm))] = key(
        "What the `_meta` of results says: `lean`, only the handle of what was withheld; `full`, all that is known of "
        'a result. A client asks for the other one with `_meta["leafgate/accept"]`.',
        "lean",
    )
    cache_stable: OnOff = key("Keep the order and bytes of cards that were shown, for prompt caches.", False)
    embedder: EmbedderSettings | None = key(
        "Another model of meaning for the search than the bundled one.", nullable=True
    )


class Trust(Section):
    chapter: ClassVar = "Trust in servers"

    pins: File | None = key("A lock file of approved definitions, as `leafgate catalog pin` writes it.", nullable=True)
    on_drift: Reaction = key("What happens to a definition that differs from its pin.", "report")
    on_risk: Reaction = key("What happens to a definition that looks poisoned.", "report")
    instructions: InstructionReaction = key(
        "What happens to a result, resource, prompt or question that reads like instructions to a model: `off`, it is "
        "not checked; `flag`, a notice of the gateway stands beside it; `quarantine`, it is withheld. See "
        "[security](security.md#instructions-in-foreign-text).",
        "flag",
    )
    view_quarantined: OnOff = key("Let `tool_view` show what `quarantine` withheld, with a notice.", False)
    sanitize: Sanitize | None = key("How foreign text is cleaned.", nullable=True)
    redact: Redact | None = key("Which secrets are replaced.", nullable=True)
    cleaning_seconds: Annotated[float, number(0.1, 600, unit="seconds")] = key(
        "Seconds of CPU time that cleaning one text may take. A text that takes longer is stored, and not shown. Texts "
        "of 128 KiB and more are cleaned in a process of their server's own.",
        10.0,
    )


class Controls(Section):
    chapter: ClassVar = "Controls of a call"

    policy: Policy | None = key(
        "Which tools may be called, and what may go from one server to another. Without it: all."
    )
    approvals: Approvals = key("How calls are approved whose rule has the effect `require_approval`.", Approvals())
    tolerant_args: OnOff = key('Repair arguments such as "5" for 5 where the schema leaves no doubt.', False)
    strict_output: OnOff = key("Refuse results that break their tool's output schema.", False)
    rate_limits: RateLimits | None = key("How many calls are accepted.")
    cache: Cache | None = key("Cache results of tools that only read.")
    retry: Retry | None = key("Try failed calls again.")
    breaker: Breaker | None = key("Spare a server that does not answer.")


class TokenIds(Section):
    chapter: ClassVar = "Token ids"

    map: Word | None = key(
        "The map of the ids that clients get if they ask for none: an id, a digest or a file.", nullable=True
    )
    check: CheckLevel = key(
        "How far ids that a server sends are checked before they are passed on. `decode`: they are ordinary ids of the "
        "map and decode to exactly the text. `canonical`: they are also split as the map's tokenizer splits, which "
        "costs as much as tokenizing. `sampled`: `decode`, and `canonical` for the first leaf of a server, for a share "
        "of the others, and for all from the first wrong one on. `trust`: they are ordinary ids of the map.",
        "sampled",
    )
    check_share: Share = key("With `check: sampled`, the share of leaves whose check is `canonical`.", 0.05)
    maps: Maps = key("Tokenizer maps beside the bundled ones.", Maps())
    accelerate: Annotated[Literal["auto", "off"], choice("auto", "off")] = key(
        "`auto`: a faster tokenizer where it is installed and agrees in a self-test.", "auto"
    )
    compress_from: Annotated[int, whole(0, 2**30)] = key("Bytes from which the binary transport compresses.", 1024)


class Callers(Section):
    chapter: ClassVar = "Who may call"

    auth: Auth | None = key("Who may call over HTTP.")
    owner: Annotated[Owner, choice(*get_args(Owner))] | None = key(
        "Who can read a withheld result of a caller without a token: every such caller that has its handle (`user`), "
        "or only the MCP session that made it (`session`). Without it: `session` where there is `auth`, or an address "
        "that other machines can reach; otherwise `user`."
    )
    principals: Annotated[
        dict[str, PrincipalSettings],
        MapOf('an object from principals (or "*" for all others) to their settings', keys='name or "*"'),
    ] = key("Settings by caller.", {})


class Observability(Section):
    chapter: ClassVar = "Observability"

    dashboard: OnOff = key("Serve the page at `/` over HTTP.", True)
    metrics: OnOff = key("Serve `/metrics` over HTTP.", True)
    tracing: Tracing | None = key("OpenTelemetry traces. Without it: none.")
    log: Log = key("The log on standard error.", Log())
    record: File | None = key("Write the MCP messages of every session to this file, to replay them.")
    audit: File | None = key(
        "Write one line for each request to this file: who called what and how it ended, and nothing of its content. "
        "The lines are chained by their hashes; see [audit](observability.md#audit)."
    )
    audit_max_mb: Annotated[int, whole(1, 100_000)] = key("Megabytes from which the audit file is rotated.", 100)
    audit_keep: Annotated[int, whole(1, 1_000)] = key("Rotated audit files that are not deleted.", 10)


class Settings(Observability, Callers, TokenIds, Controls, Trust, Showing, Serving, Saved):
    """The settings that a file and a Config share. pydantic puts the fields of the last base first."""

    hint: ClassVar = "an object with keys such as mcpServers"


class Sources(Section):
    chapter: ClassVar = "Servers"

    mcpServers: Servers | None = key("The servers behind the gateway, by name.")
    servers: Servers | None = key("The same, as VS Code calls it.")
    inputs: Annotated[tuple[Input, ...], ListOf("a list of objects with an id")] | None = key(
        "What VS Code would ask for; see `${input:name}`."
    )
    json_schema: AnyText | None = key("The JSON Schema of this file, for editors.", alias="$schema")


class ConfigFile(Settings, Sources):
    """What a file may hold."""

    any_of: ClassVar = ("mcpServers", "servers", "catalog")
    any_what: ClassVar = "an object with at least one server is needed (or catalog, a file of saved tools)"


# In the order of the reference.
CHAPTERS: Final[tuple[type[Section], ...]] = (Sources, *reversed(Settings.__bases__))


class Config(Settings):
    """The settings of one gateway, as load makes them from a file, or as a program writes them.

    The settings by server have the names under which tools appear as keys; `files` are the files that were read.
    """

    servers: tuple[InstanceOf[ServerSpec], ...] = ()
    sanitize_by_server: Mapping[str, Sanitize] = Field(default_factory=dict)
    check_by_server: Mapping[str, CheckMode] = Field(default_factory=dict)
    instructions_by_server: Mapping[str, OnInstructions] = Field(default_factory=dict)
    notices: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"Config(servers: {', '.join(server.name for server in self.servers) or 'none'})"

    __str__ = __repr__
