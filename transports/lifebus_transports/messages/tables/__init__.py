"""The table of verbs by families; `verbs.VERBS` has them all.  Pure."""
