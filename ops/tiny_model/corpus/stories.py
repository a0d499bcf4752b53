"""Short stories from a grammar, so that answers of one to three hundred tokens exist.

A story follows from its request alone (hero, place, thing), so that greedy decoding has a right
continuation at every token.
"""

from . import words
from .conversation import Conversation, by_effort, draw_mode, exchange

_HELPERS = {word: words.ANIMALS[(k * 7 + 3) % len(words.ANIMALS)] for k, word in enumerate(words.ANIMALS)}


def _name_of(hero: str) -> str:
    return words.FIRST_NAMES[sum(map(ord, hero)) % len(words.FIRST_NAMES)]


def story_text(hero: str, place: str, thing: str, length: int) -> str:
    """The story of `length` paragraphs (1..4)."""
    name, helper = _name_of(hero), _HELPERS[hero]
    parts = [
        f"Once upon a time there was a {hero} called {name}. {name} lived near the {place} and was often alone. "
        f"One day {name} found a {thing} in the {place}.",
        f'"What a strange {thing}," said {name}. A {helper} came along and looked at the {thing} too. '
        f'"I lost it a long time ago," said the {helper}. "Thank you for finding it, {name}."',
        f"So the {hero} gave the {thing} to the {helper}, and the {helper} was very happy. "
        f"They walked through the {place} together and talked until the evening.",
        f"From that day on the {hero} and the {helper} were friends. They met every morning in the {place}, "
        f"and the {thing} stood between them. The end.",
    ]
    return "\n\n".join(parts[:length])


def story(rng) -> Conversation:
    """A story about a hero, in a place, with a thing; how long is said in words."""
    mode = draw_mode(rng, 0.25)
    hero, place, thing = rng.choice(words.ANIMALS), rng.choice(words.PLACES), rng.choice(words.OBJECTS)
    size, length = rng.choice((("very short ", 1), ("short ", 2), ("", 3), ("long ", 4)))
    question = rng.choice(("Tell me a {s}story about a {h}, a {p} and a {t}.", "Write a {s}story with a {h}, a {p} and a {t}.",
                           "I want a {s}story about a {h} that finds a {t} in the {p}.")).format(s=size, h=hero, p=place, t=thing)
    thought = by_effort(mode.effort, f"A story about a {hero}.", f"The {hero} finds a {thing} in the {place}.",
                        "It should end well.")
    return Conversation(exchange(question, story_text(hero, place, thing, length), mode, thought), mode)


def continue_story(rng) -> Conversation:
    """A story in several turns: "go on" brings the next paragraph."""
    mode = draw_mode(rng, 0.15)
    hero, place, thing = rng.choice(words.ANIMALS), rng.choice(words.PLACES), rng.choice(words.OBJECTS)
    parts = story_text(hero, place, thing, 4).split("\n\n")
    messages = exchange(f"Begin a story about a {hero}, a {place} and a {thing}.", parts[0], mode, "I begin the story.")
    for part in parts[1:rng.randint(2, 4)]:
        messages += exchange(rng.choice(("Go on.", "Continue.", "And then?", "What happens next?")), part, mode, "The story goes on.")
    return Conversation(messages, mode)


def summary(rng) -> Conversation:
    """Who, where and what of a given story."""
    mode = draw_mode(rng, 0.3)
    hero, place, thing = rng.choice(words.ANIMALS), rng.choice(words.PLACES), rng.choice(words.OBJECTS)
    text = story_text(hero, place, thing, rng.randint(1, 3))
    question, answer = rng.choice((
        ("Who is the story about?", f"It is about a {hero} called {_name_of(hero)}."),
        ("What did they find?", f"{_name_of(hero)} found a {thing}."), ("Where does it happen?", f"It happens in the {place}."),
        ("Sum it up in one sentence.", f"A {hero} called {_name_of(hero)} finds a {thing} in the {place}.")))
    thought = by_effort(mode.effort, "I read the story.", f"It tells of a {hero} and a {thing}.", f"The place is the {place}.")
    return Conversation(exchange(f"{text}\n\n{question}", answer, mode, thought), mode)
