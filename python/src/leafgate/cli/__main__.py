"""Lets `python -m leafgate.cli` be the `leafgate` command, wherever it is installed."""

from leafgate.cli.main import main

main()
