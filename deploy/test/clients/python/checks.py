"""Runs checks of a client and prints how each went, as the harness reads it."""

import asyncio
import inspect
import json
import os
import traceback

BASE_URL = os.environ["BASE_URL"]
API_KEY = os.environ["API_KEY"]
MODEL = os.environ["MODEL"]

# Every tool gives back one of these words; the last answer must hold both.
WORDS = {"get_weather": "word-sunny", "get_time": "word-noon"}

TWO_TOOLS = "[two tools] Tell the weather and the time."
STRUCTURED = "[structured] Who is it?"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)

_checks = []


def fake(text="Go on.", **behaviour):
    """A prompt that tells the fake provider how to behave."""
    return json.dumps({"fake": behaviour}, separators=(",", ":")) + "\n" + text


def check(work):
    _checks.append(work)
    return work


def expect_words(text):
    for word in WORDS.values():
        assert word in (text or ""), f"{word} is not in {text!r}"


def run():
    for work in _checks:
        try:
            found = work()
            if inspect.isawaitable(found):
                asyncio.run(found)
            print(f"ok {work.__name__}", flush=True)
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            says = f"{type(error).__name__}: {error} ({place.name}:{place.lineno})".replace("\n", " ")
            print(f"failed {work.__name__} {says[:600]}", flush=True)
