"""Small tools that are written on the library's public names alone: examples as much as commands."""
