"""`python -m launcher.cli` is `launcher`."""

from launcher.cli import main

main(prog_name="launcher")
