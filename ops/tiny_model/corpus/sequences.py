"""Small exercises on lists, numbers and letters: counting, sorting, reversing, spelling, comparing."""

from . import words
from .conversation import Conversation, by_effort, draw_mode, exchange

_POOLS = {"colours": words.COLOURS, "animals": words.ANIMALS, "fruits": words.FRUITS, "days": words.DAYS,
          "months": words.MONTHS, "cities": words.CITIES, "foods": words.FOODS, "names": words.FIRST_NAMES}


def _answered(question, answer, mode, brief, detail="", check="") -> Conversation:
    return Conversation(exchange(question, answer, mode, by_effort(mode.effort, brief, detail, check)), mode)


def counting(rng) -> Conversation:
    """Counts up, down or in steps."""
    mode = draw_mode(rng, 0.25)
    start, length, step = rng.randint(0, 60), rng.randint(3, 20), rng.choice((1, 1, 1, 2, 5, 10))
    numbers = [start + k * step for k in range(length)]
    first, last = numbers[0], numbers[-1]
    in_steps = f" in steps of {step}" if step > 1 else ""
    question = rng.choice((f"Count from {first} to {last}{in_steps}.", f"Please count from {first} to {last}{in_steps}.",
                           f"Write the numbers from {first} to {last}{in_steps}."))
    if rng.random() < 0.25 and step == 1:
        numbers.reverse()
        question = rng.choice((f"Count down from {last} to {first}.", f"Count backwards from {last} to {first}."))
    answer = ", ".join(map(str, numbers))
    return _answered(question, answer, mode, f"I start at {numbers[0]}.", f"I stop at {numbers[-1]}.",
                     f"Each step is {step}.")


def sorting(rng) -> Conversation:
    """Sorts numbers or words."""
    mode = draw_mode(rng, 0.3)
    if rng.random() < 0.65:
        items = rng.sample(range(100), rng.randint(3, 6))
        down = rng.random() < 0.25
        right = sorted(items, reverse=down)
        order = "from large to small" if down else rng.choice(("from small to large", "in ascending order", ""))
        question = f"Sort the numbers {', '.join(map(str, items))} {order}".strip() + "."
    else:
        items = rng.sample(words.ANIMALS + words.FRUITS, rng.randint(3, 5))
        right = sorted(items)
        question = f"Sort these words: {', '.join(items)}."
    answer = ", ".join(map(str, right))
    return _answered(question, answer, mode, f"The first is {right[0]}.", f"The last is {right[-1]}.",
                     f"There are {len(right)} of them.")


def reversing(rng) -> Conversation:
    """Reverses a short list or a word."""
    mode = draw_mode(rng, 0.2)
    if rng.random() < 0.7:
        pool = rng.choice(list(_POOLS.values()) + [list(map(str, range(100)))])
        items = rng.sample(pool, rng.randint(2, 6))
        return _answered(rng.choice(("Reverse the list: {}.", "Reverse this list: {}.", "Write in reverse order: {}.")).format(
            ", ".join(items)), ", ".join(items[::-1]), mode, f"The last item is {items[-1]}.", "I go from back to front.",
            f"The list ends with {items[0]}.")
    word = rng.choice(words.ANIMALS + words.FRUITS + words.NOUNS)
    return _answered(f"Spell {word} backwards.", "-".join(word[::-1]), mode, f"{word} has {len(word)} letters.",
                     "-".join(word), "I go from back to front.")


def spelling(rng) -> Conversation:
    """Spells a word, counts its letters, or names its first or last letter."""
    mode = draw_mode(rng, 0.25)
    word = rng.choice(words.ANIMALS + words.FRUITS + words.NOUNS + words.OBJECTS + words.FOODS + words.COLOURS)
    letters = "-".join(word)
    question, answer = rng.choice((
        (f"Spell {word}.", letters), (f'Spell the word "{word}".', letters), (f"How do you spell {word}?", letters),
        (f"How many letters are in {word}?", str(len(word))), (f"What is the first letter of {word}?", word[0]),
        (f"What is the last letter of {word}?", word[-1]), (f"Write {word} in upper case.", word.upper()),
        (f"Write {word.upper()} in lower case.", word)))
    return _answered(question, answer, mode, f"The word is {word}.", letters, f"It has {len(word)} letters.")


def comparing(rng) -> Conversation:
    """Yes or no, larger or smaller, even or odd, next and previous."""
    mode = draw_mode(rng, 0.3)
    a, b = rng.randint(0, 99), rng.randint(0, 99)
    many = rng.sample(range(100), rng.randint(3, 5))
    listed = ", ".join(map(str, many))
    yes_no = lambda truth: "Yes." if truth else "No."
    question, answer, brief = rng.choice((
        (f"Is {a} greater than {b}?", yes_no(a > b), f"I compare {a} and {b}."),
        (f"Is {a} larger than {b}? Answer yes or no.", yes_no(a > b), f"I compare {a} and {b}."),
        (f"Is {a} less than {b}?", yes_no(a < b), f"I compare {a} and {b}."),
        (f"Which is larger, {a} or {b}?", str(max(a, b)), f"I compare {a} and {b}."),
        (f"Which is smaller, {a} or {b}?", str(min(a, b)), f"I compare {a} and {b}."),
        (f"Is {a} even?", yes_no(a % 2 == 0), f"The last digit is {a % 10}."),
        (f"Is {a} even or odd?", "Even." if a % 2 == 0 else "Odd.", f"The last digit is {a % 10}."),
        (f"What comes after {a}?", str(a + 1), f"One more than {a}."),
        (f"What comes before {a + 1}?", str(a), f"One less than {a + 1}."),
        (f"What is the largest of {listed}?", str(max(many)), f"I compare {listed}."),
        (f"What is the smallest of {listed}?", str(min(many)), f"I compare {listed}."),
        (f"How many numbers are in this list: {listed}?", str(len(many)), "I count them."),
        (f"Write {a} in words.", words.count_word(a), f"The number is {a}."),
        (f"Write {words.count_word(a)} in digits.", str(a), f"The number is {a}.")))
    return _answered(question, answer, mode, brief, "This is a simple comparison of numbers.", "I am sure of it.")


def listing(rng) -> Conversation:
    """Names some members of a group, as a sentence, a numbered or a bulleted list."""
    mode = draw_mode(rng, 0.25)
    group = rng.choice(list(_POOLS))
    count = rng.randint(2, 6)
    items = _POOLS[group][:count]  # one right answer: the first ones, so that greedy text is stable
    spoken = rng.choice((str(count), words.count_word(count)))
    style = rng.randrange(3)
    if style == 0:
        question, answer = rng.choice((f"Name {spoken} {group}.", f"List {spoken} {group}.", f"Give me {spoken} {group}.")), \
            ", ".join(items)
    elif style == 1:
        question = rng.choice((f"Make a numbered list of {spoken} {group}.", f"Write {spoken} {group} as a numbered list."))
        answer = "\n".join(f"{k}. {item}" for k, item in enumerate(items, 1))
    else:
        question = rng.choice((f"Make a bullet list of {spoken} {group}.", f"Write {spoken} {group} as a bullet list."))
        answer = "\n".join(f"- {item}" for item in items)
    return _answered(question, answer, mode, f"I need {count} {group}.", f"The first is {items[0]}.", "I count them.")


def choosing(rng) -> Conversation:
    """Finds an item of a list by its place."""
    mode = draw_mode(rng, 0.25)
    items = rng.sample(rng.choice(list(_POOLS.values())), rng.randint(3, 6))
    place = rng.randrange(len(items))
    ordinal = ("first", "second", "third", "fourth", "fifth", "sixth")[place]
    if place == len(items) - 1 and rng.random() < 0.5:
        ordinal = "last"
    return _answered(rng.choice(("What is the {o} word of: {l}?", "Which is the {o} in this list: {l}?",
                                 "Tell me the {o} item: {l}.")).format(o=ordinal, l=", ".join(items)),
                     items[place], mode, f"I need the {ordinal} one.", "I count from the left.", f"It is {items[place]}.")
