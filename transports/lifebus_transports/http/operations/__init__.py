"""The routes of the gateway: a table of what each takes and answers, and what serves it."""
