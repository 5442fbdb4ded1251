from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, MODEL, STRUCTURED, TWO_TOOLS, WORDS, check, expect_words, run


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(where: str) -> str:
    """Tells the weather."""
    return WORDS["get_weather"]


@tool
def get_time(where: str) -> str:
    """Tells the time."""
    return WORDS["get_time"]


tools = {"get_weather": get_weather, "get_time": get_time}
openai_chat = ChatOpenAI(model=MODEL, base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0, stream_usage=True)
openai_responses = ChatOpenAI(
    model=MODEL, base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0, use_responses_api=True
)
anthropic = ChatAnthropic(model=MODEL, base_url=BASE_URL, api_key=API_KEY, max_retries=0, max_tokens=1000)


def loop(model, is_stream):
    bound = model.bind_tools(list(tools.values()))
    messages = [HumanMessage(TWO_TOOLS)]
    for _ in range(3):
        if is_stream:
            answer = None
            for chunk in bound.stream(messages):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = bound.invoke(messages)
        if not answer.tool_calls:
            break
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(tools[call["name"]].invoke(call["args"]), tool_call_id=call["id"]))
    expect_words(answer.text if isinstance(answer.text, str) else answer.text())
    assert answer.usage_metadata and answer.usage_metadata["output_tokens"] > 0, answer.usage_metadata


def checks_of(name, model):
    def whole():
        loop(model, False)

    def stream():
        loop(model, True)

    def structured():
        assert model.with_structured_output(Person).invoke(STRUCTURED) == Person(name="Ada", age=36)

    for work in (whole, stream, structured):
        work.__name__ = f"{name}_{work.__name__}"
        check(work)


checks_of("chat", openai_chat)
checks_of("responses", openai_responses)
checks_of("messages", anthropic)
run()
