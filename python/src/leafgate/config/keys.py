"""Every key of a configuration, in one table. Nouns only.

The reader (check), the JSON Schema (json_schema) and the reference (reference) follow it; nothing else lists keys.
"""

from __future__ import annotations

from typing import Final

from leafgate.config.kinds import (
    SECURE_URL,
    FilePath,
    Key,
    ListOf,
    MapOf,
    Number,
    Section,
    Switch,
    Text,
    Whole,
    Written,
)
from leafgate.model.errors import RETRYABLE
from leafgate.model.mode import ALL_META_TOOLS, ExposureMode
from leafgate.model.principal import CAPABILITIES

DAY: Final = 86_400
CHECKS: Final = ("canonical", "decode", "trust")

_WORD: Final = Text("a text that is not empty", least=1)
_WORDS: Final = ListOf(_WORD, "a list of texts")
_URL: Final = Text("a URL that begins with http:// or https://", pattern=r"https?://[^\s/]\S*")
_DIGEST: Final = Text(
    "a sha256 digest, 64 hex digits, with or without sha256: before it", pattern=r"(sha256:)?[0-9a-fA-F]{64}"
)
HASH: Final = Text(
    "a hash; `leafgate token new NAME` makes a token and its hash",
    pattern=r"sha256:[0-9a-f]{64}|scrypt:[0-9]{1,9}:[0-9]{1,3}:[0-9]{1,3}:[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+",
)
STATE: Final = Text(
    "memory, sqlite:PATH or redis://HOST:PORT/NUMBER", pattern=r"memory|sqlite:.+|(rediss?|valkeys?|unix)://\S+"
)
_MAP_NAMES: Final = ListOf(_WORD, "a list of map digests or ids")
_GLOBS: Final = ListOf(_WORD, "a list of globs on tool names, such as [get_*]")
_ID_GLOBS: Final = ListOf(_WORD, "a list of globs on tool ids, such as [files:*]")
_HEADERS: Final = MapOf(Written(), "an object from header names to values", keys="header", drop_null=True)

_SANITIZE: Final = Section(
    (
        Key("escape_html", Switch(), "Escape `<`, `>`, `&` and quotes.", False),
        Key("links", Text("what happens to links", choices=("off", "flag", "strip")), "What happens to links.", "flag"),
        Key("trusted_hosts", _WORDS, "Links to these hosts, and to those below them, are left alone.", []),
    ),
    "an object with escape_html, links and trusted_hosts",
    name="sanitize",
)

_SERVER: Final = Section(
    (
        Key("command", _WORD, "The program to start; it speaks MCP on its standard input and output.", nullable=True),
        Key("args", ListOf(Written(), "a list of texts"), "Its arguments.", [], nullable=True),
        Key(
            "env",
            MapOf(Written(), "an object from names to values", keys="NAME", drop_null=True),
            "Environment variables for it. Nothing of the gateway's own environment is passed on but what a program "
            "needs to run.",
            nullable=True,
        ),
        Key(
            "envFile",
            FilePath(),
            "A file of `NAME=value` lines for its environment; `env` goes before it.",
            nullable=True,
        ),
        Key("cwd", _WORD, "The folder it is started in.", nullable=True),
        Key("url", _URL, "Where it answers, in place of a command.", nullable=True),
        Key("headers", _HEADERS, "HTTP headers for it, such as Authorization.", nullable=True),
        Key(
            "type",
            Text("how to reach it", choices=("stdio", "http", "sse", "streamable-http", "streamableHttp")),
            "How to reach it. `http` is Streamable HTTP. Without it: `stdio` for a command, `http` for a url.",
        ),
        Key(
            "transport",
            Text("how to reach it", choices=("stdio", "http", "sse", "streamable-http", "streamableHttp")),
            "The same as `type`, as some clients call it.",
        ),
        Key("timeout", Number(0, DAY, above=True, unit="seconds"), "Seconds a call may take.", 60.0),
        Key("start_timeout", Number(0, DAY, above=True, unit="seconds"), "Seconds it may take to come up.", 30.0),
        Key("disabled", Switch(), "Leave this server out; nothing else of it is looked at.", False),
        Key("namespace", _WORD, "The name under which its tools appear. By default the server's name.", nullable=True),
        Key("include", _GLOBS, "Only tools with such names are shown.", []),
        Key("exclude", _GLOBS, "Tools with such names are not shown.", []),
        Key("concurrency", Whole(1), "Most calls under way at once.", nullable=True),
        Key("required", Switch(), "The gateway does not start without it.", False),
        Key("check", Text("how far its leaves are checked", choices=CHECKS), "As the global `check`, for this server."),
        Key("sanitize", _SANITIZE, "As the global `sanitize`, for this server.", nullable=True),
    ),
    "an object with a command or a url",
    name="server",
    foreign=True,
    exactly_one=("command", "url"),
)
_SERVERS: Final = MapOf(_SERVER, "an object with at least one server", switched_off="disabled")

_POLICY: Final = Section(
    (
        Key(
            "rules",
            ListOf(
                Section(
                    (
                        Key(
                            "effect",
                            Text("what the rule does", choices=("allow", "deny", "require_approval")),
                            "What happens to a call that fits.",
                            required=True,
                        ),
                        Key("namespace", _WORD, "A glob on the tool's namespace."),
                        Key("tool", _WORD, "A glob on the tool's id or name."),
                        Key("tags", _WORDS, "Tags that the tool must have, all of them."),
                        Key("principal", _WORD, "A glob on the caller's name."),
                    ),
                    "an object with an effect",
                ),
                "a list of rules",
            ),
            "The first rule that fits decides; if none fits, the call is denied.",
            required=True,
        ),
    ),
    "an object with one key, rules, that is a list",
    name="policy",
)

_LIMIT: Final = Section(
    (
        Key("max_calls_per_minute", Whole(0), "Calls within any 60 seconds.", nullable=True),
        Key("max_calls_per_session", Whole(0), "Calls of one session.", nullable=True),
    ),
    "an object with max_calls_per_minute and max_calls_per_session",
    name="limit",
)
_RATE_LIMITS: Final = Section(
    (
        *(Key(tool, _LIMIT, f"Limits of `{tool}`.") for tool in ALL_META_TOOLS),
        Key(
            "tools",
            MapOf(_LIMIT, "an object from tool ids or globs to limits", keys="glob"),
            "Limits by tool id or glob; the first that fits counts.",
        ),
    ),
    "an object with limits by meta-tool, and tools",
    name="rate_limits",
)

_AUTH: Final = Section(
    (
        Key(
            "tokens",
            ListOf(
                Section(
                    (
                        Key("name", _WORD, "The principal that the token stands for.", required=True),
                        Key("hash", HASH, "The token's hash; the token itself is never in a file.", required=True),
                        Key(
                            "scopes",
                            _WORDS,
                            "Names in `auth.scopes`; where there is no such table, capabilities.",
                        ),
                    ),
                    "an object with name and hash",
                ),
                "a list of objects with name and hash",
            ),
            "Bearer tokens that are known beforehand.",
            [],
        ),
        Key(
            "jwt",
            Section(
                (
                    Key("issuer", _WORD, "Who must have issued it (`iss`).", required=True),
                    Key(
                        "audience",
                        ListOf(_WORD, "a text or a list of texts", or_one=True, least=1),
                        "For whom it must be (`aud`).",
                        required=True,
                    ),
                    Key("jwks", FilePath(or_url=True), "The issuer's keys.", required=True),
                    Key(
                        "algorithms",
                        ListOf(
                            Text(
                                "an asymmetric algorithm",
                                choices=(
                                    "RS256",
                                    "RS384",
                                    "RS512",
                                    "PS256",
                                    "PS384",
                                    "PS512",
                                    "ES256",
                                    "ES384",
                                    "ES512",
                                    "EdDSA",
                                ),
                            ),
                            least=1,
                        ),
                        "Signatures that are taken.",
                        ["RS256", "ES256"],
                    ),
                    Key("principal_claim", _WORD, "The claim that names the caller.", "sub"),
                ),
                "an object with issuer, audience and jwks",
            ),
            "JSON Web Tokens of an OAuth 2.1 authorization server.",
        ),
        Key("resource", _URL, "This gateway's own URL, for the protected-resource metadata."),
        Key(
            "authorization_servers", ListOf(_URL, "a list of URLs"), "Where clients get tokens, for the same metadata."
        ),
        Key(
            "scopes",
            MapOf(
                ListOf(Text("a capability", choices=CAPABILITIES)),
                "an object from scope names to lists of capabilities",
                keys="scope",
            ),
            "What each scope allows.",
        ),
        Key("required", Switch(), "Callers without a token are refused.", True),
    ),
    "an object with tokens or jwt",
    any_of=("tokens", "jwt"),
    any_what="tokens or jwt is needed; without them nobody could come in",
)

_PRINCIPALS: Final = MapOf(
    Section(
        (
            Key(
                "tools",
                Section(
                    (
                        Key("include", ListOf(_WORD, _ID_GLOBS.what, least=1), "Only these tools are visible."),
                        Key("exclude", _ID_GLOBS, "These tools are not visible."),
                    ),
                    "an object with include and exclude",
                ),
                "Which tools this principal sees.",
            ),
            Key("policy", _POLICY, "As the global `policy`, for this principal."),
            Key("rate_limits", _RATE_LIMITS, "As the global `rate_limits`, for this principal."),
            Key("maps", _MAP_NAMES, "Maps whose ids this principal may ask for."),
            Key("artifact_quota_mb", Whole(1, 1_000_000), "Most megabytes of kept results."),
        ),
        "an object with some of tools, policy, rate_limits, maps, artifact_quota_mb",
    ),
    'an object from principals (or "*" for all others) to their settings',
    keys='name or "*"',
)

_MAPS: Final = Section(
    (
        Key("files", ListOf(FilePath(), "a list of paths"), "Map files beside the bundled ones.", []),
        Key(
            "urls",
            ListOf(
                Section(
                    (
                        Key("url", SECURE_URL, "Where the map is.", required=True),
                        Key("sha256", _DIGEST, "The digest of its bytes; others are refused.", required=True),
                        Key("id", _WORD, "A short name for it."),
                    ),
                    "an object with url and sha256",
                ),
                "a list of objects with url and sha256",
            ),
            "Maps to fetch once and keep.",
            [],
        ),
        Key("allow", _MAP_NAMES, "Only these maps may be asked for. Without it: all that are known."),
    ),
    "an object with files, urls and allow",
)

_CACHE: Final = Section(
    (
        Key("read_only", Switch(), "Keep results of tools that their servers declare read-only.", False),
        Key("allow", _ID_GLOBS, "Only tools with such ids.", nullable=True),
        Key("ttl", Number(0, 10**9, above=True, unit="seconds"), "Seconds that a result is kept.", 300.0),
        Key("max_entries", Whole(1), "Most results that are kept.", 1_000),
        Key("max_bytes", Whole(1), "Most bytes that are kept.", 64 * 1024 * 1024),
    ),
    "an object with some of read_only, allow, ttl, max_entries, max_bytes",
)
_RETRY: Final = Section(
    (
        Key("max_attempts", Whole(1, 10), "Attempts altogether; 1 is no retry.", 1),
        Key(
            "base_delay", Number(0, 3600, unit="seconds"), "Seconds before the second attempt; then twice as many.", 0.5
        ),
        Key("max_delay", Number(0, 3600, unit="seconds"), "Most seconds between two attempts.", 10.0),
        Key("jitter", Number(0, 1), "The part of a delay that chance may take away.", 0.5),
        Key(
            "retryable_codes",
            ListOf(Text("an error code", choices=tuple(sorted(RETRYABLE)))),
            "Errors that are tried again. A call that timed out may have run all the same.",
            ["UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE"],
        ),
    ),
    "an object with some of max_attempts, base_delay, max_delay, jitter, retryable_codes",
)
_BREAKER: Final = Section(
    (
        Key("failures", Whole(1), "Transport failures in a row that open it.", 5),
        Key("open_seconds", Number(0, DAY, above=True, unit="seconds"), "Seconds until a call may try again.", 30.0),
    ),
    "an object with failures and open_seconds",
)
_REDACT: Final = Section(
    (
        Key("allow", _WORDS, "Values that are no secrets: whole, or their beginning followed by `*`.", []),
        Key(
            "patterns",
            ListOf(
                Section(
                    (
                        Key(
                            "type",
                            Text("lower-case words with -", pattern=r"[a-z0-9-]{1,40}"),
                            "Its name in the mark.",
                            required=True,
                        ),
                        Key(
                            "start",
                            Text("two characters or more", least=2),
                            "What it literally begins with.",
                            required=True,
                        ),
                        Key("regex", _WORD, "A regular expression that fits all of it.", required=True),
                    ),
                    "an object with type, start and regex",
                )
            ),
            "Secrets of your own.",
            [],
        ),
    ),
    "an object with allow and patterns",
)
_EMBEDDER: Final = Section(
    (
        Key(
            "kind", Text("which embedder", choices=("http", "minilm")), "An endpoint, or a local model.", required=True
        ),
        Key("url", _URL, "The endpoint, for `http`."),
        Key("model", Text(), "The model's name there, for `http`."),
        Key("headers", _HEADERS, "HTTP headers for it, for `http`."),
        Key("path", Text(), "The model's folder or name, for `minilm`."),
    ),
    "an object with a kind",
)
_TRACING: Final = Section(
    (
        Key("endpoint", _URL, "Where OTLP over HTTP is taken.", required=True),
        Key("headers", _HEADERS, "HTTP headers for it."),
        Key("service_name", _WORD, "The name of this service in traces.", "leafgate"),
        Key("sample_ratio", Number(0, 1), "The part of the calls that are traced.", 1.0),
    ),
    "an object with an endpoint",
)
_LOG: Final = Section(
    (
        Key(
            "level",
            Text("how much is logged", choices=("debug", "info", "warning", "error")),
            "What is logged.",
            "warning",
        ),
        Key("format", Text("how it is written", choices=("text", "json")), "How it is written.", "text"),
    ),
    "an object with level and format",
)
_INPUT: Final = Section(
    (
        Key("id", _WORD, "The name in `${input:name}`.", required=True),
        Key("default", Written(), "The value without an environment variable.", nullable=True),
        Key("type", Text(), "How the client asks for it."),
        Key("description", Text(), "What the client says then."),
        Key("password", Switch(), "Whether the client hides it."),
    ),
    "an object with an id",
    foreign=True,
)

_SERVING: Final = "Serving"
_SHOWING: Final = "What clients see"
_TRUST: Final = "Trust in servers"
_CONTROLS: Final = "Controls of a call"
_IDS: Final = "Token ids"
_CALLERS: Final = "Who may call"
_WATCHING: Final = "Observability"
_SOURCES: Final = "Servers"

TOP: Final = Section(
    (
        Key("mcpServers", _SERVERS, "The servers behind the gateway, by name.", group=_SOURCES),
        Key("servers", _SERVERS, "The same, as VS Code calls it.", group=_SOURCES),
        Key(
            "inputs",
            ListOf(_INPUT, "a list of objects with an id"),
            "What VS Code would ask for; see `${input:name}`.",
            group=_SOURCES,
        ),
        Key(
            "catalog",
            FilePath(),
            "A file of saved tool definitions to serve, beside or in place of servers. Its tools can be found and "
            "looked at; a call of one that no server offers answers UPSTREAM_UNAVAILABLE.",
            group=_SOURCES,
        ),
        Key("$schema", Text(), "The JSON Schema of this file, for editors.", group=_SOURCES),
        Key(
            "transport",
            Text("how clients reach it", choices=("stdio", "http", "sse")),
            "How clients reach the gateway. `http` is Streamable HTTP. Without it: stdio.",
            group=_SERVING,
        ),
        Key("host", _WORD, "The address to listen on.", "127.0.0.1", group=_SERVING),
        Key("port", Whole(0, 65535), "The port to listen on; 0 finds a free one.", 8808, group=_SERVING),
        Key("allowed_hosts", _WORDS, "More values of the Host header that are answered.", [], group=_SERVING),
        Key("allowed_origins", _WORDS, "More values of the Origin header that are answered.", [], group=_SERVING),
        Key(
            "insecure_bind",
            Switch(),
            "Listen on an address that others can reach, without `auth`.",
            False,
            group=_SERVING,
        ),
        Key(
            "drain_seconds",
            Number(0, 3600, unit="seconds"),
            "Seconds that running calls get when the gateway stops.",
            3.0,
            group=_SERVING,
        ),
        Key(
            "max_connections",
            Whole(1, 65_536),
            "Connections over HTTP that are open at once; further ones are answered with 503.",
            4_096,
            group=_SERVING,
        ),
        Key(
            "state",
            STATE,
            "Where results, counts of calls and counters are kept: `memory`; a file that outlives the process; or a "
            "Redis or Valkey server that gateways share. See [scaling](scaling.md#state).",
            "memory",
            group=_SERVING,
        ),
        Key(
            "mode",
            Text("how tools are shown", choices=tuple(mode.value for mode in ExposureMode)),
            "`gateway`: a few meta-tools; `transparent`: all tools without schemas; `passthrough`: as their servers "
            "show them.",
            "gateway",
            group=_SHOWING,
        ),
        Key("hydrate", Switch(), "Offer `tool_hydrate`.", True, group=_SHOWING),
        Key(
            "url_safe_names",
            Switch(),
            "Percent-encode the signs in tool ids that are no letters or digits.",
            False,
            group=_SHOWING,
        ),
        Key(
            "budget",
            Whole(100, 10_000_000),
            "Most tokens of a result that is shown whole; of larger ones, a digest is.",
            800,
            group=_SHOWING,
        ),
        Key(
            "cache_stable",
            Switch(),
            "Keep the order and bytes of cards that were shown, for prompt caches.",
            False,
            group=_SHOWING,
        ),
        Key(
            "embedder",
            _EMBEDDER,
            "Another model of meaning for the search than the bundled one.",
            nullable=True,
            group=_SHOWING,
        ),
        Key(
            "pins",
            FilePath(),
            "A lock file of approved definitions, as `leafgate catalog pin` writes it.",
            nullable=True,
            group=_TRUST,
        ),
        Key(
            "on_drift",
            Text("what happens", choices=("report", "hold")),
            "What happens to a definition that differs from its pin.",
            "report",
            group=_TRUST,
        ),
        Key(
            "on_risk",
            Text("what happens", choices=("report", "hold")),
            "What happens to a definition that looks poisoned.",
            "report",
            group=_TRUST,
        ),
        Key("sanitize", _SANITIZE, "How foreign text is cleaned.", nullable=True, group=_TRUST),
        Key("redact", _REDACT, "Which secrets are replaced.", nullable=True, group=_TRUST),
        Key("policy", _POLICY, "Which tools may be called. Without it: all.", group=_CONTROLS),
        Key(
            "tolerant_args",
            Switch(),
            'Repair arguments such as "5" for 5 where the schema leaves no doubt.',
            False,
            group=_CONTROLS,
        ),
        Key("strict_output", Switch(), "Refuse results that break their tool's output schema.", False, group=_CONTROLS),
        Key("rate_limits", _RATE_LIMITS, "How many calls are taken.", group=_CONTROLS),
        Key("cache", _CACHE, "Keep results of tools that only read.", group=_CONTROLS),
        Key("retry", _RETRY, "Try failed calls again.", group=_CONTROLS),
        Key("breaker", _BREAKER, "Spare a server that does not answer.", group=_CONTROLS),
        Key(
            "map",
            _WORD,
            "The map that clients get ids of if they ask for none: an id, a digest or a file.",
            nullable=True,
            group=_IDS,
        ),
        Key(
            "check",
            Text("how far leaves are checked", choices=CHECKS),
            "How far ids that a server sends are checked before they are passed on.",
            "canonical",
            group=_IDS,
        ),
        Key("maps", _MAPS, "Tokenizer maps beside the bundled ones.", {}, group=_IDS),
        Key(
            "accelerate",
            Text("whether a faster tokenizer is used", choices=("auto", "off")),
            "`auto`: a faster tokenizer where it is installed and agrees in a self-test.",
            "auto",
            group=_IDS,
        ),
        Key("compress_from", Whole(0, 2**30), "Bytes from which the binary transport compresses.", 1024, group=_IDS),
        Key("auth", _AUTH, "Who may come in over HTTP.", group=_CALLERS),
        Key("principals", _PRINCIPALS, "Settings by caller.", {}, group=_CALLERS),
        Key("dashboard", Switch(), "Serve the page at `/` over HTTP.", True, group=_WATCHING),
        Key("metrics", Switch(), "Serve `/metrics` over HTTP.", True, group=_WATCHING),
        Key("tracing", _TRACING, "OpenTelemetry traces. Without it: none.", group=_WATCHING),
        Key("log", _LOG, "The log on standard error.", {}, group=_WATCHING),
        Key(
            "record",
            FilePath(),
            "Write the MCP messages of every session to this file, to replay them.",
            group=_WATCHING,
        ),
    ),
    "an object with keys such as mcpServers",
    foreign=True,
    any_of=("mcpServers", "servers", "catalog"),
    any_what="an object with at least one server is needed (or catalog, a file of saved tools)",
)
