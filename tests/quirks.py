"""What real chat servers answer, word for word, where they differ from OpenAI's form.

Names tell the server: `LLAMA_CPP` is llama.cpp's own server, `LLAMA_CPP_PYTHON` is llama-cpp-python's.
"""

from __future__ import annotations

from typing import Any

from modelserver import Reply, events, stream_reply

PATH = "/models/SmolLM2-135M-Instruct.Q4_1.gguf"


def _whole(message: dict[str, Any], finish_reason: str, **more: Any) -> dict[str, Any]:
    choice = {"finish_reason": finish_reason, "index": 0, "message": message, **more}
    return {"choices": [choice], "created": 1, "model": PATH, "object": "chat.completion"}


def _call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, "id": call_id}


# A call: empty content, pretty-printed arguments, an id without the usual prefix, more usage than asked for.
LLAMA_CPP_CALL = {
    **_whole(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [_call("move", '{\n    "direction": "up"\n}', "uXtxAGIVOaPetRkvNGewAhARz0NBkGYG")],
        },
        "tool_calls",
    ),
    "system_fingerprint": "b0-unknown",
    "usage": {
        "completion_tokens": 19,
        "prompt_tokens": 223,
        "total_tokens": 242,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
    "timings": {"prompt_n": 223, "prompt_ms": 1406.2, "predicted_n": 19},
}
LLAMA_CPP_CALL_WITHOUT_ARGUMENTS = _whole(
    {"role": "assistant", "content": "", "tool_calls": [_call("look", "{\n    }", "q8F0bJz2rXlW")]}, "tool_calls"
)
# A call beside the legacy form of another one; no "refusal", content null.
LLAMA_CPP_PYTHON_CALL = _whole(
    {
        "content": None,
        "tool_calls": [
            {
                "id": "call__0_move_cmpl-a469da3e-0b7e",
                "type": "function",
                "function": {"name": "move", "arguments": '{"direction": "up"}'},
            }
        ],
        "role": "assistant",
        "function_call": {"name": "look:", "arguments": '{"direction": "up"}'},
    },
    "tool_calls",
    logprobs=None,
)
# A call cut by max_tokens: broken arguments, and a finish reason that does not say so.
LLAMA_CPP_PYTHON_CUT_CALL = _whole(
    {"content": None, "tool_calls": [_call("move", '{"direction": "', "call__0_move_cmpl-1")], "role": "assistant"},
    "tool_calls",
)
# The same from llama.cpp: the markup leaks as text, and there are no tool calls at all.
LLAMA_CPP_CUT_CALL = _whole({"role": "assistant", "content": "<tool_call>\n"}, "length")
# tool_choice "none": raw markup as content.
LLAMA_CPP_NO_CHOICE = _whole(
    {"role": "assistant", "content": '<tool_call>\n{"name": "move", "arguments": {}}\n</tool_call>'}, "stop"
)
# tool_choice "required" with a template that knows no tools: text all the same.
LLAMA_CPP_REQUIRED = _whole({"role": "assistant", "content": "I will move up."}, "stop")
# tool_choice naming a tool that is not offered: another tool is called.
LLAMA_CPP_OTHER_TOOL = _whole(
    {"role": "assistant", "content": "", "tool_calls": [_call("move", '{"direction":"up"}', "Zk0")]}, "tool_calls"
)
# The prompt fits the context and the answer does not: the total is the context's size.
LLAMA_CPP_ANSWER_CUT = {
    **_whole({"role": "assistant", "content": "and then"}, "length"),
    "usage": {"prompt_tokens": 2040, "completion_tokens": 8, "total_tokens": 2048},
}
# No call, said with null.
LLMOCK_TEXT = _whole({"role": "assistant", "content": "", "tool_calls": None, "refusal": None}, "stop")

LLAMA_CPP_CONTEXT = Reply(
    {
        "error": {
            "code": 400,
            "message": "request (9031 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9031,
            "n_ctx": 2048,
        }
    },
    400,
)
LLAMA_CPP_PYTHON_CONTEXT = Reply(
    {
        "error": {
            "message": "This model's maximum context length is 2048 tokens. However, you requested 9138 tokens "
            "(9010 in the messages, 128 in the completion). Please reduce the length of the messages or completion.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    400,
)
LLAMA_CPP_BAD_KEY = Reply({"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}, 401)
LLAMA_CPP_PYTHON_BAD_KEY = Reply({"detail": "Invalid API key"}, 401)
LLAMA_CPP_LOADING = Reply({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
LLAMA_CPP_NOT_FOUND = Reply({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404)
LLAMA_CPP_PYTHON_NOT_FOUND = Reply({"detail": "Not Found"}, 404)
LLAMA_CPP_PYTHON_NOT_ALLOWED = Reply({"detail": "Method Not Allowed"}, 405)
LLAMA_CPP_BAD_SCHEMA = Reply(
    {
        "error": {
            "code": 400,
            "message": "Unable to generate parser for this template. JSON schema conversion failed:\n"
            "unrecognized type objekt",
            "type": "invalid_request_error",
        }
    },
    400,
)
LLAMA_CPP_TOO_MANY = Reply(
    {
        "error": {
            "code": 400,
            "message": "Field 'n': Value must be between 1 <= value <= 1, but got 2",
            "type": "invalid_request_error",
        }
    },
    400,
)
# Faults of the request that come as 5xx.
LLAMA_CPP_BAD_HISTORY = Reply(
    {
        "error": {
            "code": 500,
            "message": "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error",
            "type": "server_error",
        }
    },
    500,
)
LLAMA_CPP_PYTHON_NAMELESS = Reply(
    {"error": {"message": "", "type": "internal_server_error", "param": None, "code": None}}, 500
)
LLAMA_CPP_PYTHON_UNKNOWN_TOOL = Reply(
    {
        "error": {
            "message": "Tool with name 'nope' not found in tools",
            "type": "internal_server_error",
            "param": None,
            "code": None,
        }
    },
    500,
)
LLAMA_CPP_PYTHON_NULL_CONTENT = Reply(
    {
        "error": {
            "message": "[{'type': 'string_type', 'loc': ('body','messages',2,'ChatCompletionRequestAssistantMessage',"
            "'content'), 'msg': 'Input should be a valid string', 'input': None}]",
            "type": "internal_server_error",
            "param": None,
            "code": None,
        }
    },
    500,
)
LLAMA_CPP_PYTHON_BAD_BODY = Reply("Internal Server Error", 500, {"Content-Type": "text/plain; charset=utf-8"})
LLMOCK_RATE_LIMIT = Reply(
    {
        "error": {
            "message": "Rate limit exceeded.",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    },
    429,
    {"retry-after": "1", "retry-after-ms": "1000"},
)


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "choices": [{"finish_reason": finish_reason, "index": 0, "delta": delta}],
        "model": PATH,
        "object": "chat.completion.chunk",
    }


# The id and the name once, then pieces of arguments; the usage in a chunk without choices.
LLAMA_CPP_STREAM = stream_reply(
    events(
        [
            _chunk({"role": "assistant", "content": None}),
            _chunk({"tool_calls": [{"index": 0, **_call("move", "{", "M2vZ")}]}),
            _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"direction'}}]}),
            _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '": "up"}'}}]}),
            _chunk({}, "tool_calls"),
            {"choices": [], "usage": {"completion_tokens": 19, "prompt_tokens": 223, "total_tokens": 242}},
        ]
    )
)
# The id and the name in every delta, the legacy form beside it, a null role; no usage whatever was asked.
_REPEATED = {"id": "call__0_move_cmpl-7", "type": "function"}
LLAMA_CPP_PYTHON_STREAM = stream_reply(
    events(
        [
            _chunk({"role": "assistant", "content": None, "function_call": None, "tool_calls": None}),
            *(
                _chunk(
                    {
                        "role": None,
                        "content": None,
                        "function_call": {"name": "move", "arguments": piece},
                        "tool_calls": [
                            {"index": 0, **_REPEATED, "function": {"name": "move", "arguments": piece}},
                        ],
                    }
                )
                for piece in ('{"direction', '": "', 'up"}')
            ),
            _chunk({"role": None, "content": None, "function_call": None, "tool_calls": None}, "tool_calls"),
        ]
    )
)
# An error after the headers: status 200, an event stream, and nothing in it.
LLAMA_CPP_PYTHON_EMPTY_STREAM = stream_reply(b"")
