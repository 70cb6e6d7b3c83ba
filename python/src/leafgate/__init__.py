"""leafgate: an MCP gateway that keeps a model's context small, clean and already tokenized."""
