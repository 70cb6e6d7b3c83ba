"""A gateway process that asks who comes, the one who issues tokens for it, and clients that show them.

Starts processes and ends them. The issuer is a key pair here; its public half is a file, as an operator would have it.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from gateways import READY_SECONDS, NotReadyError, gateway_on_http
from jwt.algorithms import RSAAlgorithm
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from warm_python import PYTHON

from leafgate.server.auth.bearer_tokens import hash_secret, new_token

ISSUER = "https://issuer.test"
AUDIENCE = "https://gateway.test/mcp"
NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}


class Issuer:
    """An authorization server, as far as its tokens go."""

    def __init__(self, kid: str = "one") -> None:
        self.kid = kid
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwk(self) -> dict[str, Any]:
        return {**json.loads(RSAAlgorithm.to_jwk(self.key.public_key())), "kid": self.kid, "use": "sig", "alg": "RS256"}

    def document(self) -> str:
        return json.dumps({"keys": [self.jwk()]})

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "dora", "iat": now, "nbf": now, "exp": now + 600}
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, *, headers: Mapping[str, Any] | None = None, **changed: Any) -> str:
        return jwt.encode(self.claims(**changed), self.key, "RS256", headers={"kid": self.kid, **(headers or {})})


@dataclass(frozen=True)
class Handed:
    """A token that the operator handed out, and its line in the configuration."""

    name: str
    secret: str
    scopes: tuple[str, ...] | None = None

    def entry(self) -> dict[str, Any]:
        scopes = {} if self.scopes is None else {"scopes": [*self.scopes]}
        return {"name": self.name, "hash": hash_secret(self.secret), **scopes}


def handed(name: str, *scopes: str) -> Handed:
    return Handed(name, new_token(), scopes or None)


@dataclass(frozen=True)
class Guarded:
    """A running gateway."""

    url: str
    log: Path
    announced: str

    def get(self, path: str, secret: str | None = None, **headers: str) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}", headers=bearer(secret) | headers, timeout=30)

    def post(self, body: Mapping[str, Any], secret: str | None = None, **headers: str) -> httpx2.Response:
        """One MCP message to the endpoint, by hand."""
        accept = {"accept": "application/json, text/event-stream"}
        return httpx2.post(f"{self.url}/mcp", json=body, headers=accept | bearer(secret) | headers, timeout=30)

    @asynccontextmanager
    async def client(self, secret: str | None, mode: str = "auto") -> AsyncIterator[Client]:
        async with httpx2.AsyncClient(headers=bearer(secret), timeout=30) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client

    @asynccontextmanager
    async def sse_client(self, secret: str | None) -> AsyncIterator[Client]:
        async with Client(sse_client(f"{self.url}/sse", headers=bearer(secret)), mode="legacy") as client:
            yield client


def bearer(secret: str | None) -> dict[str, str]:
    return {} if secret is None else {"authorization": f"Bearer {secret}"}


def write_settings(folder: Path, **settings: Any) -> Path:
    """The configuration file, whole at any moment."""
    file, draft = folder / "leafgate.yaml", folder / "draft"
    draft.write_text(json.dumps({"mcpServers": {"alpha": NOTES, "beta": NOTES}, **settings}))
    draft.replace(file)
    return file


@contextmanager
def guarded_gateway(folder: Path, *flags: str, transport: str = "http", **settings: Any) -> Iterator[Guarded]:
    """The gateway with these settings, in front of two servers of the same notes unless told otherwise."""
    file = write_settings(folder, **settings)
    log = folder / "gateway.log"
    words = ("--config", str(file), "--log-level", "debug", *flags)
    with log.open("wb") as errors:
        try:
            with gateway_on_http(*words, transport=transport, errors=errors.fileno()) as gateway:
                yield Guarded(gateway.url, log, gateway.announced)
        except NotReadyError as error:
            raise NotReadyError(f"{error}; {log.read_text()[-2000:]}") from None


@contextmanager
def header_logging_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server over HTTP that writes down what it is sent: its URL, and the file."""
    program = Path(__file__).resolve().parents[1] / "servers" / "header_log.py"
    seen = folder / "seen.jsonl"
    process = subprocess.Popen([PYTHON, str(program), str(seen)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), seen
    finally:
        process.terminate()
        process.communicate(timeout=READY_SECONDS)


@contextmanager
def serving_document(text: str) -> Iterator[str]:
    """The URL of a web server that answers every request with this text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/jwks"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
