"""serve.py MODEL PORT: an OpenAI-compatible chat endpoint on 127.0.0.1 around a tiny model, decoding greedily."""

from __future__ import annotations

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import get_training_chat_template

MOST_TOKENS = 240
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)

torch.set_num_threads(1)  # a step is too small to share, and threads that wait for each other cost more
words = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
template = get_training_chat_template(words)  # as in training: the model opens each of its messages by itself
turn = threading.Lock()


def parsed(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with arguments as objects, as templates want them."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The model's next message."""
    ids = words.apply_chat_template(
        parsed(body["messages"]),
        tools=body.get("tools"),
        chat_template=template,
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )["input_ids"]
    with turn, torch.no_grad():
        made = model.generate(ids, max_new_tokens=MOST_TOKENS, do_sample=False, pad_token_id=words.pad_token_id)
    text = words.decode(made[0, ids.shape[1] :], skip_special_tokens=True)
    calls = [call for found in CALL.findall(text) if (call := tool_call(found, body)) is not None]
    message = {"role": "assistant", "content": THOUGHT.sub("", CALL.sub("", text)).strip()}
    if calls:
        message["tool_calls"] = calls
    usage = {"prompt_tokens": ids.shape[1], "completion_tokens": made.shape[1] - ids.shape[1]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "x", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


def tool_call(text: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """A call as the endpoint answers it; None where the model wrote none."""
    try:
        call = json.loads(text)
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    except (ValueError, KeyError, TypeError):
        return None
    return {"id": f"call_{len(body['messages'])}", "type": "function", "function": function}


class Handler(BaseHTTPRequestHandler):
    """GET /v1/models and POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """The one model."""
        self.reply({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        """The model's next message."""
        self.reply(answer(json.loads(self.rfile.read(int(self.headers["content-length"])))))

    def reply(self, value: Any) -> None:
        """Answer with JSON."""
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
