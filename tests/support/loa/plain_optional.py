"""What the plain runtime may leave out: compaction, logs, costs."""

from decimal import Decimal
from typing import Any

from support.loa.plain_files import Document


class Optional:
    wrong: str
    state: Document

    def on_estimateTokens(self, params: Document) -> Any:  # noqa: N802
        return {"tokens": -1 if self.wrong == "compaction.estimate" else 17}

    def on_compact(self, params: Document) -> Any:
        done = [phase["phase"] for phase in self.state["runs"][params["run_id"]]["phases"]]
        spared = [] if self.wrong == "compaction.compact" else params["preservePhases"]
        return {"phases": [name for name in done if name not in spared]}

    def on_log(self, params: Document) -> Any:
        event = dict(params["event"])
        if self.wrong == "logging.events":
            event.pop("data", None)
        self.state["logs"].setdefault(params["run_id"], []).append(event)
        return {}

    def on_logs(self, params: Document) -> Any:
        return {"events": self.state["logs"].get(params["run_id"], [])}

    def on_recordCost(self, params: Document) -> Any:  # noqa: N802
        self.state["costs"].setdefault(params["run_id"], []).append(params["cost"])
        return {}

    def on_getTotalCost(self, params: Document) -> Any:  # noqa: N802
        found = self.state["costs"].get(params["run_id"], [])
        if self.wrong == "costs.by_run" and self.state["runs"][params["run_id"]]["status"] == "completed":
            found = []
        total = {key: sum(one[key] for one in found) for key in ("tokens_input", "tokens_output", "api_calls")}
        dollars: Any = sum(Decimal(str(one["estimated_usd"])) for one in found)
        if self.wrong == "costs.total":
            dollars = sum(one["estimated_usd"] for one in found)
        return {**total, "estimated_usd": float(dollars)}
