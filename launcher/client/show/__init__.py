"""Tables and figures for terminals and pages: one value, and its renderers. It knows no subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.show.fitted_text import (
        NOTE_COLUMN,
        Style,
        fitted,
        note_lines,
        plain_style,
        shortened,
        table_text,
        text_columns,
    )
    from launcher.client.show.page_blocks import (
        Block,
        Cell,
        DotSeries,
        JobsPage,
        PageBar,
        PageCard,
        PageLine,
        PageSection,
        bars_block,
        chart_block,
        facts_block,
        list_block,
        most_points,
        scatter_block,
        table_block,
        text_block,
        thin,
    )
    from launcher.client.show.page_file import page_html
    from launcher.client.show.table import (
        Markup,
        Note,
        Table,
        escaped,
        labelled,
        notes_html,
        rows_html,
        table_html,
    )
    from launcher.client.show.value_text import (
        csv_line,
        csv_lines,
        json_text,
        readable,
        short_number,
    )

__getattr__ = open_door(__name__)
