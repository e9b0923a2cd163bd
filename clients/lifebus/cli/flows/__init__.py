"""`lifebus flow`: flows checked, run, followed and steered."""
