"""Kinds of tools: for each a schema with varied names, a request, the arguments, a result and the answer.

Function and parameter names are drawn anew for every conversation, sometimes invented, so that the
only way to write a right call is to copy the names from the schema in the prompt.
"""

from dataclasses import dataclass
from typing import Callable

from . import words
from .arithmetic import is_held_out_sum
from .chat import json_text


@dataclass
class Use:
    """One use of a tool: what is asked, as a full question and as a noun phrase, and what comes of it."""

    question: str
    phrase: str  # completes "Tell me ..."; joins two uses into one request
    arguments: dict
    result: str  # what the tool returns
    answer: str  # one sentence that uses the result
    thought: str  # why the call


@dataclass
class Tool:
    """An offered function and a way to draw uses of it."""

    function: dict
    draw_use: Callable  # rng -> Use

    @property
    def name(self) -> str:
        """The function's name as the schema has it."""
        return self.function["name"]


def _function(rng, names, description, properties, optional=()):
    """A schema; the order of its keys and the extra ones vary."""
    name = rng.choice(names) if rng.random() < 0.75 else f"{words.made_up_word(rng)}_{rng.choice(names).split('_')[-1]}"
    if rng.random() < 0.08:
        name = rng.choice(("api_", "my_", "tool_", "fn_")) + name
    schema = {"type": "object", "properties": properties,
              "required": [key for key in properties if key not in optional]}
    if rng.random() < 0.15:
        schema["additionalProperties"] = False
    function = {"name": name, "description": rng.choice(description), "parameters": schema}
    if rng.random() < 0.06:
        function["strict"] = True
    if rng.random() < 0.1:  # clients order the keys as they like
        keys = list(function)
        rng.shuffle(keys)
        function = {key: function[key] for key in keys}
    return function


def _string(rng, about):
    return {"type": "string", "description": about} if rng.random() < 0.5 else {"type": "string"}


def _integer(rng, about):
    return {"type": "integer", "description": about} if rng.random() < 0.5 else {"type": "integer"}


def _result(rng, pairs: dict) -> str:
    """A result as JSON or as loose text."""
    if rng.random() < 0.7:
        return json_text(pairs)
    return ", ".join(f"{key}: {value}" for key, value in pairs.items())


def place(rng) -> str:
    """A city, one in four invented."""
    return words.made_up_word(rng).capitalize() if rng.random() < 0.25 else rng.choice(words.CITIES)


def weather(rng) -> Tool:
    """Weather of a city, on some tools with a number of days or a unit."""
    key = rng.choice(("city", "city", "location", "town", "place", "where"))
    properties = {key: _string(rng, "Name of the city")}
    extra = rng.choice((None, None, None, "days", "unit"))
    if extra == "days":
        properties["days"] = _integer(rng, "Number of days")
    elif extra == "unit":
        properties["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    function = _function(rng, ("get_weather", "get_weather", "weather", "lookup_weather", "current_weather", "forecast",
                               "get_forecast", "weather_report", "fetch_weather"),
                         ("Get the weather of a city", "Current weather for a location", "Returns the weather",
                          "Forecast for a city", "Look up the weather"), properties, ("unit",))

    def use(rng):
        city, degrees, sky = place(rng), rng.randint(-15, 39), rng.choice(words.SKIES)
        arguments, more = {key: city}, ""
        if extra == "days":
            arguments["days"] = rng.randint(2, 9)
            more = f" for the next {arguments['days']} days"
        elif extra == "unit":
            arguments["unit"] = rng.choice(("celsius", "fahrenheit"))
            more = f" in {arguments['unit']}"
        question = rng.choice(("What is the weather in {}{}?", "How is the weather in {}{}?", "Weather in {}{}?",
                               "What's the weather like in {}{}?", "Tell me the weather in {}{}.",
                               "Is it warm in {}{}?", "Please check the weather in {}{}.",
                               "I am going to {}. What will the weather be{}?")).format(city, more)
        keys = rng.choice((("temp", "sky"), ("temperature", "condition"), ("degrees", "weather"), ("temp_c", "sky")))
        return Use(question, f"the weather in {city}{more}", arguments,
                   _result(rng, {keys[0]: degrees, keys[1]: sky}),
                   f"In {city} it is {degrees} degrees and {sky}.", f"The user wants the weather in {city}.")

    return Tool(function, use)


def calculator(rng) -> Tool:
    """A calculator that takes an expression, or two numbers."""
    as_text = rng.random() < 0.6
    key = rng.choice(("expression", "formula", "input", "expr"))
    first, second = rng.choice((("a", "b"), ("x", "y"), ("left", "right"), ("first", "second")))
    properties = {key: _string(rng, "The expression to compute")} if as_text else {
        first: _integer(rng, "First number"), second: _integer(rng, "Second number")}
    sign, word = rng.choice((("*", "times"), ("+", "plus"), ("-", "minus")))
    names = ("calculate", "calculator", "compute", "evaluate", "do_math") if as_text else {
        "*": ("multiply", "product", "mul"), "+": ("add", "sum_two", "plus"), "-": ("subtract", "minus", "difference")}[sign]
    about = ("Evaluate an expression", "A calculator", "Computes a result") if as_text else (
        f"Computes {first} {word} {second}", f"Returns {first} {sign} {second}")
    function = _function(rng, names, about, properties)

    def use(rng):
        a, b = rng.randint(21, 999), rng.randint(11, 999)
        while sign == "+" and is_held_out_sum(a, b):
            b = rng.randint(11, 999)
        value = {"*": a * b, "+": a + b, "-": a - b}[sign]
        arguments = {key: f"{a} {sign} {b}"} if as_text else {first: a, second: b}
        question = rng.choice((f"What is {a} {word} {b}?", f"Compute {a} {sign} {b}.", f"Please calculate {a} {sign} {b}.",
                               f"How much is {a} {word} {b}?", f"Use the tool to work out {a} {sign} {b}."))
        return Use(question, f"the result of {a} {sign} {b}", arguments,
                   str(value) if rng.random() < 0.6 else json_text({"result": value}),
                   f"{a} {sign} {b} is {value}.", f"These are large numbers, so I use the tool for {a} {sign} {b}.")

    return Tool(function, use)


def search(rng) -> Tool:
    """A search with an optional limit."""
    key = rng.choice(("query", "query", "q", "text", "keywords"))
    properties = {key: _string(rng, "What to search for")}
    limit = rng.choice(("limit", "count", "max_results")) if rng.random() < 0.35 else None
    if limit:
        properties[limit] = _integer(rng, "How many results")
    function = _function(rng, ("search", "web_search", "search_web", "find_pages", "lookup", "search_docs"),
                         ("Search the web", "Find pages about a topic", "Searches documents"), properties, (limit,))

    def use(rng):
        topic = f"{rng.choice(words.ADJECTIVES)} {words.plural(rng.choice(words.ANIMALS + words.FRUITS + words.OBJECTS))}"
        arguments, more = {key: topic}, ""
        if limit:
            arguments[limit] = rng.randint(2, 9)
            more = f" with {arguments[limit]} results"
        title = f"{rng.choice(words.ADJECTIVES).capitalize()} {rng.choice(words.NOUNS)}"
        question = rng.choice((f"Search for {topic}{more}.", f"Find pages about {topic}{more}.",
                               f"Please look up {topic}{more}.", f"Search the web for {topic}{more}."))
        return Use(question, f"what the search finds for {topic}{more}", arguments, _result(rng, {"title": title}),
                   f'I found a page called "{title}".', f"I should search for {topic}.")

    return Tool(function, use)


def clock(rng) -> Tool:
    """The time in a city."""
    key = rng.choice(("city", "timezone", "location", "zone", "place"))
    function = _function(rng, ("get_time", "current_time", "clock", "time_in", "local_time", "what_time"),
                         ("Get the current time of a city", "Local time of a place", "Returns the time"),
                         {key: _string(rng, "Name of the city")})

    def use(rng):
        city, time = place(rng), f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
        question = rng.choice(("What time is it in {}?", "Tell me the time in {}.", "What is the local time in {}?",
                               "Time in {}?", "Is it late in {}?")).format(city)
        return Use(question, f"the time in {city}", {key: city},
                   time if rng.random() < 0.4 else _result(rng, {"time": time}),
                   f"It is {time} in {city}.", f"The user wants the time in {city}.")

    return Tool(function, use)


def convert(rng) -> Tool:
    """A unit converter: a number and two strings."""
    amount = rng.choice(("amount", "value", "number"))
    source, target = rng.choice((("from", "to"), ("from_unit", "to_unit"), ("source", "target")))
    function = _function(rng, ("convert", "convert_units", "unit_converter", "exchange", "convert_amount"),
                         ("Convert an amount between units", "Converts units", "Unit conversion"),
                         {amount: {"type": rng.choice(("number", "integer"))}, source: _string(rng, "Unit given"),
                          target: _string(rng, "Unit wanted")})

    def use(rng):
        number, value = rng.randint(2, 500), rng.randint(2, 900)
        one, other = rng.sample(words.UNITS, 2)
        question = rng.choice((f"Convert {number} {one} to {other}.", f"How much is {number} {one} in {other}?",
                               f"What are {number} {one} in {other}?", f"Please convert {number} {one} into {other}."))
        return Use(question, f"how much {number} {one} are in {other}", {amount: number, source: one, target: other},
                   str(value) if rng.random() < 0.4 else _result(rng, {"result": value}),
                   f"{number} {one} are {value} {other}.", f"I convert {number} {one} to {other}.")

    return Tool(function, use)


def message(rng) -> Tool:
    """Sending a text to a person."""
    to = rng.choice(("to", "recipient", "person", "receiver"))
    text = rng.choice(("text", "message", "body", "content"))
    function = _function(rng, ("send_message", "send_mail", "notify", "send_text", "write_to"),
                         ("Send a message to a person", "Sends a text", "Write to someone"),
                         {to: _string(rng, "Who gets it"), text: _string(rng, "What to say")})

    def use(rng):
        name = rng.choice(words.FIRST_NAMES)
        said = rng.choice((f"the {rng.choice(words.NOUNS)} is {rng.choice(words.ADJECTIVES)}",
                           f"see you on {rng.choice(words.DAYS)}", f"please bring the {rng.choice(words.OBJECTS)}",
                           f"I am in {place(rng)}", f"the code is {rng.randint(100, 9999)}"))
        question = rng.choice(('Send "{1}" to {0}.', 'Tell {0}: "{1}"', 'Write to {0}: "{1}"', 'Send {0} the message "{1}".')
                              ).format(name, said)
        return Use(question, f'whether {name} gets the message "{said}"', {to: name, text: said},
                   rng.choice(("ok", "sent", '{"status": "sent"}')), f"I sent your message to {name}.",
                   f"I should send a message to {name}.")

    return Tool(function, use)


def timer(rng) -> Tool:
    """A timer in minutes, sometimes with a label."""
    key = rng.choice(("minutes", "duration", "length_minutes", "time"))
    function = _function(rng, ("set_timer", "start_timer", "timer", "create_timer"),
                         ("Start a timer", "Sets a timer in minutes"), {key: _integer(rng, "Minutes")})

    def use(rng):
        minutes = rng.randint(1, 90)
        question = rng.choice(("Set a timer for {} minutes.", "Start a timer of {} minutes.", "Wake me in {} minutes.",
                               "Please time {} minutes.")).format(minutes)
        return Use(question, f"when {minutes} minutes are over", {key: minutes},
                   rng.choice(("ok", '{"status": "started"}', "started")),
                   f"The timer is set for {minutes} minutes.", f"I should set a timer for {minutes} minutes.")

    return Tool(function, use)


def light(rng) -> Tool:
    """A light switch: a room and a boolean."""
    room_key, on_key = rng.choice(("room", "where", "place")), rng.choice(("on", "state", "enabled", "power"))
    function = _function(rng, ("set_light", "switch_light", "light", "lamp_control", "toggle_lamp"),
                         ("Switch the light of a room", "Turns a lamp on or off"),
                         {room_key: _string(rng, "Name of the room"), on_key: {"type": "boolean"}})

    def use(rng):
        room, is_on = rng.choice(words.ROOMS), rng.random() < 0.5
        word = "on" if is_on else "off"
        question = rng.choice((f"Turn {word} the light in the {room}.", f"Switch the {room} light {word}.",
                               f"Please turn the light in the {room} {word}."))
        return Use(question, f"that the light in the {room} is {word}", {room_key: room, on_key: is_on},
                   rng.choice(("ok", "done", '{"status": "done"}')), f"The light in the {room} is {word}.",
                   f"I should turn the light in the {room} {word}.")

    return Tool(function, use)


def translate(rng) -> Tool:
    """A translator."""
    text, language = rng.choice(("text", "word", "phrase")), rng.choice(("language", "target", "to", "lang"))
    function = _function(rng, ("translate", "translate_text", "translator"),
                         ("Translate a text", "Translates into a language"),
                         {text: _string(rng, "Text to translate"), language: _string(rng, "Language wanted")})

    def use(rng):
        word = f"{rng.choice(words.ADJECTIVES)} {rng.choice(words.NOUNS)}"
        wanted, result = rng.choice(words.LANGUAGES), f"{words.made_up_word(rng)} {words.made_up_word(rng)}"
        question = rng.choice((f'Translate "{word}" to {wanted}.', f'How do you say "{word}" in {wanted}?',
                               f'What is "{word}" in {wanted}?', f'Please translate "{word}" into {wanted}.'))
        return Use(question, f'how to say "{word}" in {wanted}', {text: word, language: wanted},
                   result if rng.random() < 0.4 else _result(rng, {"translation": result}),
                   f'"{word}" in {wanted} is "{result}".', f"I should translate into {wanted}.")

    return Tool(function, use)


def stock(rng) -> Tool:
    """The price of a share or of goods."""
    key = rng.choice(("symbol", "item", "product", "ticker", "name"))
    function = _function(rng, ("get_price", "price_of", "stock_price", "lookup_price", "quote"),
                         ("Get the price of an item", "Current price", "Looks up a price"),
                         {key: _string(rng, "What to look up")})

    def use(rng):
        symbol = words.made_up_word(rng)[:4].upper() if rng.random() < 0.5 else rng.choice(words.FOODS + words.OBJECTS)
        price = rng.randint(1, 999)
        question = rng.choice(("What is the price of {}?", "How much does {} cost?", "Price of {}?",
                               "Look up the price of {}.")).format(symbol)
        return Use(question, f"the price of {symbol}", {key: symbol},
                   str(price) if rng.random() < 0.4 else _result(rng, {"price": price}),
                   f"The price of {symbol} is {price}.", f"The user wants the price of {symbol}.")

    return Tool(function, use)


def invented(rng) -> Tool:
    """A function whose name and parameters mean nothing: only copying helps."""
    name = words.made_up_word(rng, rng.randint(1, 3))
    if rng.random() < 0.5:
        name += "_" + words.made_up_word(rng, 1)
    keys = rng.sample(("level", "mode", "name", "size", "key", "colour", "count", "label", "speed", "id", "path", "note"),
                      rng.randint(1, 3))
    if rng.random() < 0.4:
        keys[0] = words.made_up_word(rng, 1)
    kinds = {key: rng.choice(("string", "integer", "boolean")) for key in keys}
    function = {"name": name, "description": rng.choice(("Runs " + name, "Does the " + name, "Internal function")),
                "parameters": {"type": "object", "properties": {key: {"type": kind} for key, kind in kinds.items()},
                               "required": keys}}

    def use(rng):
        values = {key: {"string": rng.choice(words.COLOURS + words.ANIMALS + words.METALS + [words.made_up_word(rng)]),
                        "integer": rng.randint(0, 500), "boolean": rng.random() < 0.5}[kind] for key, kind in kinds.items()}
        spoken = " and ".join(f"{key} {json_text(v) if not isinstance(v, str) else v}" for key, v in values.items())
        question = rng.choice((f"Call {name} with {spoken}.", f"Run {name} with {spoken}.", f"Use {name}: {spoken}.",
                               f"Please call {name} with {spoken}."))
        outcome = rng.choice((str(rng.randint(0, 9999)), words.made_up_word(rng), "ok"))
        return Use(question, f"what {name} returns for {spoken}", values, outcome,
                   f"{name} returned {outcome}.", f"I should call {name}.")

    return Tool(function, use)


KINDS = (weather, weather, weather, calculator, calculator, search, clock, clock, convert, message, timer, light, translate,
         stock, invented, invented)
