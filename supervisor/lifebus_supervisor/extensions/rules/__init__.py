"""What is decided about extensions: found, read, judged, put in order; pure."""
