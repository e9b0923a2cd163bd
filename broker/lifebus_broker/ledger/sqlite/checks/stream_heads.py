"""Where every stream of a ledger file is now, in one query: what a replay of all its rows must come to."""

from typing import Final

from lifebus_broker.ledger.sqlite.schema import Execute
from lifebus_broker.state.stream_digests import Stream, StreamKey

_HEADS: Final = """
WITH newest(stream, position) AS (
  SELECT stream, max(position) FROM (
    SELECT stream, position FROM tips UNION ALL SELECT stream, position FROM bases
    UNION ALL SELECT stream, position FROM rows WHERE position > (SELECT value FROM meta WHERE key = 'pointed'))
  GROUP BY stream),
heads AS (
  SELECT n.stream, r.position, r.sequence, r.link FROM newest n CROSS JOIN rows r ON r.position = n.position
  UNION
  SELECT n.stream, b.position, b.sequence, b.link FROM newest n CROSS JOIN bases b
    ON b.stream = n.stream AND b.position = n.position)
SELECT s.adapter_id, s.harness_session_id, h.position, h.sequence, h.link FROM heads h JOIN streams s USING (stream)"""


def read_heads(execute: Execute) -> dict[StreamKey, Stream]:
    """Return the newest position, sequence and link of every stream, as of one moment.

    Raises:
        apsw.Error: the file cannot be read.
    """
    return {
        (adapter_id, session or None): Stream(position, sequence or 0, link)
        for adapter_id, session, position, sequence, link in execute(_HEADS)
    }
