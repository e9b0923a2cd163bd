"""What runs beside the broker: the state follower, the snapshotter, retention, the scrubber, backups."""
