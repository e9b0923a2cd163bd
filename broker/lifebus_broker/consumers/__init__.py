"""Durable named consumers: their positions, deliveries and filters."""
