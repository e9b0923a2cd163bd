"""What follows from what is known of a session: its ends, its measures, what a hook call becomes.  Pure."""
