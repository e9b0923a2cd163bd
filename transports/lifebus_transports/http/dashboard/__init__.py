"""The dashboard: the page that the gateway serves, and what it is made of (docs/dashboard.md)."""
