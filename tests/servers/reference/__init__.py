"""The parts of the reference server: what it offers, one file per kind, and how it asks the client."""
