"""What people say before they ask: greetings, and remarks that ask for nothing.

An opening must not change what follows, so every kind of request gets openings from the same
source: one that came only with single questions would be read as part of their meaning.
Held out: HELD_OUT_GREETINGS, as a whole message and as an opening, and HELD_OUT_OPENINGS; both are
compared by their letters alone, so that no other punctuation lets them in.
"""

from . import words

HELD_OUT_GREETINGS = ["Hello, good morning!", "Hey Tandem!", "Hi, good evening.", "Hello hello"]
HELD_OUT_OPENINGS = ["Good morning! ", "I have a question. "]

_GREETINGS = ("Hi", "Hi", "Hello", "Hello", "Hey", "Hi there", "Hello there", "Hey there", "Good morning", "Good evening",
              "Good afternoon", "Good day", "Greetings", "Howdy", "Hiya", "Welcome", "Good to see you", "Nice to meet you")
_SECONDS = ("hi", "hello", "hey", "good morning", "good evening", "good afternoon", "good day", "Tandem", "my friend", "everyone",
            "assistant", "again", "nice to meet you", "good to see you", "happy {day}", "it is me", "this is {name}",
            "I am {name}", "how are you")
_REMARKS = (
    "Please help me.", "I need your help.", "I need some help.", "I need help with something.", "Help me, please.", "Help!",
    "Here is my request.", "Here is what I need.", "This is what I want to know.", "I want to know something.", "One thing, please.",
    "Just one thing.", "One more thing.", "Something else.", "Next question.", "Another question.", "Question:", "Quick question:",
    "A short question:", "My question:", "A question for you:", "Let me ask you something.", "I would like to ask something.",
    "May I ask something?", "Can I ask you something?", "Can you help me?", "Could you help me, please?", "Do you have a minute?",
    "Are you there?", "I am curious.", "I wonder about this.", "I would like some help.", "I am in a hurry.", "I have no idea.",
    "I do not know this.", "I have little time.", "I have a problem.", "I have a task for you.", "I have an idea.", "It is late.",
    "It is for my work.", "It is for school.", "It is important.", "This is urgent.", "This is easy.", "Thanks in advance.",
    "Thank you for your help.", "You are very kind.", "Listen.", "Okay.", "Ok.", "Well.", "All right.", "Excuse me.", "Sorry.",
    "Now think.", "Please be quick.", "Be careful.", "Take your time.", "Use a tool.", "Use your tools.", "You have tools for this.",
)
_PEOPLE = ("friend", "brother", "sister", "mother", "father", "boss", "teacher", "neighbour", "doctor", "child")
_WISHES = ("wants to know this", "asked me", "is curious", "told me to ask you", "needs this", "is waiting", "does not know", "is here")


def letters(text: str) -> str:
    """The text in lower case with nothing but its words: what is compared with held-out phrasings."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def draw_greeting(rng) -> str:
    """A greeting without its final mark, never a held-out one: "Hi", "Good day, Tandem", "Hello and good evening"."""
    held_out = {letters(text) for text in HELD_OUT_GREETINGS}
    while True:
        greeting = rng.choice(_GREETINGS)
        if rng.random() < 0.5:
            second = rng.choice(_SECONDS).format(day=rng.choice(words.DAYS), name=rng.choice(words.FIRST_NAMES))
            greeting += rng.choice((" ", ", ", ", ", " and ")) + second
        if rng.random() < 0.15:
            greeting = greeting.lower()
        if letters(greeting) not in held_out:
            return greeting


def draw_remark(rng) -> str:
    """A sentence that asks for nothing: a fixed one, or one put together."""
    if rng.random() < 0.55:
        return rng.choice(_REMARKS)
    adjective, day = rng.choice(words.ADJECTIVES), rng.choice(words.DAYS)
    thing = rng.choice(words.OBJECTS + words.ANIMALS + words.NOUNS)
    verb = rng.choice(("have", "see", "bought", "like", "lost", "found", "need", "want", "sold", "had"))
    named = rng.choice(("a", "a", "the", "my", "this", "one")) + rng.choice((" ", f" {adjective} ")) + thing
    return rng.choice((
        f"I {verb} {named}.", f"I {verb} {named}.", f"My {rng.choice(_PEOPLE)} {rng.choice(_WISHES)}.", f"The {thing} is {adjective}.",
        f"There is {named}.",
        f"I am {rng.choice(words.FIRST_NAMES)}.", f"My name is {rng.choice(words.FIRST_NAMES)}.", f"Today is {day}.",
        f"It is {day}.", f"I am {adjective}.", f"We need this on {day}."))


def draw_opening(rng) -> str:
    """What stands before a request, with the space that follows it; nothing in two of five."""
    held_out = tuple(letters(text) for text in HELD_OUT_OPENINGS)
    while True:
        opening, draw = "", rng.random()
        if draw < 0.4:
            return opening
        if draw < 0.65:
            opening += draw_greeting(rng) + rng.choice("!!.") + " "
        if draw >= 0.6:
            opening += draw_remark(rng) + " "
        if draw >= 0.95:
            opening += draw_remark(rng) + " "
        if not letters(opening).startswith(held_out):
            return opening
