"""The installer: what lifebus puts into a harness's settings, and takes out again to the byte.

installer.py ─► transaction.py ─► planner.py ─► formats/edit.py ─► json_edit.py, yaml_edit.py ─► json_scanner.py
     │                │          what a file       text to text       edits of the text       positions in the text
  plan.py        records.py       is to become
  status.py      writer.py ─► lifebus_broker/disk.py
"""
