"""Child processes as clients: started from argument lists, asked over their streams, always ended."""
