"""What a broker measures of itself, as Prometheus reads it (docs/metrics.md)."""
