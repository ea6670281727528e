"""Run the `launcher` command as `python -m launcher.cli`."""

from launcher.cli import main

main(prog_name="launcher")
