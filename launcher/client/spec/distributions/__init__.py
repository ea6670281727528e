"""The ways to spread training over processes: one class each, which `registry` lists."""
