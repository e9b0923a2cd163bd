"""The installer: what lifebus puts into a harness's settings, and takes out again to the byte.

installer.py ─► transaction.py ─► aiming.py ─► editing.py ─► splicing.py, yaml_text.py ─► scanning.py
     │                │               what a file       text to text      positions in the text
  plan.py        records.py           is to become
  status.py      writing.py ─► disk.py
"""
