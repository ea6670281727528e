"""Run the command line as `python -m launcher`."""

from launcher.client.cli import main

main(prog_name="launcher")
