"""Reading a dataset on the author's machine, for `launcher check --data`.

One process reads the first samples as a loader outside a data group does. Another one prepares each
of them again, the last ones first.
"""
