"""What the gateway counts since it began."""

from msgspec import Struct


class GatewayCounters(Struct):
    """Requests and streams; `ended_slow` are streams that ended because their client did not read."""

    requests: int = 0
    refused: int = 0
    streams: int = 0
    ended_slow: int = 0

    def as_status(self) -> dict[str, int]:
        """Return the counters as `status` names them."""
        return {
            "gateway_requests": self.requests,
            "gateway_requests_refused": self.refused,
            "gateway_streams": self.streams,
            "gateway_streams_slow": self.ended_slow,
        }
