"""Commands that look after an installation, its settings and its ledger."""
