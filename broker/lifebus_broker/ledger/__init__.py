"""Where receipts are recorded: in memory for a moment, or in SQLite for good (design 4).

Above: bus, daemon.  Below: fold, the ports, the contract; APSW only in the modules called sqlite*.
"""
