"""What somebody is told who may not come in. In: what is wrong. Out: a response with the header that RFC 6750 wants.

Touches nothing. Says nothing of what the caller sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from starlette.responses import JSONResponse, Response

Refused = Literal["invalid_request", "invalid_token", "insufficient_scope"]

REALM: Final = 'realm="leafgate"'
STATUS_OF: Final = {"invalid_request": 400, "invalid_token": 401, "insufficient_scope": 403}


@dataclass(frozen=True)
class Challenge:
    """A refusal; `error` is None where no token was given, which is no error yet."""

    error: Refused | None
    description: str
    scopes: Sequence[str] = ()
    metadata_url: str | None = None
    basic: bool = False

    def response(self) -> Response:
        status = 401 if self.error is None else STATUS_OF[self.error]
        body = {"error": self.error or "unauthorized", "error_description": self.description}
        response = JSONResponse(body, status, {"Cache-Control": "no-store"})
        response.headers.append("WWW-Authenticate", self.header())
        if self.basic and status == 401:
            # A person's browser can show a page only after asking for a name and a password: the token is the password.
            response.headers.append("WWW-Authenticate", f'Basic {REALM}, charset="UTF-8"')
        return response

    def header(self) -> str:
        parts = [REALM]
        if self.error is not None:
            parts += [f'error="{self.error}"', f'error_description="{self.description}"']
        if self.scopes:
            parts.append(f'scope="{" ".join(self.scopes)}"')
        if self.metadata_url is not None:
            parts.append(f'resource_metadata="{self.metadata_url}"')
        return f"Bearer {', '.join(parts)}"
