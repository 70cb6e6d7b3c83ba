"""How JWTs are verified, as the operator configured it. In: `auth.jwt`. Out: a Verifier, or a ConfigError.

Touches nothing yet: files and URLs of keys are read when the first token wants them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leafgate.model.errors import ConfigError
from leafgate.server.auth.jwks_source import keys_of_file, keys_of_url
from leafgate.server.auth.jwt_verifier import DEFAULT_ALGORITHMS, JwtRules, JwtVerifier
from leafgate.server.auth.signing_keys import KEY_TYPES


def jwt_verifier(section: Mapping[str, Any]) -> JwtVerifier:
    audience = section["audience"]
    algorithms = tuple(section.get("algorithms") or DEFAULT_ALGORITHMS)
    unknown = next((name for name in algorithms if name not in KEY_TYPES), None)
    if unknown is not None:
        raise ConfigError(f"auth.jwt.algorithms: {unknown} is not one of {', '.join(KEY_TYPES)}")
    rules = JwtRules(
        issuer=section["issuer"],
        audience=(audience,) if isinstance(audience, str) else tuple(audience),
        algorithms=algorithms,
        principal_claim=section.get("principal_claim", "sub"),
    )
    jwks = section["jwks"]
    is_url = isinstance(jwks, str) and "://" in jwks
    return JwtVerifier(rules, keys_of_url(jwks) if is_url else keys_of_file(Path(jwks)))
