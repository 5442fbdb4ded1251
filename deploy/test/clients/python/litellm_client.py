import json

import litellm

from checks import API_KEY, BASE_URL, MODEL, TWO_TOOLS, WORDS, check, expect_words, fake, run

PARAMETERS = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "Tells.", "parameters": PARAMETERS}}
    for name in WORDS
]
routes = {
    "chat": {"model": f"openai/{MODEL}", "api_base": f"{BASE_URL}/v1", "api_key": API_KEY},
    "messages": {"model": f"anthropic/{MODEL}", "api_base": BASE_URL, "api_key": API_KEY, "max_tokens": 1000},
}


def loop(route, is_stream):
    messages = [{"role": "user", "content": TWO_TOOLS}]
    for _ in range(3):
        answer = litellm.completion(messages=messages, tools=TOOLS, stream=is_stream, num_retries=0, **route)
        if is_stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        message = answer.choices[0].message
        if not message.tool_calls:
            break
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": WORDS[call.function.name]})
    expect_words(message.content)


def checks_of(name, route):
    def whole():
        loop(route, False)

    def stream():
        loop(route, True)

    def errors():
        try:
            messages = [{"role": "user", "content": fake(status=429)}]
            litellm.completion(messages=messages, num_retries=0, max_retries=0, **route)
        except litellm.RateLimitError:
            return
        raise AssertionError("no error")

    for work in (whole, stream, errors):
        work.__name__ = f"{name}_{work.__name__}"
        check(work)


for name, route in routes.items():
    checks_of(name, route)


@check
def responses():
    answer = litellm.responses(
        model=f"openai/{MODEL}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, input="Hi", num_retries=0
    )
    assert answer.output


run()
