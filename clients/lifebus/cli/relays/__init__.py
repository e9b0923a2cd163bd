"""Commands that hand receipts on to others, each under a name whose place the broker remembers."""
