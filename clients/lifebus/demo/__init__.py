"""The demonstration: recorded sessions through real hooks into a real broker, followed, and proved complete."""
