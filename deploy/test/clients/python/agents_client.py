import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from agents import set_tracing_disabled
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, MODEL, STRUCTURED, TWO_TOOLS, WORDS, check, expect_words, run

set_tracing_disabled(True)


class Person(BaseModel):
    name: str
    age: int


@function_tool
def get_weather(where: str) -> str:
    """Tells the weather."""
    return WORDS["get_weather"]


@function_tool
def get_time(where: str) -> str:
    """Tells the time."""
    return WORDS["get_time"]


def agent(kind, **more):
    client = openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0)
    settings = ModelSettings(include_usage=True)
    return Agent(name="a", model=kind(model=MODEL, openai_client=client), model_settings=settings, **more)


def checks_of(name, kind):
    async def two_tools():
        found = await Runner.run(agent(kind, tools=[get_weather, get_time]), TWO_TOOLS)
        expect_words(found.final_output)

    async def two_tools_streamed():
        found = Runner.run_streamed(agent(kind, tools=[get_weather, get_time]), TWO_TOOLS)
        async for _ in found.stream_events():
            pass
        expect_words(found.final_output)

    async def structured():
        found = await Runner.run(agent(kind, output_type=Person), STRUCTURED)
        assert found.final_output == Person(name="Ada", age=36)

    for work in (two_tools, two_tools_streamed, structured):
        work.__name__ = f"{name}_{work.__name__}"
        check(work)


checks_of("chat", OpenAIChatCompletionsModel)
checks_of("responses", OpenAIResponsesModel)
run()
