"""The training script that does nothing until the harness hangs up."""

import consumer

connection = consumer.HarnessConnection()
while connection.receive() is not None:
    pass
