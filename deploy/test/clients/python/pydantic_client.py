from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from checks import API_KEY, BASE_URL, MODEL, STRUCTURED, TWO_TOOLS, WORDS, check, expect_words, run


class Person(BaseModel):
    name: str
    age: int


def get_weather(where: str) -> str:
    """Tells the weather."""
    return WORDS["get_weather"]


def get_time(where: str) -> str:
    """Tells the time."""
    return WORDS["get_time"]


def openai():
    return OpenAIProvider(base_url=f"{BASE_URL}/v1", api_key=API_KEY)


models = {
    "chat": lambda: OpenAIChatModel(MODEL, provider=openai()),
    "responses": lambda: OpenAIResponsesModel(MODEL, provider=openai()),
    "messages": lambda: AnthropicModel(MODEL, provider=AnthropicProvider(base_url=BASE_URL, api_key=API_KEY)),
}


def checks_of(name, make):
    async def two_tools():
        found = await Agent(make(), tools=[get_weather, get_time]).run(TWO_TOOLS)
        expect_words(found.output)

    async def two_tools_streamed():
        async def read(_, events):
            async for _ in events:
                pass

        found = await Agent(make(), tools=[get_weather, get_time]).run(TWO_TOOLS, event_stream_handler=read)
        expect_words(found.output)

    async def structured():
        found = await Agent(make(), output_type=Person).run(STRUCTURED)
        assert found.output == Person(name="Ada", age=36)

    for work in (two_tools, two_tools_streamed, structured):
        work.__name__ = f"{name}_{work.__name__}"
        check(work)


for name, make in models.items():
    checks_of(name, make)
run()
