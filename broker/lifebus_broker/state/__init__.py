"""Pure reducers over recorded rows: what the broker knows beside the ledger (design 4.5).

Above: ledgers, router, keeper, saves, supervision.  Below: the contract and the broker's ports.
"""
