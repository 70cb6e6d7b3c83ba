"""Who comes in over HTTP, and what each may do: tokens, JWTs, scopes, and the layers that ask for them."""
