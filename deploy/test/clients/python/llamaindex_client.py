from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from checks import API_KEY, BASE_URL, MODEL, TWO_TOOLS, WORDS, check, expect_words, run

llm = OpenAILike(
    model=MODEL,
    api_base=f"{BASE_URL}/v1",
    api_key=API_KEY,
    is_chat_model=True,
    is_function_calling_model=True,
    context_window=128_000,
    max_retries=0,
)


def get_weather(where: str) -> str:
    """Tells the weather."""
    return WORDS["get_weather"]


def get_time(where: str) -> str:
    """Tells the time."""
    return WORDS["get_time"]


tools = [FunctionTool.from_defaults(get_weather), FunctionTool.from_defaults(get_time)]


@check
def chat():
    assert llm.chat([ChatMessage(role="user", content="Hi")]).message.content


@check
def stream():
    assert list(llm.stream_chat([ChatMessage(role="user", content="Hi")]))[-1].message.content


@check
def two_tools():
    history = [ChatMessage(role="user", content=TWO_TOOLS)]
    for _ in range(3):
        answer = llm.chat_with_tools(tools, chat_history=history)
        calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        if not calls:
            break
        history.append(answer.message)
        for call in calls:
            result = {"get_weather": get_weather, "get_time": get_time}[call.tool_name](**call.tool_kwargs)
            history.append(ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id}))
    expect_words(answer.message.content)


run()
