"""Commands that administer an installation, its settings and its ledger."""
