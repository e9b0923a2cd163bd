"""Turns of workers: jobs of the type `agent_instruction`, done at the app-server of their source session."""
