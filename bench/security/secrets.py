"""Secrets: how many are redacted, what is redacted wrongly, and what hostile text costs. Out: a Section.

The development data come from a folder (`--data`); a second set is generated here with random values, in contexts and
among hard negatives of its own. Touches the clock, .tools/peers (detect-secrets, installed on demand) and, to count
wrong findings in real text, the Python files of this environment.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from race.peers import install, program
from security.section import Section

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.redact import RedactPolicy, redact_json
from leafgate.clean.secrets import DEFAULT_PATTERNS

DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "security"
DETECT_SECRETS: Final = "detect-secrets==1.5.0"
MB: Final = 1 << 20
_TOKEN_JUDGES: Final = ("token", "checksum", "mixed")
# Without the table of kinds: what the general rules find of kinds that nobody has listed
UNLISTED: Final = RedactPolicy(tuple(each for each in DEFAULT_PATTERNS if each.judge not in _TOKEN_JUDGES))

_ALPHABETS: Final = {
    "h": "0123456789abcdef",
    "d": "0123456789",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "U": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "w": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
}
# <a36>: 36 random characters of an alphabet above
TOKENS: Final = """ghp_<a36> github_pat_<a22>_<a59> glpat-<w20> AKIA<U16> AIza<w35> xoxp-<d12>-<d12>-<d12>-<h32> sk_live_<a24>
rk_live_<a24> sk-proj-<w74>T3BlbkFJ<w74> sk-ant-api03-<w93>AA gsk_<a52> hf_<a34> r8_<a37> pplx-<a48> xai-<a80> npm_<a36>
pypi-AgEIcHlwaS5vcmc<w80> SG.<w22>.<w43> key-<h32> <h32>-us<d2> dop_v1_<h64> dapi<h32> hvs.<w90> lin_api_<a40> ntn_<a46>
secret_<a43> pat<a14>.<h64> sq0csp-<w43> sbp_<h40> glc_<a60> sntrys_<a80> NRAK-<U27> ATBB<a32> sl.<w130> EAAC<a120> fo1_<w43>
nfp_<a36> CCIPAT_<a22>_<h40> pul-<h40> HRKU-AA<w58> rnd_<a32> vcp_<a56> lsv2_pt_<h32>_<h10> pcsk_<a5>_<a63> tvly-dev-<a32> fc-<h32>
e2b_<h40> re_<a8>_<a24> xkeysib-<h64>-<a16> shpss_<h32> EZAK<a54> duffel_live_<w43> phx_<a43> glsa_<a32>_<h8> squ_<h40>
AGE-SECRET-KEY-1<U58> LTAI<a20> figd_<w40> tfp_<w44> rubygems_<h48> oy2<l43> cio<a32> AVNS_<w19> rdme_<l70> dt0c01.<U24>.<U64>
xaat-<h8>-<h4>-<h4>-<h4>-<h12> hcaik_01<l56> nvapi-<w64> jina_<h32><a27> csk-<l48> tgp_v1_<w43> apify_api_<a36>""".split()
# Kinds that no table can list: beginnings made up here
UNKNOWN: Final = """acme_live_<a32> acme_sk_<a40> zorbpat_<a40> qx_api_<l40> bluefin-<a40> nimbus_secret_<h40> vela_pat_<w40> orb-token-<a36>
kestrel_prod_<a32> juno_key_<a32> tidal_<a48> mx_tok_<a32>""".split()
CONTEXTS: Final = {
    "sentence": "We use {} until Monday, then it is rotated.",
    "argument": 'connect("{}", retries=3)',
    "YAML": "app:\n  setting: {}\n  replicas: 2\n",
    "line in JSON": '{{"file": ".env", "content": "# settings\\n{}\\nDEBUG=1\\n"}}',
    "code in Markdown": "Type `login {}` and wait.",
    "shell log": "+ export VALUE={}; make deploy",
    "URL": "GET https://api.example.com/v2/list?size=9&z={}&page=1",
    "table": "| name | value |\n|---|---|\n| main | {} |",
}
PASSWORDS: Final = r"""DB_PASSWORD={}|password: {}|"password": "{}"|<password>{}</password>|<entry key="password">{}</entry>|pwd={};
The new password is {} for now.|Passwort: {}|mot de passe : {}|login bob password {}|CREATE USER bob IDENTIFIED BY '{}';
ALTER ROLE bob PASSWORD '{}'|curl -u bob:{} https://intra.example|sshpass -p {} ssh root@h|db.local:5432:app:bob:{}
user,password\nbob,{}|mysql -u root -p{} app|redis://:{}@cache:6379/0|Server=db;Uid=sa;Pwd={};|define('DB_PASSWORD', '{}');
setPassword("{}")|- name: DB_PASSWORD\n  value: {}\n|PGPASSWORD={} psql|docker login -u bob -p {}|passphrase = "{}"
"user": "bob",\\n"passwd": "{}"|spring.datasource.password={}|SMTP_PASS='{}'|--password={}|<add key="ApiPassword" value="{}"/>""".replace("\n", "|").replace("||", "|").split("|")  # fmt: skip
NEGATIVES: Final = """password = getpass.getpass()|token = os.environ["API_TOKEN"]|password: ${{DB_PASSWORD}}|api_key: <your-api-key>|API_KEY=your-api-key
const token = await getToken(user);|if password != other_password:|password: str = Field(min_length=8)|"password": "Enter your password"
Authorization: Bearer <token>|export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE|aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
"integrity": "sha512-<b86>=="|resolved "https://r.example/a/-/a-1.0.0.tgz#<h40>"|sha256:<h64>|commit <h40>|ETag: "<h32>"|uid: <h8>-<h4>-4<h3>-a<h3>-<h12>
"cursor": "<w44>"|nextPageToken: <w52>|data:image/png;base64,iVBORw0KGgo<b200>|<link href="/static/main.<h8>.css">|ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI<b43> ann@host
cache-key: linux-node-<h64>|"msg_id": "msg_01<a22>"|"customer": "cus_<a14>"|"intent": "pi_3<a23>"|requests==2.32.3 --hash=sha256:<h64>|go.sum h1:<b43>=
secretKeyRef: {{name: db, key: password}}|The password is required.|Your password must have at least 8 characters.|token_type: bearer|max_tokens=4096
password=********|token: [redacted]|"public_key": "<b43>="|{{"kty":"RSA","n":"<w200>","e":"AQAB"}}|.a{{background:url(img/<h20>.png)}}|var a=function(b,c){{return b.key===c.token}}
PASSWORD_RESET_URL=https://example.com/reset|vault kv get secret/data/db|op://vault/item/password|secretName: api-tls-2026|tokenizer = "o200k_base"
Passwords are hashed with bcrypt.|key: value|primary_key: order_id_2026|sk-...|ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx|npm_config_registry=https://r.example/""".replace("\n", "|").split("|")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A text or JSON value, and the secret in it; without one it must come out unchanged."""

    kind: str
    value: Mapping[str, Any]
    secret: str | None


Redact = Callable[[Case], Any]  # the value without its secrets


def _fill(template: str, draw: random.Random) -> str:
    alphabets = _ALPHABETS | {"b": _ALPHABETS["a"] + "+/"}
    return re.sub(
        r"<([hdlUawb])(\d+)>", lambda match: "".join(draw.choices(alphabets[match[1]], k=int(match[2]))), template
    )


def generate(seed: int = 16) -> dict[str, list[Case]]:
    """Return the generated sets: listed kinds, kinds that no table lists, passwords, and text that must stay."""
    draw = random.Random(seed)

    def tokens(templates: Iterable[str]) -> Iterator[Case]:
        for template in templates:
            for context in CONTEXTS.values():
                secret = _fill(template, draw)
                yield Case(template, {"text": context.format(secret)}, secret)

    def passwords() -> Iterator[Case]:
        for context in PASSWORDS:
            for _ in range(4):
                body = "".join(draw.choices(_ALPHABETS["a"], k=9))
                secret = f"{draw.choice('QXZKW')}{body}{draw.choice('!#*?')}{draw.randrange(10, 99)}"
                yield Case(context, {"text": context.replace("\\n", "\n").format(secret)}, secret)

    def negatives() -> Iterator[Case]:
        for template in NEGATIVES:
            text = _fill(template.replace("{{", "{").replace("}}", "}"), draw)
            yield from (Case(template, {"text": each}, None) for each in (text, json.dumps({"log": f"start\n{text}\n"})))

    return {
        "tokens of listed kinds": list(tokens(TOKENS)),
        "tokens of kinds that no table lists": list(tokens(UNKNOWN)),
        "passwords in context": list(passwords()),
        "must stay": list(negatives()),
    }


def read_cases(file: Path) -> list[Case]:
    """Return the cases of a file of the development data."""
    entries = map(json.loads, file.read_text("utf-8").splitlines())
    return [
        Case(
            entry["kind"],
            {key: entry[key] for key in ("text", "structured") if key in entry},
            entry["secret"] if entry["expect"] == "redact" else None,
        )
        for entry in entries
    ]


def is_redacted(case: Case, value: Any) -> bool:
    """Is no third of the secret left?"""
    left = value.get("text", "") + json.dumps(value.get("structured"), ensure_ascii=False)
    secret = case.secret or ""
    size = max(1, -(-len(secret) // 3))
    return not any(secret[at : at + size] in left for at in range(len(secret) - size + 1))


def score(cases: Sequence[Case], redact: Redact) -> tuple[str, list[str]]:
    """Return the share of secrets redacted, or of texts changed, and the kinds that are wrong."""
    secrets = [case for case in cases if case.secret]
    others = [case for case in cases if not case.secret]
    missed = [case.kind for case in secrets if not is_redacted(case, redact(case))]
    changed = [case.kind for case in others if redact(case) != case.value]
    parts = []
    if secrets:
        parts.append(f"{100 * (1 - len(missed) / len(secrets)):.1f} % of {len(secrets)}")
    if others:
        parts.append(f"{100 * len(changed) / len(others):.1f} % of {len(others)} changed")
    return ", ".join(parts), [*dict.fromkeys(missed + changed)]


_PEER: Final = """
import json, sys
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings
with default_settings():
    for line in sys.stdin:
        found = [s.secret_value for part in json.loads(line).splitlines() for s in scan_line(part)]
        print(json.dumps([value for value in found if value]))
"""


def read_peer(cases: Sequence[Case]) -> Redact | str:
    """Return how detect-secrets redacts these cases: what it finds is replaced. Or what went wrong."""
    problem = install(DETECT_SECRETS)
    if problem:
        return problem
    texts = [case.value.get("text") or json.dumps(case.value.get("structured")) for case in cases]
    ran = subprocess.run(
        [str(program(DETECT_SECRETS, "python")), "-c", _PEER],
        input="".join(json.dumps(text) + "\n" for text in texts), capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if ran.returncode:
        return f"failed: {ran.stderr.strip()[-160:]}"
    results = {}
    for case, text, line in zip(cases, texts, ran.stdout.splitlines(), strict=True):
        clean = text
        for value in json.loads(line):
            clean = clean.replace(value, "[found]")
        results[id(case)] = case.value if clean == text else {"text": clean}
    return lambda case: results[id(case)]


def count_wrong_findings(limit: int = 10 * MB) -> tuple[int, int, list[str]]:
    """Return bytes, findings and examples in the Python files of this environment, which hold no real secrets."""
    files = sorted(Path(random.__file__).parent.rglob("*.py")) + sorted(Path(sys.prefix).rglob("*.py"))
    random.Random(7).shuffle(files)
    searcher = RedactPolicy().searcher
    size, findings, examples = 0, 0, []
    for file in files:
        data = file.read_bytes()
        spans = searcher.find(data).spans
        size += len(data)
        findings += len(spans)
        examples += [f"{kind} in {file.name}" for _, _, kind in spans]
        if size > limit:
            break
    return size, findings, examples


def worst_inputs(size: int) -> Iterator[tuple[str, str]]:
    """Yield for each pattern the texts that cost it most: its beginning repeated, cut short, and before a long run."""
    for pattern in DEFAULT_PATTERNS:
        start = pattern.starts[0]
        units = [f"{start}aB3dE5fG7!"]
        if pattern.judge not in _TOKEN_JUDGES:  # tokens are all searched in the same way
            units += [start, f"{start} ", f"{start}=", f'{start}": "ab', f"{start},a\n"]
        for unit in units:
            yield f"{pattern.type}: {unit!r}", (unit * (size // len(unit) + 1))[:size]
        yield f"{pattern.type}: {start!r} and a long run", (start + "aB3dE5fG7hJ9" * (size // 12 + 1))[:size]


def measure_hostile_text(size: int) -> tuple[float, list[tuple[float, str]]]:
    """Return the time of prose of this size, and for each worst input its time as a multiple of that."""
    draw = random.Random(1)
    words = "the of gateway reads a long report about rivers bridges and people who built them nobody knew why".split()
    prose = " ".join(draw.choices(words, k=size // 4))[:size]
    clean = Cleaner()
    base = min(_seconds(clean, prose) for _ in range(5))
    return base, sorted(((_seconds(clean, text) / base, name) for name, text in worst_inputs(size)), reverse=True)


def _seconds(clean: Cleaner, text: str) -> float:
    before = time.process_time()
    clean.text(text)
    return time.process_time() - before


def measure(data: Path = DATA) -> Section:
    """Measure recall and wrong redactions beside detect-secrets, findings in real code, and hostile text."""
    sets = {}
    if (data / "secrets_dev.jsonl").is_file():
        sets["development set"] = read_cases(data / "secrets_dev.jsonl")
    sets |= generate()
    every = [case for cases in sets.values() for case in cases]
    peer = read_peer(every)
    rows, notes = [], []
    for name, cases in sets.items():
        own, wrong = score(cases, lambda case: redact_json(case.value).value)
        general, _ = score(cases, lambda case: redact_json(case.value, UNLISTED).value)
        rows.append((name, own, general, peer if isinstance(peer, str) else score(cases, peer)[0]))
        if wrong:
            notes.append(f"{name}, not right: {', '.join(f'`{kind}`' for kind in wrong[:20])}".replace("\n", "\\n"))
    size, findings, examples = count_wrong_findings()
    notes.append(f"Wrong findings in {size / MB:.0f} MB of Python code: {findings} ({findings / size * MB:.2f} per MB).")
    base, ratios = measure_hostile_text(MB)
    over = sum(ratio > 20 for ratio, _ in ratios)
    notes.append(
        f"Hostile text: {len(ratios)} worst inputs of {len(DEFAULT_PATTERNS)} patterns, 1 MB each, cleaned in at most "
        f"{ratios[0][0]:.0f} times the {base * 1000:.0f} ms of prose (median {ratios[len(ratios) // 2][0]:.0f}); "
        f"{over} take more than 20 times. The worst: {'; '.join(f'`{name}` {ratio:.0f}' for ratio, name in ratios[:3])}."
    )
    notes.append("gitleaks' public rules are not measured here: they are not installed from a package.")
    return Section(
        "Secrets",
        "A secret counts as redacted if no third of it is left; a text without secrets must come out unchanged. "
        "The generated sets have random values; who made them knew the table of kinds, so the third column is the fairer "
        "guess for new kinds: leafgate without its table of kinds, with only its general rules.",
        ("set", "leafgate", "without its table of kinds", "detect-secrets 1.5.0"),
        tuple(rows),
        tuple(notes),
    )
