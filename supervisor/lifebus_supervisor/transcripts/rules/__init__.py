"""What follows for a transcript from an upsert, from a signal and from its bounds; pure."""
