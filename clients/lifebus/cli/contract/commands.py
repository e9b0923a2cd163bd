"""`lifebus contract`: documents, manifests, events, and what adapters have to fulfil."""

from cyclopts import App

app = App(name="contract")
_HERE = "lifebus.cli.contract"
app.command(f"{_HERE}.validate:validate", name="validate", help="Check documents against the contract.")
app.command(f"{_HERE}.validate:schema", name="schema", help="Print the JSON Schema of a document.")
app.command(f"{_HERE}.negotiate:negotiate", name="negotiate", help="Ask what an adapter gives for requirements.")
app.command(f"{_HERE}.manifest:app", name="manifest", help="What each adapter claims.")
app.command(f"{_HERE}.events:events", name="events", help="List the events; show the facts and receipts of one.")
app.command(f"{_HERE}.manifest:conform_app", name="conform", help="Check an adapter, or a runtime of Loa workflows.")
