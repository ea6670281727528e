"""The rows of the table: each module measures one, with `measure(bench) -> figures`."""
