"""The broker in the background: started without a terminal, stopped, and run by the user's service manager."""
