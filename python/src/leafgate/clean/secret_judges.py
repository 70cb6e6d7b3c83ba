"""The judges of matches: which parts of what a pattern matched are secrets.

A pattern finds where a secret may stand; the values decide (secret_values). Assignments are judged by their names,
cookies and tables one value at a time, base64 by what it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from leafgate.clean.secret_values import (
    MARK,
    decode_base64,
    has_checksum,
    is_example,
    is_explicit,
    is_placeholder,
    is_plain_id,
    is_public,
    is_sentence,
    looks_human,
    looks_like_basic_auth,
    looks_like_login_password,
    looks_like_otp_key,
    looks_like_phrase,
    looks_like_private_key,
    looks_like_seed_phrase,
    looks_like_token,
    looks_like_url_key,
    looks_mixed,
    looks_positional,
    looks_random,
    looks_secret,
    looks_strict,
    looks_strong,
    name_type,
    type_of_kind,
)
from leafgate.clean.secrets import SecretPattern

Span = tuple[int, int, str]  # start, end, type

JOINT: Final = b"\xff"  # stands between strings that are searched together; it does not occur in UTF-8
NEWLINE: Final = re.compile(rb"\r?\n|\\r\\n|\\n|\xff")
_SHORT_BODY: Final = 8  # a shorter last part of a token is judged with the parts before it
_PRESUMED: Final = 1000
_REJECTION: Final = 10  # so many acceptances one rejection outweighs
_MOST_DECODED: Final = 65536


@dataclass
class Verdicts:
    """The verdicts of one search: a value is judged once. `holds_secret` searches what base64 stands for.

    Where nearly all of very many values were secrets, the others count as secrets too: a dump of them is read quickly.
    """

    holds_secret: Callable[[bytes], bool]
    _by_value: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _balance: dict[Callable[..., bool], int] = field(default_factory=dict)

    def get(self, decide: Callable[..., bool], *values: object) -> bool:
        """Return what `decide` says about the values."""
        balance = self._balance.get(decide, 0)
        if balance > _PRESUMED:
            return True
        key = (decide, *values)
        verdict = self._by_value.get(key)
        if verdict is None:
            verdict = self._by_value[key] = decide(*values)
            self._balance[decide] = balance + 1 if verdict else balance - _REJECTION
        return verdict


def judge_match(source: SecretPattern, match: re.Match[bytes], data: bytes, verdicts: Verdicts) -> list[Span]:
    """Return the spans and types of what really is a secret in a match."""
    if source.judge in ("assignment", "named"):
        return list((_judge_named if source.judge == "named" else _judge_assignment)(match, data, verdicts))
    if source.judge == "cookies":
        return list(_judge_cookies(match))
    if source.judge == "insert":
        return list(_judge_insert(match, verdicts))
    group: str | int = "secret" if "secret" in match.re.groupindex else 0
    start, end = match.span(group)
    if source.judge in _IN_SENTENCES:
        end -= len(match[group]) - len(_trim(match[group]))
    secret = data[start:end]
    if secret.startswith(MARK) or is_example(secret):
        return []
    names_key = _BY_NAME_BEFORE.get(source.judge)
    if names_key and not names_key(match, data):
        return []
    if source.judge == "encoded":
        fits = _holds_secret(secret, verdicts)
    elif source.judge in _BODY_JUDGES:
        body = match["body"] if "body" in match.re.groupindex else secret
        fits = verdicts.get(_BODY_JUDGES[source.judge], body if len(body) >= _SHORT_BODY else secret)
    else:
        fits = verdicts.get(_JUDGES.get(source.judge, bool), secret)
    return [(start, end, source.type)] if fits else []


def _is_secret(kind: str, value: bytes, quoted: bool) -> bool:
    return looks_secret(kind, value, quoted=quoted)


def _is_url_password(secret: bytes) -> bool:
    return len(secret) >= 4 and not is_placeholder(secret) and secret.lower() not in (b"pass", b"pswd", b"passw0rd")


_DIGIT: Final = re.compile(rb"[0-9]")
_COMMON_OPTIONS: Final = frozenset((b"public", b"private", b"community", b"username:password"))
_BODY_JUDGES: Final[dict[str, Callable[[bytes], bool]]] = {
    "token": looks_like_token,
    "checksum": has_checksum,
    "mixed": looks_mixed,
}
_JUDGES: Final[dict[str, Callable[[bytes], bool]]] = {
    "bearer": looks_random,
    "key": lambda secret: looks_secret("api-key", secret, quoted=True),
    "basic": looks_like_basic_auth,
    "url-password": _is_url_password,
    "password": lambda secret: looks_secret("password", secret, quoted=True),
    "strong": looks_strong,
    "strict": looks_strict,
    "explicit": is_explicit,
    "prose-long": lambda secret: looks_random(secret) and len(secret) >= 20 and not is_plain_id(secret),
    "otp": looks_like_otp_key,
    "alone": lambda secret: looks_strict(secret) or (_is_long(secret) and not is_plain_id(secret)),
    "call": lambda secret: looks_positional(secret) and not is_plain_id(secret),
    "login": looks_like_login_password,
    "groups": lambda secret: not is_sentence(secret),
    "long": lambda secret: looks_random(secret) and len(secret) >= 20 and not is_placeholder(secret),
    "seed": looks_like_seed_phrase,
    "der": looks_like_private_key,
    "random": lambda secret: looks_random(secret) and not is_placeholder(secret),
    "random-mixed": lambda secret: looks_random(secret) and not is_public(secret) and looks_mixed(secret.rstrip(b"=")),
    "prose-key": lambda secret: looks_secret("token", secret, quoted=True) and not is_plain_id(secret),
    "code": lambda secret: looks_secret("code", secret, quoted=True),
    "codes": lambda secret: len(secret.split()) >= 3 or len(_DIGIT.findall(secret)) >= 8,
    "url-key": looks_like_url_key,
    "credential-line": lambda secret: is_explicit(secret) and not is_sentence(secret),
    "phrase": looks_like_phrase,
    "human": looks_human,
    "option": lambda secret: is_explicit(secret) and secret.lower() not in _COMMON_OPTIONS,
    "bare-key": lambda secret: looks_mixed(secret.rstrip(b"=")) or looks_random(secret),
    "bytes": lambda secret: len(set(secret.split(b","))) >= 12,
}
_IN_SENTENCES: Final = frozenset(("strong", "strict", "named", "prose-key", "prose-long", "alone"))
# Words before a key or behind the word for it, where it is not a secret or not a key
_NO_KEY: Final = re.compile(
    rb"(?i)public|cache|cursor|page|next|primary|foreign|sort|partition|sha-?\d|md5|hash|digest|commit|checksum|fingerprint|"
    rb"idempot|gpg|pgp|\bid\b|_id|version|request|trace|publish|site|integrity|signature of|address|txid|object|s3|"
    rb"map|contract|"
    rb"block|file|path|url|ssh-|--recv|keyserver|ecdsa|rsa key|server key|host"
)
_BARE_KEY: Final = re.compile(rb"(?i)(?:key|api)s?[^A-Za-z\x80-\xff]*\Z")
_WORD_BEFORE: Final = re.compile(
    rb"[A-Za-z0-9\x80-\xff] \Z|(?:master|secret|private|production|development|encryption|credentials)[._-]\Z"
)
_PATH: Final = re.compile(rb"[a-z]{3,}/|/|.*/.*/|.*:.*|[a-z]+-[0-9a-f]+\Z|\w*[A-Za-z]__\w+\Z", re.DOTALL)


def _is_name_of_key(match: re.Match[bytes], data: bytes) -> bool:
    """Does the name say what the key is for? A list of bytes under "key" alone is mostly a test vector."""
    name_start = start_of_word(_NAME_BEFORE, data, match.start())
    return name_type(data[name_start : match.end("name")].decode("utf-8", "replace")) in (
        "api-key",
        "secret",
        "password",
    )


def _is_no_other_key(match: re.Match[bytes], data: bytes) -> bool:
    return _NO_KEY.search(data[max(0, match.start() - 16) : match.start()]) is None


def _is_key_of_prose(match: re.Match[bytes], data: bytes) -> bool:
    start = match.start("secret")
    before = data[max(0, match.start() - 16) : start]
    if _NO_KEY.search(before):
        return False
    noun = data[match.start() : start]
    if _BARE_KEY.match(noun) and not _WORD_BEFORE.search(before[: -len(noun)]):
        return False
    return _PATH.match(match["secret"]) is None and data[match.end() : match.end() + 1] not in (b"(", b"[")


_BY_NAME_BEFORE: Final[dict[str, Callable[[re.Match[bytes], bytes], bool]]] = {
    "bytes": _is_name_of_key,
    "bare-key": _is_no_other_key,
    "prose-long": _is_key_of_prose,
}
_SENTENCE_END: Final = re.compile(rb"(?:[.,;:)\]}|*_]|\\[nrt].*)+\Z", re.DOTALL)


def _trim(secret: bytes) -> bytes:
    """Return the word without what ends a sentence or a bracket."""
    return _SENTENCE_END.sub(b"", secret)


def _holds_secret(blob: bytes, verdicts: Verdicts) -> bool:
    decoded = decode_base64(blob[:_MOST_DECODED])
    return decoded is not None and (b"PRIVATE KEY-----" in decoded or verdicts.holds_secret(decoded))


# Names

_NAME_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.-]{0,60}+")
_ESCAPE: Final = re.compile(rb"(?:\\(?:[nrtbfv0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9a-fA-F]{2}|\[[0-9;]{1,8}m)")
_BETWEEN: Final = b" \t\r\n\\'\""  # a name and its separator, or that and the value
_NAME_REVERSED: Final = re.compile(rb"[\w-]{0,40}+")
_OTHER_NAMES: Final = re.compile(
    rb"(?i)cursor|page|next|continu|etag|nonce|integrity|hash|digest|sha|checksum|(?:^|[_-])id$|_id$|[a-z]Id$|marker|sync|kid|public|"
    rb"class|src|href|filename|file|path|image|version|build|commit|revision|ref$|fingerprint"
)


def start_of_word(before: re.Pattern[bytes], data: bytes, place: int, until: int | None = None) -> int:
    """Return where the word around this place begins; `before` matches its part before it, from right to left.

    The n of a \\n before a word does not belong to it.
    """
    match = before.match(data[max(0, place - 60) : place][::-1])
    start = place - (match.end() if match else 0)
    escape = _ESCAPE.match(data, max(0, start - 1), until or place)
    return escape.end() if escape else start


def names_other(data: bytes, start: int) -> bool:
    """Is the word the value of a name that says it is something else than a secret?"""
    before = data[max(0, start - 60) : start].rstrip(_BETWEEN).removesuffix(b"W/").rstrip(_BETWEEN)
    if not before.endswith((b":", b"=")):
        return False
    name = _NAME_REVERSED.match(before[:-1].rstrip(_BETWEEN)[::-1])
    return name is not None and _OTHER_NAMES.search(name[0][::-1]) is not None


def _judge_assignment(match: re.Match[bytes], data: bytes, verdicts: Verdicts) -> Iterator[Span]:
    names = match.re.groupindex
    group = next(name for name in ("quoted", "bare", "phrase") if name in names and match.start(name) >= 0)
    start, end = match.span(group)
    is_bare = group == "bare"
    is_element = "element" in names and match.start("element") >= 0
    is_call = "call" in names and match.start("call") >= 0
    if is_bare:
        following = data[end : end + 1]
        if (
            is_call
            or following in (b"(", b"[", b"{", b"$")
            or (is_element and (following not in (b"<", b"]", b"&", b"") or match["bare"].startswith(b"@")))
        ):
            return  # a call, an index, a template: an expression that names a secret, not the secret
        while end > start and data[end - 1] == 0x2E:
            end -= 1
    name_start = start_of_word(_NAME_BEFORE, data, match.start())
    if data[name_start - 1 : name_start] == b":":
        before = data[max(0, name_start - 100) : name_start]
        if before.endswith(b"::") or _RESOURCE.search(before):
            return  # the name of a type, a part of the name of a resource
    kind = name_type(data[name_start : match.end("name")].decode("utf-8", "replace"))
    if group == "phrase" and (scheme := _SCHEME.match(data, start, end)):
        start = scheme.end()
    if kind is None or (kind != "password" and (group == "phrase" or is_call) and not looks_random(data[start:end])):
        return
    if is_bare and not is_element:
        if name_start == match.start() and match["name"].lower() == b"pass" and looks_human(data[start:end]):
            return  # the result of a test
        is_element = _is_line(data, name_start, match.end("name"), start, end)
    if verdicts.get(_is_secret, kind, data[start:end], not is_bare or is_element):
        yield start, end, type_of_kind(kind)


def _is_line(data: bytes, name_start: int, name_end: int, start: int, end: int) -> bool:
    """Is name=value all of a line, as in a file of properties? Then the value is not an expression."""
    before = data[max(0, name_start - 2) : name_start]
    is_first = not before or before.endswith((b"\n", JOINT)) or before == b"\\n"
    is_last = data[end : end + 1] in (b"", b"\n", b"\r", JOINT) or data[end : end + 2] in (b"\\n", b"\\r")
    return is_first and is_last and data[name_end:start] == b"=" and not _EXPRESSION_START.match(data, start)


_EXPRESSION_START: Final = re.compile(
    rb"(?i)(?:self|this|os|env|process|config|cfg|conf|settings|args|opts|options|params|props|ctx|context|request|req|"
    rb"var|vars|local|data|module|secrets|creds|credentials|app|user|each|random_\w+|aws_\w+)[.\[(]"
)


def _judge_named(match: re.Match[bytes], data: bytes, verdicts: Verdicts) -> Iterator[Span]:
    """Yield the value that a name has in a language without a sign of assignment: setenv, #define, requirepass."""
    start, end = match.span("secret")
    end -= len(match["secret"]) - len(_trim(match["secret"]))
    name_start = start_of_word(_NAME_BEFORE, data, match.start())
    name = data[name_start : match.end("name")]
    kind = name_type(name.decode("utf-8", "replace"))
    value = data[start:end]
    if kind is None or value.startswith(MARK) or is_plain_id(value) or _TYPED.match(value):
        return
    is_quoted = start > 0 and data[start - 1 : start] in (b'"', b"'") and data[end : end + 1] == data[start - 1 : start]
    is_config = b"_" in name or name.isupper() or match["quote"] is not None or is_quoted
    decide = looks_strong if kind == "password" and is_config else looks_strict if kind == "password" else _is_long
    if verdicts.get(decide, value):
        yield start, end, type_of_kind(kind)


_TYPED: Final = re.compile(rb"[\w.]+(?:[(\[\]<:=]|->)")


def _is_long(value: bytes) -> bool:
    return len(value) >= 20 and looks_random(value) and not is_placeholder(value)


# Cookies

_SCHEME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9]{2,11} (?=[^\s]{20,}\Z)")
_RESOURCE: Final = re.compile(rb"(?:arn|urn|crn|ocid1)[:.][^\s\"']*\Z")

_COOKIE: Final = re.compile(rb"([\w.-]{1,64}+)=([^;,\s]{16,4096}+)")
_COOKIE_NAME: Final = re.compile(rb"(?i)sess|sid$|^sid|auth|token|jwt|remember|login|identity|sso")


def _judge_cookies(match: re.Match[bytes]) -> Iterator[Span]:
    for pair in _COOKIE.finditer(match.string, *match.span("secret")):
        if _COOKIE_NAME.search(pair[1]) and not pair[2].startswith(MARK) and looks_random(pair[2]):
            yield *pair.span(2), "cookie"


# Tables

_FRAMES: Final = (b"|", b"\xe2\x94\x82")
_LONGEST_HEADER: Final = 1000
_BLANKS: Final = rb"(?<=\S) {2,}(?=\S)"
_MOST_VAIN_ROWS: Final = 1000  # rows in a row without a secret, after which the rest of a table is not read
_NUMBER: Final = re.compile(rb"[0-9][0-9.,:%]*[a-z]{0,2}")
_COLUMN: Final = re.compile(rb"[^=:(){}<>'\"\\]{1,40}|[^=:{}<>'\"\\]{1,36}\(s\)")


def read_table(place: int, data: bytes, verdicts: Verdicts) -> tuple[list[Span], int, int]:
    """Return the secrets in the rows below a header, of a CSV file or a Markdown table, the number of rows that were
    read, and where the table ends."""
    start, end = _line_start(data, place), _line_end(data, place)
    header = data[start:end] if end - start <= _LONGEST_HEADER else b""
    separator = max((*_FRAMES, b"\t", b",", b";"), key=header.count)
    split = _row_splitter(separator if separator in header else b"")
    names = [_plain_cell(cell) for cell in split(header)]
    columns = [name for name in names if name] if separator in _FRAMES else names
    above = data[_line_start(data, start - 1) : start - 1] if start else b""
    if any(map(_NUMBER.fullmatch, columns)) or (not separator and len(split(above.rstrip())) == len(names)):
        return [], 0, end  # a row
    kinds = {column: kind for column, name in enumerate(names) if (kind := name_type(name.decode("utf-8", "replace")))}
    if len(names) < 2 or not kinds or not all(map(_COLUMN.fullmatch, columns)):
        return [], 0, end
    spans: list[Span] = []
    rows = vain_rows = 0
    while (newline := NEWLINE.match(data, end)) and newline[0] != JOINT and vain_rows < _MOST_VAIN_ROWS:
        row_start, row_end = newline.end(), _line_end(data, newline.end())
        row = data[row_start:row_end]
        if _RULE.fullmatch(row):
            end = row_end
            continue
        cells = split(row)
        if len(cells) != len(names):
            break
        end = row_end
        rows += 1
        vain_rows += 1
        for column, kind in kinds.items():
            value = _plain_cell(cells[column])
            if len(value) > 3 and verdicts.get(_is_secret, kind, value, True):
                vain_rows = 0
                at = data.index(value, row_start + sum(len(cell) + len(separator) for cell in cells[:column]))
                spans.append((at, at + len(value), type_of_kind(kind)))
    return spans, rows, end


_RULE: Final = re.compile(rb"(?=.{3})[-+=|: \t]+|(?:\xe2[\x94\x95][\x80-\xbf])+")
_QUOTED_CELL: Final = rb"(?:[ ]{0,4}\\?\"(?:[^\"\\]|\"\"|\\\\)*\\?\"[ ]{0,4}|[^%s]*)(?:%s|\Z)"


def _row_splitter(separator: bytes) -> Callable[[bytes], list[bytes]]:
    """Return what splits a row into cells: at a separator that is not within quotes, or at several blanks."""
    if not separator:
        return re.compile(_BLANKS).split
    if separator not in (b",", b";"):
        return re.compile(re.escape(separator)).split
    cell = re.compile(_QUOTED_CELL % (separator, separator))

    def split(row: bytes) -> list[bytes]:
        if b'"' not in row:
            return row.split(separator)
        cells, at = [], 0
        while match := cell.match(row, at):
            cells.append(match[0].removesuffix(separator))
            at = match.end()
            if at == len(row) and not match[0].endswith(separator):
                break
        return cells if at == len(row) else row.split(separator)

    return split


_ROW: Final = re.compile(rb"\((?:[^()']|'(?:[^'\\]|\\.|'')*')*\)")
_SQL_VALUE: Final = re.compile(rb"\s*(?:N?'(?P<text>(?:[^'\\]|\\.|'')*)'|[^,()']*)\s*(?:,|\)\Z)", re.IGNORECASE)


def _judge_insert(match: re.Match[bytes], verdicts: Verdicts) -> Iterator[Span]:
    """Yield the values of an INSERT whose columns name secrets."""
    names = (name.strip(b" `'\"[]").decode("utf-8", "replace") for name in match["columns"].split(b","))
    kinds = [name_type(name) for name in names]
    if not any(kinds):
        return
    for row in _ROW.finditer(match.string, *match.span("rows")):
        values = _SQL_VALUE.finditer(match.string, row.start() + 1, row.end())
        for kind, value in zip(kinds, values, strict=False):
            if kind and value["text"] and verdicts.get(_is_secret, kind, value["text"], True):
                yield *value.span("text"), type_of_kind(kind)


def _line_end(data: bytes, place: int) -> int:
    match = NEWLINE.search(data, place)
    return match.start() if match else len(data)


def _line_start(data: bytes, place: int) -> int:
    least = max(0, place - _LONGEST_HEADER)
    breaks = [
        data.rfind(each, least, place) + len(each) for each in (b"\n", JOINT, b"\\n") if each in data[least:place]
    ]
    return max(breaks, default=least)


def _plain_cell(cell: bytes) -> bytes:
    return cell.strip(b" \t\r\\").strip(b"\"'`*").strip()
