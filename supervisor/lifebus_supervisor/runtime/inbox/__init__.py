"""Questions to people: asked and answered durably, and brought to people by the channels that are configured."""
