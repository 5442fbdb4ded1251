"""Reads streams as the official clients do: each line a format and its events, each answer what is wrong with them."""

import json
import sys

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from openai import NOT_GIVEN
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

chunk_type = TypeAdapter(ChatCompletionChunk)
response_event_type = TypeAdapter(ResponseStreamEvent)
message_event_type = TypeAdapter(RawMessageStreamEvent)


def read_chat(events):
    state = ChatCompletionStreamState()
    for event in events:
        chunk = chunk_type.validate_python(event)
        list(state.handle_chunk(chunk))


def read_responses(events):
    state = ResponseStreamState(text_format=NOT_GIVEN, input_tools=[])
    for event in events:
        list(state.handle_event(response_event_type.validate_python(event)))


def read_messages(events):
    snapshot, buffers = None, {}
    for event in events:
        checked = message_event_type.validate_python(event)
        snapshot = accumulate_event(event=checked, current_snapshot=snapshot, json_bufs=buffers)


readers = {"openai-chat": read_chat, "openai-responses": read_responses, "anthropic-messages": read_messages}

for line in sys.stdin:
    asked = json.loads(line)
    try:
        readers[asked["dialect"]](asked["events"])
        problem = None
    except Exception as error:  # pylint: disable=broad-except
        problem = f"{type(error).__name__}: {error}"
    print(json.dumps(problem), flush=True)
