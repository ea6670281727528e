"""Options and arguments that verbs share, and what is made of them."""
