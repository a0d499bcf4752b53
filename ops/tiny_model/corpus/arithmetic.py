"""Sums, differences, products and quotients in many phrasings, with worked reasoning.

Held out, never in the training stream: the question forms and requests in HELD_OUT_*, and the
operand pairs of sums for which `is_held_out_sum` holds (2 % of them). Such a pair can also come up
inside the working of another problem; the stream drops whole conversations that show one. Products up to 20x20 are a
table to be known, so no pair of them is held out, only phrasings.
"""

import re

from .conversation import Conversation, by_effort, draw_mode, exchange
from .words import count_word

# Numbers of up to three digits, as `total` draws them.
_SHOWN_SUM = re.compile(r"(?<!\d)(\d{1,3}) ?(?:\+|plus) ?(\d{1,3})(?!\d)", re.IGNORECASE)

_PRODUCT_FORMS = [
    "What is {a}*{b}?", "What is {a} * {b}?", "What is {a}x{b}?", "What is {a} x {b}?", "What is {a} times {b}?",
    "What is {a} multiplied by {b}?", "What's {a}*{b}?", "What's {a} times {b}?", "Compute {a}*{b}.",
    "Compute {a} * {b}.", "Compute {a} times {b}.", "Calculate {a} * {b}.", "Calculate {a}*{b}.", "{a}*{b}",
    "{a} * {b} =", "{a}*{b}=?", "{a} x {b} = ?", "How much is {a} times {b}?", "How much is {a}*{b}?",
    "Multiply {a} by {b}.", "Multiply {a} and {b}.", "What do you get when you multiply {a} by {b}?",
    "What is the product of {a} and {b}?", "Find the product of {a} and {b}.", "Tell me {a} * {b}.",
    "Give me {a} times {b}.", "What does {a} * {b} equal?", "Solve {a}*{b}.", "{a} times {b} is?", "{a} × {b}?",
    "What is {a} × {b}?", "Work out {a}×{b}.", "I have {a} boxes with {b} coins each. How many coins do I have?",
    "There are {a} rows of {b} chairs. How many chairs are there?", "Was ist {a} mal {b}?", "{a}乘以{b}等于多少？",
]
_SUM_FORMS = [
    "What is {a}+{b}?", "What is {a} + {b}?", "What is {a} plus {b}?", "What's {a}+{b}?", "What's {a} plus {b}?",
    "Compute {a}+{b}.", "Compute {a} + {b}.", "Calculate {a} + {b}.", "Calculate {a}+{b}.", "{a}+{b}", "{a} + {b} =",
    "{a}+{b}=?", "How much is {a} + {b}?", "How much is {a} plus {b}?", "Add {a} and {b}.", "Add {b} to {a}.",
    "What is the sum of {a} and {b}?", "Find the sum of {a} and {b}.", "Tell me {a} + {b}.", "Give me {a} plus {b}.",
    "What does {a} + {b} equal?", "Solve {a}+{b}.", "{a} plus {b} is?", "Work out {a} + {b}.",
    "I have {a} coins and find {b} more. How many coins do I have?", "Was ist {a} plus {b}?", "{a}加{b}等于多少？",
]
_DIFFERENCE_FORMS = [
    "What is {a}-{b}?", "What is {a} - {b}?", "What is {a} minus {b}?", "Compute {a}-{b}.", "Calculate {a} - {b}.",
    "{a}-{b}", "{a} - {b} =", "How much is {a} minus {b}?", "Subtract {b} from {a}.", "Solve {a}-{b}.",
    "What is the difference of {a} and {b}?", "I have {a} coins and lose {b}. How many are left?",
    "Tell me {a} - {b}.", "What does {a} - {b} equal?", "What's {a}-{b}?", "Was ist {a} minus {b}?",
]
_QUOTIENT_FORMS = [
    "What is {a}/{b}?", "What is {a} / {b}?", "What is {a} divided by {b}?", "Divide {a} by {b}.", "Compute {a}/{b}.",
    "{a}/{b}", "How much is {a} divided by {b}?", "Calculate {a} / {b}.", "Share {a} coins among {b} people. How many each?",
]
_OPENINGS = ["", "", "", "", "", "", "", "Hi! ", "Hello. ", "Quick question: ", "Please help me. ", "Question: ", "Q: ",
             "A question about numbers: ", "Next one: ", "Math: "]
_REQUESTS = [
    "", "", "", "", "", " Reply with the integer only.", " Reply with the number only.", " Answer with the number only.",
    " Only the number, please.", " Just the result.", " Give only the result.", " No explanation.", " Be brief.",
    " Answer with digits only.", " Reply with the result only.", " Please answer with a single number.", " Thanks!",
    " One number.", " Do not explain.", " Return the integer only.",
]
_SENTENCE_REQUESTS = [" Answer in a sentence.", " Reply in a full sentence.", " Please answer with a sentence."]

HELD_OUT_PRODUCT_FORMS = [
    "Please compute {a} times {b}.", "Tell me the product of {a} and {b}.", "How much do you get from {a}*{b}?",
    "Can you multiply {a} by {b}?", "Find {a} x {b}.",
]
HELD_OUT_SUM_FORMS = [
    "Please compute {a} plus {b}.", "Tell me the sum of {a} and {b}.", "How much do you get from {a}+{b}?",
    "Can you add {a} and {b}?", "Find {a} + {b}.",
]
HELD_OUT_REQUESTS = ["", " Answer with the integer only.", " Give just the number.", " Reply with one number only."]


def is_held_out_sum(a: int, b: int) -> bool:
    """Operand pairs of sums that the stream never shows in either order, 2 % of all."""
    low, high = min(a, b), max(a, b)
    return (37 * low + 11 * high) % 50 == 7


def shows_held_out_sum(text: str) -> bool:
    """Whether a held-out sum stands anywhere in a text, also inside the working of another problem."""
    return any(is_held_out_sum(int(a), int(b)) for a, b in _SHOWN_SUM.findall(text))


def product(rng) -> Conversation:
    """A product of the table up to 20x20; one in twelve is a two-digit times a one-digit number."""
    if rng.random() < 0.06:
        a, b = rng.randint(21, 99), rng.randint(2, 9)
    else:
        a, b = rng.randint(1, 20), rng.randint(1, 20)
        if rng.random() < 0.5:  # the harder half of the table is drawn more often
            a = max(a, rng.randint(1, 20))
            b = max(b, rng.randint(1, 20))
        if rng.random() < 0.01:
            b = 0
    return _worked(rng, _PRODUCT_FORMS, (a, b, a * b, "times"), product_reasoning)


def total(rng) -> Conversation:
    """A sum of two numbers up to 99, now and then up to 999."""
    while True:
        top = 999 if rng.random() < 0.08 else 99
        a, b = rng.randint(0, top), rng.randint(0, top)
        if not is_held_out_sum(a, b):
            break
    return _worked(rng, _SUM_FORMS, (a, b, a + b, "plus"), sum_reasoning)


def difference(rng) -> Conversation:
    """A difference of two numbers up to 99, sometimes below zero."""
    a, b = rng.randint(0, 99), rng.randint(0, 99)
    if a < b and rng.random() < 0.8:
        a, b = b, a
    return _worked(rng, _DIFFERENCE_FORMS, (a, b, a - b, "minus"), _difference_reasoning)


def quotient(rng) -> Conversation:
    """An exact quotient out of the product table."""
    b, c = rng.randint(1, 20), rng.randint(1, 20)
    return _worked(rng, _QUOTIENT_FORMS, (b * c, b, c, "divided by"), _quotient_reasoning)


def series(rng) -> Conversation:
    """Several short problems in one conversation."""
    mode = draw_mode(rng, 0.25)
    messages = []
    for _ in range(rng.randint(2, 4)):
        last = rng.choice((product, total, difference))(rng)
        question, answer = last.messages[-2]["content"], last.messages[-1]["content"]
        messages += exchange(question, answer, mode, f"The answer is {answer}.")
    return Conversation(messages, mode)


def word_numbers(rng) -> Conversation:
    """Numbers written as words."""
    mode = draw_mode(rng, 0.3)
    while True:
        a, b = rng.randint(1, 20), rng.randint(1, 20)
        word, result = rng.choice((("plus", a + b), ("times", a * b)))
        if word == "times" or not is_held_out_sum(a, b):
            break
    question = f"What is {count_word(a)} {word} {count_word(b)}?{rng.choice(_REQUESTS)}"
    sign = "+" if word == "plus" else "*"
    return Conversation(exchange(question, str(result), mode, f"{a}{sign}{b} = {result}."), mode)


def _worked(rng, forms, problem, reasoning) -> Conversation:
    a, b, result, verb = problem
    mode = draw_mode(rng)
    question = rng.choice(_OPENINGS) + rng.choice(forms).format(a=a, b=b)
    answer = str(result)
    if rng.random() < 0.06:
        question += rng.choice(_SENTENCE_REQUESTS)
        answer = f"{a} {verb} {b} is {result}."
    else:
        question += rng.choice(_REQUESTS)
    if rng.random() < 0.04:
        question = question.lower()
    return Conversation(exchange(question, answer, mode, reasoning(a, b, mode.effort)), mode)


def product_reasoning(a: int, b: int, effort: int) -> str:
    """One line, then the split into tens and ones, then the other way round as a check."""
    brief = f"{a}*{b} = {a * b}."
    if effort < 25:
        return brief
    big, small = max(a, b), min(a, b)
    tens, ones = big // 10 * 10, big % 10
    if small < 2 or tens == 0 or ones == 0:
        detail = f"{big}*{small} means {small} times {big}.\nThat gives {a * b}."
    else:
        detail = (f"Split {big} = {tens} + {ones}.\n{tens}*{small} = {tens * small}\n{ones}*{small} = {ones * small}\n"
                  f"{tens * small} + {ones * small} = {a * b}")
    check = f"Check: {b}*{a} = {a * b}, and {a * b} / {max(b, 1)} = {a if b else 0}. So the answer is {a * b}."
    if effort < 63:
        return f"{a} times {b}: {brief}"
    return by_effort(effort, f"I need {a} times {b}.", detail, check)


def sum_reasoning(a: int, b: int, effort: int) -> str:
    """One line, then tens and ones apart, then a check by subtraction."""
    brief = f"{a}+{b} = {a + b}."
    if effort < 25:
        return brief
    if effort < 63:
        return f"{a} plus {b}: {brief}"
    tens = a // 10 * 10 + b // 10 * 10
    ones = a % 10 + b % 10
    detail = f"Tens: {a // 10 * 10} + {b // 10 * 10} = {tens}\nOnes: {a % 10} + {b % 10} = {ones}\n{tens} + {ones} = {a + b}"
    return by_effort(effort, f"I need {a} plus {b}.", detail,
                     f"Check: {a + b} - {b} = {a}. So the answer is {a + b}.")


def _difference_reasoning(a: int, b: int, effort: int) -> str:
    brief = f"{a}-{b} = {a - b}."
    if effort < 25:
        return brief
    if effort < 63:
        return f"{a} minus {b}: {brief}"
    step = b // 10 * 10
    detail = f"{a} - {step} = {a - step}\n{a - step} - {b - step} = {a - b}"
    return by_effort(effort, f"I need {a} minus {b}.", detail,
                     f"Check: {a - b} + {b} = {a}. So the answer is {a - b}.")


def _quotient_reasoning(a: int, b: int, effort: int) -> str:
    result = a // b
    brief = f"{a}/{b} = {result}."
    if effort < 63:
        return brief
    return by_effort(effort, f"I need {a} divided by {b}.", f"{result}*{b} = {a}\nSo {a}/{b} = {result}.",
                     f"Check: {b}*{result} = {a}. So the answer is {result}.")
