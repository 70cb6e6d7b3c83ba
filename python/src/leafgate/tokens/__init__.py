"""Tokenizer maps, encoders, and the judgement of ids."""

from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import TokenMap, read_map
from leafgate.tokens.verify import check

__all__ = ["Encoder", "TokenMap", "check", "make_encoder", "read_map"]
