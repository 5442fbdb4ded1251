import instructor
import openai
from pydantic import BaseModel

from checks import API_KEY, BASE_URL, MODEL, STRUCTURED, check, run

client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY, max_retries=0)


class Person(BaseModel):
    name: str
    age: int


def ask(mode):
    messages = [{"role": "user", "content": STRUCTURED}]
    found = instructor.from_openai(client, mode=mode).chat.completions.create(
        model=MODEL, messages=messages, response_model=Person, max_retries=0
    )
    assert (found.name, found.age) == ("Ada", 36), found


@check
def tools():
    ask(instructor.Mode.TOOLS)


@check
def json_mode():
    ask(instructor.Mode.JSON)


@check
def json_schema():
    ask(instructor.Mode.JSON_SCHEMA)


@check
def responses_tools():
    ask(instructor.Mode.RESPONSES_TOOLS)


run()
