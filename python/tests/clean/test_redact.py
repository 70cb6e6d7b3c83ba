"""Redaction: secrets are marked, typed and counted; ids, hashes, words and programs stay."""

from __future__ import annotations

import copy
import json
import random
import string
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.redact import RedactPolicy, redact_json, redact_text
from leafgate.clean.secrets import DEFAULT_PATTERNS, SecretPattern
from leafgate.cli.clean import redact as command

DATA = Path(__file__).parents[1] / "data"
BENIGN = [json.loads(line) for line in (DATA / "firewall" / "benign_texts.jsonl").read_text().splitlines()]

BODY = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"  # joined here and not written out: scanners of repositories read tests too
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY * 2}\n{BODY * 2}\n{BODY[:12]}==\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "aws-access-key": "AKIA" + "5B3DQE5FG7HJ9KL1",
    "gcp-api-key": "AIza" + (BODY + "abc"),
    "gcp-oauth": "GOCSPX-" + BODY[:28],
    "azure-client-secret": "abc8Q~" + BODY + "ab",
    "github-token": "ghp_" + BODY + "abcd",
    "gitlab-token": "glpat-" + BODY[:20],
    "slack-token": "xoxb-" + "123456789012-" + BODY[:24],
    "stripe-key": "sk_live_" + BODY[:24],
    "openai-key": "sk-proj-" + BODY * 2,
    "anthropic-key": "sk-ant-api03-" + BODY * 2,
    "huggingface-token": "hf_" + BODY + "ab",
    "npm-token": "npm_" + BODY + "abcd",
    "pypi-token": "pypi-AgE" + BODY * 2,
    "sendgrid-key": "SG." + BODY[:22] + "." + BODY + BODY[:11],
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + BODY,
    "private-key": PEM,
    "digitalocean-token": "dop_v1_" + HEX * 2,
    "telegram-token": "1234567890:AA" + BODY + "x",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_each_type_in_any_surroundings(kind: str) -> None:
    secret = SECRETS[kind]
    for before, after in (
        ("", ""),
        ("see ", "."),
        ('{"x":"', '"}'),
        ("(", ")"),
        ("a\n", "\nb"),
        ("é", "é"),
        ("x" * 500 + " ", " y" * 300),
    ):
        redacted = redact_text(before + secret + after)
        assert redacted.value == f"{before}[redacted:{kind}]{after}"
        assert redacted.report.redacted == {kind: 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", "password=[redacted:password]"),
        ('"password": "S3cr3tP@ss"', '"password": "[redacted:password]"'),
        ('{\\"pwd\\":\\"S3cr3tP@ss\\"}', '{\\"pwd\\":\\"[redacted:password]\\"}'),
        ("Server=x;Password=Abc123!;Database=y", "Server=x;Password=[redacted:password];Database=y"),
        ("DB_PASS=xyzzy123", "DB_PASS=[redacted:password]"),
        ("mysql --password hunter2 -h x", "mysql --password [redacted:password] -h x"),
        (f'api_key: "{HEX}"', 'api_key: "[redacted:api-key]"'),
        (f"X-Api-Key: {HEX}", "X-Api-Key: [redacted:api-key]"),
        (f"client_secret={BODY}", "client_secret=[redacted:secret]"),
        (f"?access_token={BODY}&x=1", "?access_token=[redacted:token]&x=1"),
        ("postgres://admin:hunter2@db:5432/app", "postgres://admin:[redacted:connection-password]@db:5432/app"),
        ("redis://:p4ss@h:1", "redis://:[redacted:connection-password]@h:1"),
        ("https://u:p%40ss@example.com", "https://u:[redacted:connection-password]@example.com"),
        (f"Authorization: Bearer {BODY}", "Authorization: Bearer [redacted:bearer-token]"),
        ("Authorization: Basic YW5uOmh1bnRlcjI=", "Authorization: Basic [redacted:basic-auth]"),
        (f"-----BEGIN PRIVATE KEY-----\n{BODY * 2}\n{BODY[:9]}", "[redacted:private-key]"),
        (f'"-----BEGIN PRIVATE KEY-----\\n{BODY * 2}\\n-----END PRIVATE KEY-----\\n"', '"[redacted:private-key]\\n"'),
        (f"-----BEGIN PRIVATE KEY-----\n{BODY * 2}\n\nText after it.", "[redacted:private-key]\n\nText after it."),
        ("пароль password=hunter2 конец", "пароль password=[redacted:password] конец"),
    ],
)  # fmt: skip
def test_secrets_by_their_surroundings(text: str, expected: str) -> None:
    assert redact_text(text).value == expected


@pytest.mark.parametrize("case", BENIGN, ids=lambda case: case["kind"])
def test_honest_text_stays(case: dict[str, str]) -> None:
    for text in (case["text"], f"{case['text']}\n" * 30):
        assert redact_text(text).value == text


def test_the_development_catalog_holds_no_secret() -> None:
    for entry in json.loads((DATA / "routing" / "dev_catalog.json").read_text()):
        assert redact_json(entry["tool"]).report.redacted == {}, entry["tool"]["name"]


PIECES = st.sampled_from(
    [*SECRETS.values(), "password=", "token: ", 'api_key="', "://u:", "@h", "Bearer ", " ", "\n", '"', "-", "_", "x",
     "[redacted:jwt]",
     "[redacted:", "]", "é", HEX, BODY, "hunter2", "-----BEGIN ", "eyJ", "key=", ";"]
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES | st.text(max_size=3), max_size=9).map("".join))
def test_redacting_twice_equals_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once.value).value == once.value
    assert sum(once.report.redacted.values()) <= once.value.count("[redacted:")


def test_json_is_read_with_its_names() -> None:
    value = {
        "password": "hunter2",
        "rows": [{"api_key": HEX, "id": HEX}],
        SECRETS["github-token"]: "x",
        "note": "plain",
    }
    before = copy.deepcopy(value)
    redacted = redact_json(value)
    assert redacted.value == {
        "password": "[redacted:password]",
        "rows": [{"api_key": "[redacted:api-key]", "id": HEX}],
        "[redacted:github-token]": "x",
        "note": "plain",
    }
    assert redacted.report.redacted == {"password": 1, "api-key": 1, "github-token": 1}
    assert value == before
    assert redact_json(redacted.value).value == redacted.value


def test_a_value_of_known_form_keeps_its_own_type() -> None:
    assert redact_json({"token": SECRETS["jwt"]}).report.redacted == {"jwt": 1}


def test_hostile_nesting() -> None:
    value: Any = "password=hunter2"
    for _ in range(100_000):
        value = [value]
    assert redact_json(value).report.redacted == {"too-deep": 1}


def test_allowed_values_stay() -> None:
    policy = RedactPolicy(allow=("hunter2", "AKIA5B3*"))
    text = f"password=hunter2 {SECRETS['aws-access-key']} password=hunter3"
    assert (
        redact_text(text, policy).value == f"password=hunter2 {SECRETS['aws-access-key']} password=[redacted:password]"
    )
    assert redact_json({"password": "hunter2"}, policy).report.redacted == {}


def test_patterns_of_the_operator() -> None:
    own = SecretPattern("badge", ("BADGE-",), r"BADGE-[0-9]{6}")
    policy = RedactPolicy(patterns=(*DEFAULT_PATTERNS, own))
    assert redact_text("my BADGE-123456 here", policy).value == "my [redacted:badge] here"
    anywhere = RedactPolicy(patterns=(SecretPattern("pin", (), r"\b[0-9]{4}\b"),))
    assert redact_text("pin 1234", anywhere).value == "pin [redacted:pin]"


def test_the_command() -> None:
    lines = b'{"text":"password=hunter2 \\ud800","structured":{"password":"hunter2"}}\nbad\n{"text":"fine"}\n'
    done = CliRunner().invoke(command, ["--allow", "x"], input=lines)
    answers = [json.loads(line) for line in done.stdout_bytes.split(b"\n")[:-1]]
    assert answers[0]["text"] == "password=[redacted:password] \ud800"
    assert answers[0]["redacted"] == [{"type": "password", "count": 2}]
    assert answers[1]["error"] == "bad-line"
    assert answers[2] == {"text": "fine", "redacted": []}


SECRET = "K9!M6mYH701#02"


@pytest.mark.parametrize(
    "text",
    [
        "The admin password is {}, please change it.",
        "Login with user admin and password {}",
        "machine api.example.com login ann password {}",
        "curl -u admin:{} https://intra.example",
        "sshpass -p '{}' ssh root@h",
        "db.example.com:5432:app:ann:{}",
        "<password>{}</password>",
        '<add key="DbPassword" value="{}"/>',
        "define('DB_PASSWORD', '{}');",
        "ALTER USER ann WITH PASSWORD '{}';",
        "CREATE USER ann IDENTIFIED BY '{}';",
        "user,password\nann,{}\nbob,none\n",
        "| user | password |\n|---|---|\n| ann | {} |",
        "- name: DB_PASSWORD\n  value: {}\n",
        "Passwort: {}",
        '{{"log": "login\\npassword={}\\nok"}}',
    ],
)
def test_passwords_in_sentences_files_tables_and_commands(text: str) -> None:
    redacted = redact_text(text.format(SECRET))
    assert redacted.value == text.format("[redacted:password]")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('keyPassword "lumiPingviini4"', "lumiPingviini4"),
        ("x=1\nstorePassword=tuuli.Myrsky77\n", "tuuli.Myrsky77"),
        ('const char* WIFI_PASSWORD = "hausboot_77";', "hausboot_77"),
        ("BORG_PASSPHRASE='seven otters in the river' borg create", "seven otters in the river"),
        ("[nas]\nusername=ann\npassword=rusty kettle 41\n", "rusty kettle 41"),
        ('haslo_bazy: "Zubr-zubr77"', "Zubr-zubr77"),
        ("La contraseña del router es arcoiris_77", "arcoiris_77"),
        ("mosquitto_sub -h mq -u silo -P Regenbogen.wind -t x", "Regenbogen.wind"),
        ("rocommunity b1rdw4tch-ro 10.0.0.0/8", "b1rdw4tch-ro"),
        ("snmp-server user nms G v3 auth sha Auth-Rondo88 priv aes 128 x", "Auth-Rondo88"),
        ("byte APPKEY[] = { 0x64,0xF7,0xE9,0x74,0xB9,0x50,0x85,0x23,0xC2,0x90,0xC7,0x2C,0x30,0x38,0x3A,0x62}", "0xE9"),
        ("https://x.example/v/weather?q=Bergen&appid=" + HEX, HEX),
        ("Twilio::REST::Client.new(sid, '" + HEX + "')", HEX),
        (".x.example\tTRUE\t/\tTRUE\t1767225600\tsessionid\t" + HEX, HEX),
        ('encryption:\n  key: "4UzOfmXZx+JiClJdcnI4aElp7WF3PsA2sIpA9QnfcF8="', "4UzOfmXZx+JiClJdcnI4aElp7WF3PsA2"),
        ("sudo pw for `svc-batch`: `gravel Pit 606`", "gravel Pit 606"),
        ("Your recovery code is 7KQ2-M4XP-9TBW", "7KQ2-M4XP-9TBW"),
    ],
)  # fmt: skip
def test_secrets_that_people_choose_and_keys_of_devices(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact_text(text).value


@pytest.mark.parametrize(
    "text",
    [
        "NAME                 TYPE     DATA   AGE\ndb-user-pass         Opaque   2      5d\n"
        "default-token-x7k2p  x/token  3      90d",
        "auth        oauth2-proxy-7c6d5f8b9c-k9m2x       1/1     Running   0          12d",
        "arn:aws:secretsmanager:us-east-1:448120038811:secret:MyApp/prod/DbPassword-a1B2c3",
        "It may leak a user's password. GHSA-xp5h-7r2q-8m4c. Severity 7.1.",
        "Product: Latitude 5440\nSerial: CN-0H8K2M-75412-31A-00LR-A00",
        '<span class="token-keyword styles__secret___2kZ9x">ok</span>',
        "Server=tcp:db,1433;User ID=app;Password=yourStrong(!)Password;",
        "Release GPG key: " + "9554F04D7259F04124DE6B476D5A82AC7E37093B",
        "https://user:pass@sub.example.com:8080/p/a/t/h?query=string#hash",
        "user key UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
        "https://x.example/gh/a/b/graph/badge.svg?token=0mToRybKx8",
        "curl -u user:password https://x.example; redis-cli -a yourpassword; snmpwalk -v2c -c public 10.0.0.1",
        '--password "your secret password"',
        'Passwort: "mindestens 8 Zeichen"',
        "pass: unit_tests_04",
        "sort_key=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]",
        "public key: 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "Backup codes: 2024-08-17",
    ],
)  # fmt: skip
def test_names_ids_and_labels_stay(text: str) -> None:
    assert redact_text(text).value == text


def test_a_word_for_a_key_does_not_reach_into_the_next_text() -> None:
    assert redact_json(["the api_key", HEX, "key", HEX]).report.redacted == {}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_at_the_start_of_a_line_in_json_text(kind: str) -> None:
    for escape in ("\\n", "\\t", "\\u001b[31m", "%3D"):
        text = f'{{"content": "first line{escape}{json.dumps(SECRETS[kind])[1:-1]}"}}'
        assert redact_text(text).report.redacted == {kind: 1}


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_" + "x" * 36,
        "token = ghp_1234567890abcdefghijklmnopqrstuvwxyz",
        "api_key: <your-api-key>",
        "password: ${DB_PASSWORD}",
        'password = f"{user}-{suffix}"',
        "postgres://user:password@localhost/db",
        'marker = "-----BEGIN PRIVATE KEY-----"',
        '"password": "Enter your new password"',
        '{"key": "deps-4005dd2058b5a92da51f77cc4194f7a4d6167f1c"}',
        "the password is required and the token is optional",
    ],
)
def test_examples_and_placeholders_stay(text: str) -> None:
    assert redact_text(text).value == text


def test_a_right_checksum_gives_a_token_away_inside_a_word() -> None:
    body = BODY[:30]
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[digit] + digits
    assert redact_text(f"_xghp_{body}{digits}").value == "_x[redacted:github-token]"
    assert redact_text(f"_xghp_{body}{'000000'}").report.redacted == {}


def test_a_token_of_an_unknown_provider() -> None:
    assert redact_text(f'use "acme_live_{BODY}"').value == 'use "[redacted:token]"'
    for text in (
        f"chunk-{BODY}",
        f"pi_{BODY[:24]}",
        f'"next_cursor": "acme_live_{BODY}"',
        "acme_live_settings_of_the_user",
    ):
        assert redact_text(text).value == text


def test_json_is_read_with_the_names_of_variables_and_columns() -> None:
    value = {
        "env": [{"name": "API_KEY", "value": BODY}, {"name": "MODE", "value": BODY}],
        "columns": ["user", "password"],
        "rows": [["ann", SECRET], ["bob", None]],
    }
    assert redact_json(value).value == {
        "env": [{"name": "API_KEY", "value": "[redacted:api-key]"}, {"name": "MODE", "value": BODY}],
        "columns": ["user", "password"],
        "rows": [["ann", "[redacted:password]"], ["bob", None]],
    }


def hostile_text(size: int, unit: Callable[[str], str]) -> str:
    """For every beginning of every pattern a block of this size that repeats it."""
    starts = dict.fromkeys(start for pattern in DEFAULT_PATTERNS for start in pattern.starts)
    return "\n".join((unit(start) * (size // len(unit(start)) + 1))[:size] for start in starts)


@pytest.mark.parametrize("after", ["", " ", "=", "aB3dE5fG7!", '": "ab'])
def test_the_time_for_hostile_text_grows_with_its_length_only(after: str) -> None:
    def seconds(size: int) -> float:
        text = hostile_text(size, lambda start: start + after)
        before = time.process_time()
        Cleaner().text(text)
        return time.process_time() - before

    seconds(64)
    # Linear: 8 times. Quadratic: 64 times.
    assert min(seconds(2048) for _ in range(2)) < 24 * max(seconds(256), seconds(256))


@pytest.mark.parametrize("unit", ["password=", "eyJ", "--pwd ", "pwd\n", "key:", "recovery  ", '"kty":', "api key "])
def test_tries_in_vain_are_bounded_in_a_long_text(unit: str) -> None:
    size = 4_000_000
    prose = ("the gateway reads a long report about rivers and bridges " * size)[:size]

    def seconds(text: str) -> float:
        times = []
        for _ in range(3):
            before = time.process_time()
            Cleaner().text(text)
            times.append(time.process_time() - before)
        return min(times)

    assert seconds((unit * size)[:size]) < 25 * seconds(prose)  # 12 to 19 were measured


def test_a_long_dump_of_secrets_is_redacted_completely() -> None:
    draw = random.Random(3)
    secrets = ["".join(draw.choices(string.ascii_letters + string.digits, k=32)) for _ in range(5000)]
    for form in ("password={}!7\n", "ghp_{}aB3d\n", "{}!7,ann\n"):
        text = "password,user\n" + "".join(map(form.format, secrets))
        redacted = redact_text(text).value
        assert [secret for secret in secrets if secret in redacted] == []
