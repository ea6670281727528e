"""How results are drawn, on terminals and pages. It knows no subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.show.amounts import readable, short_number
    from launcher.client.show.html_renderer import escaped, html_cells, html_pairs, html_table
    from launcher.client.show.terminal_renderer import aligned

__getattr__ = open_door(__name__)
