"""Tailing what harnesses write: session logs, chat files and databases, read as they grow and never written to."""
