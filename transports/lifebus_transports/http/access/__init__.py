"""Who may use the gateway: what a request has to say of itself, tokens, tickets and roles."""
