"""The systems that lifebus is measured against, each started by the bench itself."""
