import anthropic
import httpx2 as httpx
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, MODEL, PIXEL, STRUCTURED, TWO_TOOLS, WORDS, check, expect_words, fake, run

client = anthropic.Anthropic(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
SCHEMA = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}
TOOLS = [{"name": name, "description": "Tells.", "input_schema": SCHEMA} for name in WORDS]


class Person(BaseModel):
    name: str
    age: int


def ask(content, **more):
    return {"model": MODEL, "max_tokens": 1000, "messages": [{"role": "user", "content": content}], **more}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


@check
def messages_whole():
    answer = client.messages.create(**ask("Hi"))
    assert text_of(answer) and answer.stop_reason == "end_turn" and answer.usage.output_tokens > 0
    assert answer._request_id


@check
def messages_stream():
    kinds = [event.type for event in client.messages.create(**ask("Hi"), stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds


@check
def messages_stream_helper():
    with client.messages.stream(**ask("Hi")) as stream:
        assert "".join(stream.text_stream)
        assert stream.get_final_message().usage.output_tokens > 0


@check
def messages_two_tools():
    messages = [{"role": "user", "content": TWO_TOOLS}]
    for _ in range(3):
        with client.messages.stream(model=MODEL, max_tokens=1000, messages=messages, tools=TOOLS) as stream:
            answer = stream.get_final_message()
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": WORDS[call.name]} for call in calls]
        messages.append({"role": "user", "content": results})
    expect_words(text_of(answer))


@check
def messages_tool_runner():
    @anthropic.beta_tool
    def get_weather(where: str) -> str:
        """Tells the weather.

        Args:
            where: The place.
        """
        return WORDS["get_weather"]

    @anthropic.beta_tool
    def get_time(where: str) -> str:
        """Tells the time.

        Args:
            where: The place.
        """
        return WORDS["get_time"]

    messages = [{"role": "user", "content": TWO_TOOLS}]
    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=1000, messages=messages, tools=[get_weather, get_time]
    )
    expect_words(text_of(runner.until_done()))


@check
def messages_parse():
    answer = client.messages.parse(**ask(STRUCTURED), output_format=Person)
    assert answer.parsed_output == Person(name="Ada", age=36)


@check
def messages_image():
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert text_of(client.messages.create(**ask([{"type": "text", "text": "What?"}, {"type": "image", "source": source}])))


@check
def errors_by_type():
    cases = {
        400: anthropic.BadRequestError,
        429: anthropic.RateLimitError,
        500: anthropic.InternalServerError,
    }
    for status, kind in cases.items():
        try:
            client.messages.create(**ask(fake(status=status)))
        except kind as error:
            assert error.status_code == status and error.request_id, (error, error.request_id)
        else:
            raise AssertionError(f"no error for {status}")
    try:
        client.with_options(api_key="sk-wrong").messages.create(**ask("Hi"))
    except anthropic.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong key was taken")


@check
def retries():
    for status, wanted in ((500, 3), (400, 1)):
        tries = []
        with httpx.Client(event_hooks={"request": [tries.append]}) as http:
            patient = anthropic.Anthropic(base_url=BASE_URL, api_key=API_KEY, max_retries=2, http_client=http)
            try:
                patient.messages.create(**ask(fake(status=status)))
            except anthropic.APIStatusError:
                pass
        assert len(tries) == wanted, (status, len(tries))


@check
def timeouts():
    try:
        client.with_options(timeout=0.5).messages.create(**ask(fake(text="late", headersAfterMs=3_000)))
    except anthropic.APITimeoutError:
        return
    raise AssertionError("no timeout")


@check
def cancel():
    with client.messages.stream(**ask(fake(text="a b c d e f g h", gapMs=200))) as stream:
        for _ in stream.text_stream:
            break


@check
def models():
    found = [model.id for model in client.models.list(limit=1000)]
    assert MODEL in found, found


@check
def count_tokens_is_not_found():
    try:
        client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
    except anthropic.NotFoundError:
        return
    raise AssertionError("count_tokens was answered")


run()
