"""What secrets look like. In: nothing. Out: patterns and judgements on names and values. Pure.

A pattern is tried only where one of its literal beginnings stands, and none can look back or run on without bound:
that keeps redaction linear. Names and values of assignments are judged in plain code, where the thresholds can be read.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

Judge = Literal["", "bearer", "basic", "url-password", "assignment"]


@dataclass(frozen=True)
class SecretPattern:
    """One kind of secret. `regex` (for UTF-8 bytes) must match at a beginning; group `secret`, or all, is replaced."""

    type: str
    starts: tuple[str, ...]
    regex: str
    any_case: bool = False
    whole_word: bool = True  # the match may not continue a word
    lead: int = 0  # bytes that belong to the match before the literal beginning
    judge: Judge = ""


def _token(type_: str, *forms: tuple[str, str]) -> list[SecretPattern]:
    """Tokens with a telling prefix: (literal, what follows it)."""
    return [
        SecretPattern(type_, (literal,), re.escape(literal) + body + r"(?<!\.)(?![A-Za-z0-9])")
        for literal, body in forms
    ]


_WORD: Final = r"[A-Za-z0-9_-]"
_PRIVATE_KEY: Final = (
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:\s|\\[nr]){1,8}[A-Z][A-Za-z-]{2,20}:[^\r\n\\]{0,200}){0,8}"  # Proc-Type, DEK-Info, Version
    r"(?:(?:\s|\\[nr]){0,8}[A-Za-z0-9+/=]{20,})?(?:(?:\s|\\[nr]){1,8}[A-Za-z0-9+/=]{20,})*"
    r"(?:(?:\s|\\[nr]){1,8}[A-Za-z0-9+/=]{1,76}(?=(?:\s|\\[nr]){0,8}(?:-----END|=[A-Za-z0-9+/]{4}\s|\Z)))?"
    r"(?:(?:\s|\\[nr]){1,8}=[A-Za-z0-9+/]{4}(?=\s))?"
    r"(?:(?:\s|\\[nr]){0,8}-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)

DEFAULT_PATTERNS: Final[tuple[SecretPattern, ...]] = (
    SecretPattern("private-key", ("BEGIN ",), _PRIVATE_KEY, whole_word=False, lead=5),
    SecretPattern("jwt", ("eyJ",), rf"eyJ{_WORD}{{8,1024}}\.{_WORD}{{4,16384}}\.{_WORD}*(?:\.{_WORD}+)*"),
    *_token("aws-access-key", *((f"A{middle}A", "[A-Z0-9]{16}") for middle in ("KI", "SI", "BI", "CC"))),
    *_token("aws-bedrock-key", ("ABSK", "[A-Za-z0-9+/]{109,269}={0,2}"), ("bedrock-api-key-", "[A-Za-z0-9+/=]{20,}")),
    *_token("gcp-api-key", ("AIza", f"{_WORD}{{35}}"), ("AQ.Ab8R", f"{_WORD}{{40,}}")),
    *_token("gcp-oauth", ("GOCSPX-", f"{_WORD}{{20,}}"), ("ya29.", r"[\w.-]{20,}"), ("1//0", f"{_WORD}{{30,}}")),
    SecretPattern("azure-client-secret", ("Q~",), r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", lead=4),
    SecretPattern("azure-sas", ("sig=",), r"sig=(?P<secret>[A-Za-z0-9%+/]{40,}(?:%3D|=){0,2})", any_case=True),
    *_token(
        "github-token",
        *((f"gh{letter}_", "[A-Za-z0-9_.-]{30,255}") for letter in "pousr"),
        ("github_pat_", "[A-Za-z0-9_]{22,255}"),
    ),
    *_token(
        "gitlab-token",
        *(
            (f"{prefix}-", r"[\w.=-]{20,}")
            for prefix in ("glpat", "gldt", "glrt", "glptt", "glcbt", "gloas", "glsoat", "glft", "glimt", "glagent")
        ),
        ("GR1348941", f"{_WORD}{{20}}"),
    ),
    *_token(
        "slack-token",
        *((f"xox{letter}", r"[.-][\w.-]{10,}") for letter in "abceoprs"),
        ("xapp-", "[0-9]-[A-Za-z0-9-]{20,}"),
    ),
    SecretPattern(
        "webhook-url", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/+-]{20,})"
    ),
    SecretPattern(
        "webhook-url",
        ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
        r"discord(?:app)?\.com/api/webhooks/[0-9]{10,24}/(?P<secret>[\w-]{30,})",
    ),
    *_token(
        "stripe-key",
        *((f"{kind}_{mode}_", "[A-Za-z0-9]{16,}") for kind in ("sk", "rk") for mode in ("live", "test", "prod")),
        ("whsec_", "[A-Za-z0-9+/=]{24,}"),
    ),
    *_token("anthropic-key", ("sk-ant-", f"{_WORD}{{16,}}")),
    *_token("openrouter-key", ("sk-or-", f"{_WORD}{{20,}}")),
    *_token(
        "openai-key",
        ("sk-proj-", f"{_WORD}{{20,}}"),
        ("sk-svcacct-", f"{_WORD}{{20,}}"),
        ("sk-admin-", f"{_WORD}{{20,}}"),
        ("sk-", r"(?=[A-Za-z0-9-]{0,64}[0-9])(?=[A-Za-z0-9-]{0,64}[A-Z]|[0-9a-f]{32})[A-Za-z0-9]{20,}"),
        ("sess-", "[A-Za-z0-9]{40}"),
    ),
    *_token("huggingface-token", ("hf_", "[A-Za-z0-9]{30,}"), ("api_org_", "[A-Za-z0-9]{30,}")),
    *_token("npm-token", ("npm_", "[A-Za-z0-9]{36}")),
    *_token("pypi-token", ("pypi-AgE", f"{_WORD}{{40,}}")),
    *_token("sendgrid-key", ("SG.", rf"{_WORD}{{20,24}}\.{_WORD}{{39,50}}")),
    *_token("twilio-key", ("SK", "(?=[0-9a-f]{0,20}[a-f])(?=[0-9a-f]{0,20}[0-9])[0-9a-f]{32}")),
    *_token("mailgun-key", ("key-", "[0-9a-f]{32}")),
    SecretPattern("telegram-token", (":AA",), r"[0-9]{10}:AA[\w-]{33}(?![\w-])", lead=10),
    SecretPattern("telegram-token", (":AA",), r"[0-9]{9}:AA[\w-]{33}(?![\w-])", lead=9),
    *_token(
        "vendor-token",
        *((f"do{letter}_v1_", "[0-9a-f]{64}") for letter in "opr"),
        ("dapi", "[0-9a-f]{32}(?:-[0-9])?"),
        *((f"dp.{kind}.", "[A-Za-z0-9.-]{40,}") for kind in ("pt", "st", "ct", "scim", "audit")),
        *((f"hv{letter}.", f"{_WORD}{{24,}}") for letter in "sbr"),
        ("lin_api_", "[A-Za-z0-9]{32,}"),
        ("ntn_", "[A-Za-z0-9]{40,}"),
        ("secret_", "[A-Za-z0-9]{43}"),
        *((f"shp{kind}_", "[0-9a-fA-F]{32}") for kind in ("at", "ca", "pa", "ss")),
        ("sq0atp-", f"{_WORD}{{22}}"),
        ("sq0csp-", f"{_WORD}{{43}}"),
        ("PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}"),
        *((f"pscale_{kind}_", r"[\w.=-]{32,}") for kind in ("tkn", "pw", "oauth")),
        ("sbp_", "[0-9a-f]{40}"),
        ("sb_secret_", f"{_WORD}{{20,}}"),
        ("glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
        ("glc_", "[A-Za-z0-9+/]{32,}={0,2}"),
        ("sntrys_", r"[\w+/=-]{32,}"),
        ("sntryu_", "[0-9a-f]{64}"),
        ("NRAK-", "[A-Z0-9]{27}"),
        ("ATATT3", r"[\w=-]{60,}"),
        ("ATCTT3", r"[\w=-]{60,}"),
        ("figd_", f"{_WORD}{{40}}"),
        ("gsk_", "[A-Za-z0-9]{40,}"),
        ("xai-", "[A-Za-z0-9]{60,}"),
        ("pplx-", "[A-Za-z0-9]{40,}"),
        ("r8_", "[A-Za-z0-9]{37,40}"),
        ("fo1_", f"{_WORD}{{43}}"),
        ("fm2_", r"[\w+/=-]{60,}"),
        ("dckr_pat_", f"{_WORD}{{24,}}"),
        ("dckr_oat_", f"{_WORD}{{24,}}"),
        ("nfp_", "[A-Za-z0-9]{36,}"),
        ("rubygems_", "[0-9a-f]{48}"),
        ("tskey-", "[a-z]{2,12}-[A-Za-z0-9-]{20,}"),
        ("AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"),
        ("AKCp", "[A-Za-z0-9]{64,}"),
        ("HRKU-", f"{_WORD}{{30,}}"),
        ("bkua_", "[0-9a-f]{40}"),
        ("CCIPAT_", r"[A-Za-z0-9]{20,}_[0-9a-f]{40}"),
        ("lsv2_", "(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
        ("EAAC", "[A-Za-z0-9]{80,}"),
        ("pat-na1-", "[0-9a-f-]{36}"),
        ("tvly-", f"{_WORD}{{28,}}"),
        ("ops_eyJ", r"[\w-]{60,}"),
        ("sha256~", f"{_WORD}{{43}}"),
        ("phx_", "[A-Za-z0-9]{40,}"),
        ("rnd_", "[A-Za-z0-9]{28,}"),
        ("shippo_live_", "[0-9a-f]{40}"),
        ("nvapi-", f"{_WORD}{{60,}}"),
    ),
    SecretPattern(
        "connection-password",
        ("://",),
        r"://[^\s:/@'\"<>\\]{0,128}:(?P<secret>[^\s/@'\"<>\\]{1,256}(?:@[^\s/@'\"<>\\:]{1,64}(?=@))?)@(?=[\w.\[-])",
        whole_word=False,
        judge="url-password",
    ),
    SecretPattern(
        "bearer-token",
        ("bearer",),
        r"bearer[ \t]{1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})",
        any_case=True,
        judge="bearer",
    ),
    SecretPattern(
        "basic-auth", ("basic ",), r"basic[ \t]{1,4}(?P<secret>[A-Za-z0-9+/]{8,}={0,2})", any_case=True, judge="basic"
    ),
    SecretPattern(
        "authorization",
        ("authorization",),
        r"authorization\\{0,3}['\"]?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}['\"]?"
        r"(?:(?:token|apikey|key|aws|sso-key)[ \t]{1,4})?"
        r"(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})",
        any_case=True,
        judge="bearer",
    ),
    SecretPattern(
        "assignment",
        ("pass", "pwd", "secret", "token", "key", "credential"),
        r"(?P<name>(?:pass(?:w|_?phrase|_?code|(?=\b|_|[A-Z\"'=:\\ ]))|pwd|secret|token|key|credential)"
        r"[A-Za-z0-9_-]{0,40})"
        r"(?:\\{0,3}['\"`]\]?)?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}"
        r"(?:\\{0,3}(?P<quote>['\"`])(?P<quoted>[^\s'\"`\\]{4,512})|(?P<bare>[^\s'\"`,;&<>()\[\]{}|\\$]{4,512}))",
        any_case=True,
        whole_word=False,
        judge="assignment",
    ),
    SecretPattern(
        "assignment",
        ("--pass", "--pwd", "--secret", "--token", "--api", "--auth", "--access", "--client", "--key", "--db-pass"),
        r"--(?P<name>[a-z][a-z-]{2,30})[ \t=]{1,4}"
        r"(?:(?P<quote>['\"])(?P<quoted>[^\s'\"]{4,512})|(?P<bare>[^\s'\"<>$]{4,512}))",
        judge="assignment",
    ),
)

_MARK: Final = b"[redacted:"
_PLACEHOLDER: Final = re.compile(
    rb"[<{$%\[*].*|.*(?:\*{3}|x{4}|\.{3}|\xe2\x80\xa6).*"
    rb"|(?:your|my|the|some|insert|enter|put|replace|change|example|sample|dummy|placeholder|fake|todo|test)[-_ .].*"
    rb"|(?:change_?me|password|passwd|secret|token|string|none|null|undefined|true|false|redacted|hidden|required|optional)"
    rb"|.*(?:[-_](?:here|goes))",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z0-9_]*)+")
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
_PART: Final = re.compile(rb"[-_./:+~=@ ]+")
_WORDY: Final = re.compile(rb"[a-z]*(?:[A-Z][a-z]+){0,8}[A-Z]?|[A-Z]+|[0-9]{1,4}|v[0-9]{1,3}|[A-Za-z]{1,3}[0-9]{1,2}")
_LOCATION: Final = re.compile(
    rb"(?:https?|file|s3|gs|arn|urn|projects|secrets|vault|ref|env|op)(?::|/).*|[./~].*|sha\d+[-:].*", re.I
)

_NAME_OF_PASSWORD: Final = re.compile(r"pass(?:w|_?phrase|_?code)|pwd|(?:^|[_.-])pass$|[a-z]pass$")
_NAME_OF_KEY: Final = re.compile(
    r"(?:api|access|secret|private|encryption|encrypt|decryption|signing|sign|auth|account|shared|master|service|app"
    r"|application|storage|deploy|client|admin|subscription|webhook|hmac|aes|ssh|license|integration|session|root|server"
    r"|write|read|ingest|project|user|rsa|jwt|cookie|crypto|vault|wireguard|preshared)"
    r"[_. -]?key(?:s|_?base64|_?value|_?secret)?$"
)
_NAME_OF_SECRET: Final = re.compile(
    r"secret(?:s|[_-]?(?:key|token|value|base64|access[_-]?key|string|phrase|key[_-]?base))?\d?$|credentials?$"
)
_NAME_OF_TOKEN: Final = re.compile(r"token(?:s|[_-]?(?:secret|value|key))?\d?$")
# Tokens that are no secrets: places in a list, and counts of what models read
_NAME_OF_OTHER: Final = re.compile(
    r"(?:page|next|prev|previous|cursor|continu\w*|sync|start|resume|pagina\w*|change|delta|watch|idempoten\w*|cancel\w*"
    r"|progress|max|min|num|total|input|output|prompt|completion|public|pub|design|pad|eos|bos|stop|special|client_request)"
    r"[_. -]?(?:\w{0,12}[_-])?(?:token|key|secret)"
)


def name_type(name: str) -> str | None:
    """The type of secret that a variable, header or member of this name would hold."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if _NAME_OF_OTHER.search(plain):
        return None
    if _NAME_OF_PASSWORD.search(plain):
        tail = re.split(r"pass(?:word|wd|wort|_?phrase|_?code)?|pwd", plain)[-1]
        return (
            "password"
            if re.fullmatch(r"[\d_-]{0,3}|s|[_-]?(?:value|plain|text|plaintext|confirm\w*|new|old)", tail)
            else None
        )
    for kind, pattern in (("api-key", _NAME_OF_KEY), ("secret", _NAME_OF_SECRET), ("token", _NAME_OF_TOKEN)):
        if pattern.search(plain):
            return kind
    return None


def is_placeholder(value: bytes) -> bool:
    """Is this where a secret would go, or where one was, and not a secret?"""
    return value.startswith(_MARK) or _PLACEHOLDER.fullmatch(value) is not None


def looks_secret(kind: str, value: bytes, *, quoted: bool) -> bool:
    """Would someone who names it so keep such a value secret? Words, paths, expressions and ids are left alone."""
    if is_placeholder(value) or _LOCATION.fullmatch(value) or (not quoted and _CODE.fullmatch(value)):
        return False
    if kind == "password":
        return _looks_like_password(value)
    if _UUID.fullmatch(value):
        return kind == "api-key"
    return looks_random(value)


def _looks_like_password(value: bytes) -> bool:
    if not 6 <= len(value) <= 256 or re.search(rb"(?i)passw|secret|token|param|field|input", value):
        return False
    classes = [re.search(kind, value) is not None for kind in (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9_.\-/]")]
    if sum(classes) < 2 or not (classes[2] or classes[3]):
        return False
    return bits_per_byte(value) * len(value) >= 14 and re.fullmatch(rb"[A-Za-z]+[:!?.,;*]+|[0-9.,:%/-]+", value) is None


def looks_random(value: bytes) -> bool:
    """Long and mixed enough to be a key."""
    if not 16 <= len(value) <= 1024 or not re.fullmatch(rb"[A-Za-z0-9_+/=.~:!@#%^*?-]+", value):
        return False
    if not (re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value)):
        return False
    if all(_WORDY.fullmatch(part) for part in _PART.split(value)):
        return False
    return bits_per_byte(value) >= (2.8 if _HEX.fullmatch(value) else 3.2)


def looks_like_basic_auth(value: bytes) -> bool:
    """Does it decode to user:password?"""
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in decoded and len(decoded) > 4 and all(0x20 <= byte < 0x7F for byte in decoded)


def bits_per_byte(value: bytes) -> float:
    """Shannon's entropy of the bytes."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
