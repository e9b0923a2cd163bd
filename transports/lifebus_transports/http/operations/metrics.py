"""The route of the metrics, as Prometheus reads them (docs/metrics.md)."""

from collections.abc import Callable
from typing import Final

from lifebus_transports.http.operations.operation import Operation, RouteRequest, Served

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of Prometheus' text format."""

OPERATIONS = (
    Operation(
        name="metrics",
        method="GET",
        path="/metrics",
        summary="Gives the broker's metrics in the text format of Prometheus.",
        tag="broker",
        answers={200: str},
        media=MEDIA,
    ),
)


def served(metrics: Callable[[], str]) -> Served:
    """Return what serves it; `metrics` returns the text."""

    async def read(_: RouteRequest) -> str:
        return metrics()

    return {"metrics": read}
