"""`launcher completion`: print the shell's completion script."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from launcher.client.cli.screen.verb_output import print_message

#: Instructions for loading the script at the start of each shell.
_INSTRUCTIONS = {
    "bash": "Put this line into ~/.bashrc:\n  source <(launcher completion bash)",
    "zsh": "Put this line into ~/.zshrc, after compinit:\n  source <(launcher completion zsh)",
    "fish": "Write it to fish's completions folder:\n"
    "  launcher completion fish > ~/.config/fish/completions/launcher.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTRUCTIONS)))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete launcher.

    It completes verbs, options, job files, and the names, groups and hosts of jobs on this machine.
    bash (4.4 or newer) and zsh read it with a line in ~/.bashrc or ~/.zshrc, after compinit:
    source <(launcher completion SHELL). fish reads ~/.config/fish/completions/launcher.fish.
    """
    from launcher.client.cli import main  # a circular import at the top: main loads this file

    kind = get_completion_class(shell)
    assert kind is not None, "click supports all three"
    # Not kind.source(): for bash, click would first run the bash on PATH to learn its version.
    script = kind(main, {}, "launcher", "_LAUNCHER_COMPLETE")
    click.echo(script.source_template % script.source_vars())
    if sys.stdout.isatty():
        print_message(_INSTRUCTIONS[shell])
