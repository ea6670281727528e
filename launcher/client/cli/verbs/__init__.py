"""The verbs, one file each: they read their options and print."""
