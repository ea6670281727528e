"""The training script that does nothing until the harness hangs up."""

import consumer

conversation = consumer.Conversation()
while conversation.hear() is not None:
    pass
