"""Answers that are one JSON object: under a response schema, or because the user asks for it.

Held out: the request frames in HELD_OUT_FRAMES.
"""

from . import facts as facts_of_world
from . import words
from .chat import json_text
from .conversation import Conversation, assistant, by_effort, draw_mode, exchange, system, user

_FRAMES = [
    "Answer with a JSON object with the keys {keys}.", "Reply with a JSON object with keys {keys}.",
    "Return JSON with the keys {keys}.", "Give the answer as JSON with the keys {keys}.",
    "Output a JSON object with {keys}.", "As JSON with the keys {keys}, please.", "Use JSON. Keys: {keys}.",
    "Extract {keys} as JSON.", "Write a JSON object that has the keys {keys}.",
]
_BARE_FRAMES = ["Answer in JSON.", "Reply in JSON.", "Answer as a JSON object.", "Give the answer as JSON.", "JSON only, please."]
HELD_OUT_FRAMES = ["Please answer with a JSON object that has the keys {keys}.", "Give me a JSON object with the keys {keys}."]


def _person(rng):
    name, age, city = rng.choice(words.FIRST_NAMES), rng.randint(2, 99), rng.choice(words.CITIES)
    facts = rng.choice((f"{name} is {age} years old and lives in {city}.", f"{name}, {age}, comes from {city}.",
                        f"In {city} lives {name}, who is {age}.", f"{name} from {city} is {age} years old."))
    return facts, {"name": name, "age": age, "city": city}


def _product(rng):
    item, price, colour = rng.choice(words.OBJECTS), rng.randint(1, 999), rng.choice(words.COLOURS)
    facts = rng.choice((f"The {colour} {item} costs {price} euros.", f"A {item} for {price} euros, colour {colour}.",
                        f"We sell a {colour} {item} at {price} euros."))
    return facts, {"item": item, "colour": colour, "price": price}


def _meeting(rng):
    who, day, hour = rng.choice(words.FIRST_NAMES), rng.choice(words.DAYS), rng.randint(7, 20)
    facts = rng.choice((f"Meeting with {who} on {day} at {hour}.", f"On {day} at {hour} I meet {who}.",
                        f"{who} comes on {day} at {hour} o'clock."))
    return facts, {"person": who, "day": day, "hour": hour}


def _animal(rng):
    name, animal, is_old = words.made_up_word(rng).capitalize(), rng.choice(words.ANIMALS), rng.random() < 0.5
    facts = f"{name} is {'an old' if is_old else 'a young'} {animal}."
    return facts, {"name": name, "animal": animal, "old": is_old}


def _numbers(rng):
    numbers = [rng.randint(0, 99) for _ in range(rng.randint(2, 5))]
    facts = "The numbers are " + ", ".join(map(str, numbers)) + "."
    return facts, {"numbers": numbers, "count": len(numbers)}


def _sum(rng):
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    return f"What is {a}*{b}?", {rng.choice(("answer", "result", "value")): a * b}


def _colour(rng):
    item, colour = rng.choice(words.OBJECTS), rng.choice(words.COLOURS)
    return f"The {item} is {colour}.", {"object": item, "colour": colour}


KINDS = (_person, _person, _product, _meeting, _animal, _numbers, _sum, _colour)
_TYPES = {bool: "boolean", int: "integer", str: "string"}


def schema_of(value: dict) -> dict:
    """The JSON schema that `value` obeys, all keys required."""
    properties = {}
    for key, item in value.items():
        properties[key] = {"type": "array", "items": {"type": "integer"}} if isinstance(item, list) else {
            "type": _TYPES[type(item)]}
    return {"type": "object", "properties": properties, "required": list(value)}


def spoken_keys(value: dict) -> str:
    """`a, b and c`."""
    keys = list(value)
    return keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + " and " + keys[-1]


def draw_facts(rng) -> tuple[str, dict]:
    """A sentence and the object in it, keys shuffled and, sometimes, fewer of them."""
    facts, value = rng.choice(KINDS)(rng)
    keys = list(value)
    rng.shuffle(keys)
    if len(keys) > 1 and rng.random() < 0.25:
        keys = keys[:-1]
    return facts, {key: value[key] for key in keys}


def bare_json_answer(rng) -> Conversation:
    """A question with a short answer, wanted as JSON without saying how: the key is `answer`."""
    mode = draw_mode(rng, 0.3)
    if rng.random() < 0.5:
        a, b = rng.randint(1, 20), rng.randint(1, 20)
        question, value = f"What is {a}*{b}?", a * b
    else:
        question, value, _ = facts_of_world.draw_fact(rng)
    thought = by_effort(mode.effort, "The answer must be a JSON object.", f"The answer is {value}.", "The key is answer.")
    return Conversation(exchange(f"{question} {rng.choice(_BARE_FRAMES)}", json_text({"answer": value}), mode, thought), mode)


def json_answer(rng) -> Conversation:
    """A sentence in, an object out. Sometimes the object stands in a fence because that was asked for."""
    mode = draw_mode(rng, 0.3)
    facts, value = draw_facts(rng)
    thought = by_effort(mode.effort, "The answer must be a JSON object.", f"The keys are {spoken_keys(value)}.",
                        "I write the object and nothing else.")
    answer = json_text(value)
    draw = rng.random()
    if draw < 0.4:
        schema = schema_of(value)
        if rng.random() < 0.4:
            schema["additionalProperties"] = False
        messages = [user(rng.choice(("", "", "Extract: ", "Read this: ")) + facts)]
        if rng.random() < 0.4:
            messages = [system(rng.choice(("You are a helpful assistant.", "Extract data.", "Be exact.")))] + messages
        return Conversation(messages + [assistant(answer, mode, thought)], mode, schema=schema)
    frame = rng.choice(_FRAMES).format(keys=spoken_keys(value))
    question = f"{facts} {frame}" if rng.random() < 0.6 else f"{frame} {facts}"
    if draw < 0.45:
        question += " Use a code block."
        answer = f"```json\n{answer}\n```"
    return Conversation([user(question), assistant(answer, mode, thought)], mode)
