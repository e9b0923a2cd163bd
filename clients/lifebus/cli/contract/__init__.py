"""Commands about the contract: documents, manifests, negotiation."""
