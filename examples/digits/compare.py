"""Train with the data group and without it, and draw `launcher compare` of the two as SVG.

    python prepare.py && python compare.py compare.svg      minutes, with nothing else running

The jobs stay, as any other: `launcher report digits-job`.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from launcher import compare

HERE = Path(__file__).parent
#: Enough epochs for some windows of steps, which the intervals need.
EPOCHS = 15
#: The first one is the one that the other is compared with.
JOBS = {"digits-job-homogeneous": "job-homogeneous.yaml", "digits-job": "job.yaml"}
#: rich's own, without its fonts from a network: a page shows it in the reader's.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>launcher compare: digits without a data group, and with one</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect width="100%" height="100%" rx="8" fill="#292929"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the SVG")
    file = parser.parse_args().file
    for name, job in JOBS.items():
        train(name, HERE / job)
    draw(str(compare(*JOBS)), file)


def train(name: str, job: Path) -> None:
    """Run a job under a name, in place of an earlier one."""
    launcher = (sys.executable, "-m", "launcher")
    subprocess.run([*launcher, "rm", name], capture_output=True, check=False)
    epochs = ("--set", f"hyperparameters.epochs={EPOCHS}")
    command = [*launcher, "run", str(job), "--local", "--name", name, *epochs]
    subprocess.run(command, check=True)


def draw(text: str, file: Path) -> None:
    """Write text as the picture of a terminal."""
    names = f"launcher compare {' '.join(JOBS)}"
    width = max(map(len, [names, *text.splitlines()[:12]])) + 4
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False)
    console.print(f"[bold]$ {names}[/bold]")
    for line in text.splitlines():
        console.print(line, style="bold" if line.startswith("price per") else "", markup=False)
    svg = console.export_svg(
        title="launcher compare", theme=SVG_EXPORT_THEME, code_format=SVG, unique_id="compare"
    )
    file.write_text(svg)


if __name__ == "__main__":
    main()
