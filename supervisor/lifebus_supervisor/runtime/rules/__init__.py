"""What follows from how a run stands, and what goes in and out of it; pure."""
