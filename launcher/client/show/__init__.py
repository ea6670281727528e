"""Tables and figures for terminals and pages: one value, and its renderers. It knows no subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.show.amounts import readable, short_number
    from launcher.client.show.html_renderer import escaped, notes_html, rows_html, table_html
    from launcher.client.show.json_renderer import csv_line, csv_lines, json_text
    from launcher.client.show.table import Markup, Note, Table, labelled
    from launcher.client.show.terminal_renderer import NOTE_COLUMN, note_lines, table_text

__getattr__ = open_door(__name__)
