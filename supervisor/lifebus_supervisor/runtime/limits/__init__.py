"""What a run uses of time, tokens and money, what is left of them, and who is asked before more is used."""
