"""Filler text: sentences without facts that anybody asks for, of a wanted length.

Each text draws its own small vocabulary and its own kind, so that neither the words nor the rhythm
of the filler can be learnt by heart.
"""

from . import words

_FRAMES = [
    "The {a} {n} {v} the {m}.", "{p} {v} a {a} {n} near the {l}.", "Every {d} the {n} was {a}.",
    "In the {l} there was a {a} {n}.", "{p} and {q} {v} the {n} {w}.", "It was a {a} day in the {l}.",
    "Nobody {v} the {n} in the {l}.", "The {n} of {p} was {a} and {b}.", "On {d} {p} {v} {k} {u}.",
    "A {a} {m} stood next to the {n}.", "{p} said that the {n} was {a}.", "The {l} is {a} in {o}.",
    "When the {n} was {a}, {p} {v} the {m}.", "They {w} {v} the {a} {m}.", "There are {k} {u} in the {l}.",
    "{p} {v} it, but {q} did not.", "Then the {m} was {a} again.", "The {c} {n} and the {a} {m} were gone.",
]
_FIXED = [
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.",
    "This is a long text. It goes on and on. Nothing happens here.",
    "The quick brown fox jumps over the lazy dog.",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.",
    "Nothing to see here.",
    "The sea is wide and the sky is high.",
]


def sentences(rng):
    """Endless template sentences over a small vocabulary of their own."""
    names = rng.sample(words.FIRST_NAMES, 6)
    nouns, things = rng.sample(words.NOUNS, 20), rng.sample(words.OBJECTS + words.ANIMALS, 14)
    places, adjectives = rng.sample(words.PLACES, 6), rng.sample(words.ADJECTIVES, 14)
    verbs, frames = rng.sample(words.VERBS_PAST, 8), rng.sample(_FRAMES, rng.randint(5, len(_FRAMES)))
    pick = rng.choice
    while True:
        yield pick(frames).format(
            p=pick(names), q=pick(names), n=pick(nouns), u=words.plural(pick(nouns)), m=pick(things), l=pick(places), a=pick(adjectives),
            b=pick(adjectives), v=pick(verbs), w=pick(words.ADVERBS), d=pick(words.DAYS), o=pick(words.MONTHS),
            c=pick(words.COLOURS), k=pick(words.NUMBER_WORDS[2:]))


def _word_salad(rng):
    pool = rng.sample(words.NOUNS + words.OBJECTS + words.VERBS + words.ADJECTIVES + words.COMMON, 80)
    while True:
        yield " ".join(rng.choices(pool, k=rng.randint(5, 12))) + "."


def _repeated(rng):
    sentence = rng.choice(_FIXED)
    while True:
        yield sentence


def _log_lines(rng):
    source = rng.choice(words.NOUNS)
    for minute in range(10_000):
        yield f"{minute // 60 % 24:02d}:{minute % 60:02d} {source} {rng.choice(words.NOUNS)} {rng.choice(words.ADJECTIVES)}\n"


def _numbered(rng):
    stem = rng.choice(("Line", "Item", "Note", "Paragraph", "Sentence number"))
    source = sentences(rng)
    for number in range(1, 100_000):
        yield f"{stem} {number}: {next(source)}\n" if stem != "Paragraph" else f"{stem} {number}. {next(source)}\n"


def _made_up(rng):
    pool = [words.made_up_word(rng) for _ in range(25)]
    while True:
        yield " ".join(rng.choices(pool, k=rng.randint(4, 9))).capitalize() + "."


_KINDS = (sentences,) * 8 + (_word_salad, _word_salad, _repeated, _repeated, _repeated, _numbered, _log_lines, _made_up)


def filler(rng, length: int) -> list[str]:
    """Sentences of about `length` tokens together."""
    source, text, tokens = rng.choice(_KINDS)(rng), [], 0
    while tokens < length:
        sentence = next(source)
        text.append(sentence)
        tokens += sentence.count(" ") + 2
    return text
