"""Receipts as spans and log records of OpenTelemetry: the mapping, and its form on the wire (docs/traces.md)."""
