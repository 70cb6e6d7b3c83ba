"""`python -m leafgate.cli` runs the `leafgate` command."""

from leafgate.cli.main import main

main()
