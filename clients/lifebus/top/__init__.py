"""`lifebus top`: sessions, receipts, consumers and questions on one screen, live (docs/top.md)."""
