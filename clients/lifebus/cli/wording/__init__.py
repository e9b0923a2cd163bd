"""Words: command lines that need no parser, and refusals as users read them."""
