"""The four protocols that harnesses speak with a model: what a request means, and how an answer is streamed.

Each is as small as the harnesses let it be: one answer is one text or one tool call, sent in few events.
"""

import json
import uuid
from typing import Any, Protocol, cast

from lifebus.live.model.conversation import Answer, Conversation, ConversationItem, text_of

OUTPUT_TOKENS = 12
"""What every answer counts as its own length."""

Json = dict[str, Any]


class ModelProtocol(Protocol):
    """One way to ask a model."""

    def read(self, body: Json) -> Conversation:
        """Return what a request says."""
        ...

    def whole(self, answer: Answer, model: str) -> Json:
        """Return an answer in one piece."""
        ...

    def stream(self, answer: Answer, model: str) -> bytes:
        """Return an answer as server-sent events."""
        ...


def events(*found: tuple[str, Any]) -> bytes:
    """Return server-sent events; an empty name is left out."""
    lines = [
        f"event: {name}\ndata: {json.dumps(data)}\n\n" if name else f"data: {json.dumps(data)}\n\n"
        for name, data in found
    ]
    return "".join(lines).encode()


def fresh(prefix: str) -> str:
    """Return an id that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex[:20]}"


class Messages:
    """Anthropic's Messages."""

    def read(self, body: Json) -> Conversation:
        """Return what a request says."""
        items = [ConversationItem("system", text_of(body.get("system")))]
        for message in body.get("messages", []):
            content: Any = message.get("content")
            text: list[Json] = [{"type": "text", "text": content}]
            parts = cast("list[Json]", content) if isinstance(content, list) else text
            for part in parts:
                role = "tool" if part.get("type") == "tool_result" else message["role"]
                items.append(ConversationItem(role, text_of(part)))
        return Conversation(
            tuple(items), {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools", [])}
        )

    def whole(self, answer: Answer, model: str) -> Json:
        """Return an answer in one piece."""
        return self._message(answer, model) | {
            "content": [self._block(answer)],
            "stop_reason": "tool_use" if answer.tool else "end_turn",
        }

    def stream(self, answer: Answer, model: str) -> bytes:
        """Return an answer as server-sent events."""
        whole, block = self.whole(answer, model), self._block(answer)
        if answer.tool:
            empty: Json = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        else:
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": answer.text}
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        data: list[Json] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT_TOKENS}},
            {"type": "message_stop"},
        ]
        return events(*((one["type"], one) for one in data))

    def _message(self, answer: Answer, model: str) -> Json:
        usage = {
            "input_tokens": answer.tokens - answer.tokens // 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.tokens // 2,
            "output_tokens": OUTPUT_TOKENS,
        }
        return {"id": fresh("msg"), "type": "message", "role": "assistant", "model": model, "usage": usage} | {
            "stop_sequence": None
        }

    def _block(self, answer: Answer) -> Json:
        if answer.tool:
            return {"type": "tool_use", "id": fresh("toolu"), "name": answer.tool, "input": answer.arguments}
        return {"type": "text", "text": answer.text}


class Responses:
    """OpenAI's Responses."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}

    def read(self, body: Json) -> Conversation:
        """Return what a request says."""
        items = [ConversationItem("system", body.get("instructions") or "")]
        given: Any = body.get("input") or ()
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            role = "tool" if str(item.get("type")).endswith("_output") else item.get("role") or "assistant"
            items.append(ConversationItem(role, text_of(item)))
        return Conversation(tuple(items), self._tools(body.get("tools") or []))

    def whole(self, answer: Answer, model: str) -> Json:
        """Return an answer in one piece."""
        usage = {
            "input_tokens": answer.tokens,
            "input_tokens_details": {"cached_tokens": answer.tokens // 2},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.tokens + OUTPUT_TOKENS,
        }
        output = [self._item(answer)]
        return {"id": fresh("resp"), "object": "response", "status": "completed", "model": model} | {
            "output": output,
            "usage": usage,
        }

    def stream(self, answer: Answer, model: str) -> bytes:
        """Return an answer as server-sent events."""
        whole = self.whole(answer, model)
        begun: Json = {**whole, "status": "in_progress", "output": [], "usage": None}
        item = whole["output"][0]
        data: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return events(*((one["type"], one) for one in data))

    def _tools(self, listed: list[Json]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for tool in listed:
            for inner in tool.get("tools", [tool]):
                name = inner.get("name") or inner.get("type") or ""
                found[name] = inner.get("parameters") or {}
                if inner is not tool:
                    self._namespaces[name] = tool["name"]
        return found

    def _item(self, answer: Answer) -> Json:
        if not answer.tool:
            content: list[Json] = [{"type": "output_text", "text": answer.text, "annotations": []}]
            return {
                "type": "message",
                "id": fresh("msg"),
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        space = self._namespaces.get(answer.tool)
        return {
            "type": "function_call",
            "id": fresh("fc"),
            "call_id": fresh("call"),
            "name": answer.tool,
            "arguments": json.dumps(answer.arguments),
            "status": "completed",
        } | ({"namespace": space} if space else {})


class ChatCompletions:
    """OpenAI's chat completions."""

    def read(self, body: Json) -> Conversation:
        """Return what a request says."""
        items = [
            ConversationItem(message["role"], text_of(message.get("content"))) for message in body.get("messages", [])
        ]
        tools: list[Json] = body.get("tools") or []
        functions: list[Json] = [tool.get("function") or {} for tool in tools]
        return Conversation(tuple(items), {one.get("name", ""): one.get("parameters") or {} for one in functions})

    def whole(self, answer: Answer, model: str) -> Json:
        """Return an answer in one piece."""
        choice = {"index": 0, "message": self._message(answer), "finish_reason": self._reason(answer)}
        return self._base(model, "chat.completion") | {"choices": [choice], "usage": self._usage(answer)}

    def stream(self, answer: Answer, model: str) -> bytes:
        """Return an answer as server-sent events."""
        base, message = self._base(model, "chat.completion.chunk"), self._message(answer)
        if answer.tool:
            message["tool_calls"] = [{**call, "index": 0} for call in message["tool_calls"]]
        said = base | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        ended: Json = base | {"choices": [{"index": 0, "delta": {}, "finish_reason": self._reason(answer)}]}
        counted: Json = base | {"choices": [], "usage": self._usage(answer)}
        return events(("", said), ("", ended), ("", counted)) + b"data: [DONE]\n\n"

    def _base(self, model: str, kind: str) -> Json:
        return {"id": fresh("chatcmpl"), "object": kind, "created": 1, "model": model}

    def _message(self, answer: Answer) -> Json:
        if not answer.tool:
            return {"role": "assistant", "content": answer.text}
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        return {"role": "assistant", "content": None} | {
            "tool_calls": [{"id": fresh("call"), "type": "function", "function": function}]
        }

    def _reason(self, answer: Answer) -> str:
        return "tool_calls" if answer.tool else "stop"

    def _usage(self, answer: Answer) -> Json:
        total = answer.tokens + OUTPUT_TOKENS
        return {"prompt_tokens": answer.tokens, "completion_tokens": OUTPUT_TOKENS, "total_tokens": total}


class GenerateContent:
    """Google's generateContent."""

    def read(self, body: Json) -> Conversation:
        """Return what a request says."""
        items = [ConversationItem("system", text_of(body.get("systemInstruction")))]
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                role = "tool" if "functionResponse" in part else content.get("role", "user")
                items.append(ConversationItem(role, text_of(part) or json.dumps(part.get("functionResponse", ""))))
        tools: list[Json] = body.get("tools") or []
        declared: list[Json] = [one for tool in tools for one in tool.get("functionDeclarations", [])]
        return Conversation(
            tuple(items),
            {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in declared},
        )

    def whole(self, answer: Answer, model: str) -> Json:
        """Return an answer in one piece."""
        part: Json = {"text": answer.text}
        if answer.tool:
            part = {"functionCall": {"id": fresh("call"), "name": answer.tool, "args": answer.arguments}}
        usage = {
            "promptTokenCount": answer.tokens,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": answer.tokens + OUTPUT_TOKENS,
        }
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": fresh("r")}

    def stream(self, answer: Answer, model: str) -> bytes:
        """Return an answer as server-sent events."""
        return events(("", self.whole(answer, model)))
