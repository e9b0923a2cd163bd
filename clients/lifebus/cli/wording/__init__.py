"""Refusals in words of users: those of the parser, and details of the contract."""
