"""An outsider's package: a session for the machines in our attic, of which there are none yet."""
