import asyncio
import json

import httpx2 as httpx
import openai
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, MODEL, PIXEL, STRUCTURED, TWO_TOOLS, WORDS, check, expect_words, fake, run

URL = f"{BASE_URL}/v1"
client = openai.OpenAI(base_url=URL, api_key=API_KEY, max_retries=0)
PARAMETERS = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}
FUNCTIONS = [{"name": name, "description": "Tells.", "parameters": PARAMETERS} for name in WORDS]
CHAT_TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
TOOLS = [{"type": "function", "strict": False, **function} for function in FUNCTIONS]


class Person(BaseModel):
    name: str
    age: int


def user(content):
    return [{"role": "user", "content": content}]


@check
def chat_whole():
    answer = client.chat.completions.create(model=MODEL, messages=user(fake(text="Hello")))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    assert answer._request_id


@check
def chat_stream():
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model=MODEL, messages=user("Hi"), stream=True, stream_options=options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text and chunks[-1].usage.completion_tokens > 0
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


@check
def chat_stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=user("Hi")) as stream:
        kinds = {event.type for event in stream}
        assert stream.get_final_completion().choices[0].message.content
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds


@check
def chat_two_tools():
    messages = user(TWO_TOOLS)
    for _ in range(3):
        with client.chat.completions.stream(model=MODEL, messages=messages, tools=CHAT_TOOLS) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            break
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": WORDS[call.function.name]})
    expect_words(message.content)


def final_of(connection):
    text = ""
    for event in connection:
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            return event.response, text
        assert event.type not in ("error", "response.failed"), event


@check
def responses_by_socket():
    with client.responses.connect() as connection:
        more = {"input": TWO_TOOLS}
        for _ in range(3):
            connection.response.create(model=MODEL, tools=TOOLS, store=False, **more)
            response, text = final_of(connection)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            results = [
                {"type": "function_call_output", "call_id": call.call_id, "output": WORDS[call.name]} for call in calls
            ]
            more = {"input": results, "previous_response_id": response.id}
    expect_words(text)


@check
def chat_parse():
    answer = client.chat.completions.parse(model=MODEL, messages=user(STRUCTURED), response_format=Person)
    assert answer.choices[0].message.parsed == Person(name="Ada", age=36)


@check
def chat_image():
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    assert client.chat.completions.create(model=MODEL, messages=user(parts)).choices[0].message.content


@check
def responses_whole():
    answer = client.responses.create(model=MODEL, input="Hi", store=False)
    assert answer.output_text and answer.status == "completed" and answer.usage.output_tokens > 0


@check
def responses_stream():
    kinds = [event.type for event in client.responses.create(model=MODEL, input="Hi", stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds


@check
def responses_two_tools():
    history = user(TWO_TOOLS)
    for _ in range(3):
        with client.responses.stream(model=MODEL, input=history, tools=TOOLS, store=False) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_response()
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            break
        history += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
        for call in calls:
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": WORDS[call.name]})
    expect_words(answer.output_text)


@check
def responses_parse():
    answer = client.responses.parse(model=MODEL, input=STRUCTURED, text_format=Person)
    assert answer.output_parsed == Person(name="Ada", age=36)


@check
def responses_stream_parse():
    with client.responses.stream(model=MODEL, input=STRUCTURED, text_format=Person) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)


@check
def responses_image():
    parts = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
    ]
    assert client.responses.create(model=MODEL, input=user(parts)).output_text


@check
def errors_by_type():
    cases = {
        400: openai.BadRequestError,
        429: openai.RateLimitError,
        500: openai.InternalServerError,
        503: openai.InternalServerError,
    }
    for status, kind in cases.items():
        for ask in (
            lambda text: client.chat.completions.create(model=MODEL, messages=user(text)),
            lambda text: client.responses.create(model=MODEL, input=text),
        ):
            try:
                ask(fake(status=status))
            except kind as error:
                assert error.status_code == status and error.request_id, (error, error.request_id)
            else:
                raise AssertionError(f"no error for {status}")
    try:
        client.with_options(api_key="sk-wrong").models.list()
    except openai.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong key was taken")


@check
def errors_within_streams():
    broken = fake(text="a b c d e f", fault={"kind": "error-event", "afterChunks": 2})
    try:
        for _ in client.chat.completions.create(model=MODEL, messages=user(broken), stream=True):
            pass
    except openai.APIError as error:
        assert error.message, error
    else:
        raise AssertionError("no error within chat")
    kinds = []
    try:
        for event in client.responses.create(model=MODEL, input=broken, stream=True):
            kinds.append(event.type)
    except openai.APIError:
        return
    assert {"error", "response.failed"} & set(kinds), kinds


@check
def retries():
    for status, wanted in ((500, 3), (400, 1)):
        tries = []
        with httpx.Client(event_hooks={"request": [tries.append]}) as http:
            patient = openai.OpenAI(base_url=URL, api_key=API_KEY, max_retries=2, http_client=http)
            try:
                patient.chat.completions.create(model=MODEL, messages=user(fake(status=status)))
            except openai.APIStatusError:
                pass
        assert len(tries) == wanted, (status, len(tries))


@check
def timeouts():
    slow = fake(text="late", headersAfterMs=3_000)
    try:
        client.with_options(timeout=0.5).chat.completions.create(model=MODEL, messages=user(slow))
    except openai.APITimeoutError:
        return
    raise AssertionError("no timeout")


@check
async def cancel():
    patient = openai.AsyncOpenAI(base_url=URL, api_key=API_KEY, max_retries=0)
    async with patient:
        slow = user(fake(text="a b c d e f g h", gapMs=200))
        stream = await patient.chat.completions.create(model=MODEL, messages=slow, stream=True)
        async for _ in stream:
            break
        await stream.close()
        task = asyncio.ensure_future(patient.responses.create(model=MODEL, input=fake(text="x", headersAfterMs=3_000)))
        await asyncio.sleep(0.3)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return
    raise AssertionError("not cancelled")


@check
def models():
    found = [model.id for model in client.models.list()]
    assert MODEL in found, found


run()
