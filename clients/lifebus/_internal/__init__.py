"""Parts of the client library that users do not import."""
