"""Code, Markdown, other languages and emoji: text that exercises line breaks and bytes beyond ASCII."""

from . import words
from .conversation import Conversation, by_effort, draw_mode, exchange

_PHRASES = {
    "German": [("Good morning", "Guten Morgen"), ("Thank you", "Danke schön"), ("How are you?", "Wie geht es dir?"), ("I am hungry", "Ich habe Hunger"),
               ("The house is big", "Das Haus ist groß"), ("Good night", "Gute Nacht"), ("See you tomorrow", "Bis morgen"), ("The weather is nice", "Das Wetter ist schön")],
    "French": [("Good morning", "Bonjour"), ("Thank you", "Merci beaucoup"), ("How are you?", "Comment ça va ?"), ("Good night", "Bonne nuit"),
               ("The house is big", "La maison est grande"), ("See you tomorrow", "À demain")],
    "Spanish": [("Good morning", "Buenos días"), ("Thank you", "Muchas gracias"), ("How are you?", "¿Cómo estás?"), ("Good night", "Buenas noches"),
                ("See you tomorrow", "Hasta mañana")],
    "Chinese": [("Good morning", "早上好"), ("Thank you", "谢谢你"), ("How are you?", "你好吗？"), ("Good night", "晚安"), ("See you tomorrow", "明天见"),
                ("I love you", "我爱你"), ("The weather is nice", "天气很好")],
    "Japanese": [("Good morning", "おはようございます"), ("Thank you", "ありがとうございます"), ("Good night", "おやすみなさい")],
    "Vietnamese": [("Hello", "Xin chào"), ("Thank you", "Cảm ơn"), ("Good night", "Chúc ngủ ngon")],
}
_EMOJI = dict(pair.split(":") for pair in """
cat:🐱 dog:🐶 fox:🦊 bear:🐻 fish:🐟 apple:🍎 banana:🍌 lemon:🍋 pizza:🍕 bread:🍞 cheese:🧀 sun:☀️ moon:🌙 star:⭐ fire:🔥 water:💧 snow:❄️
rain:🌧️ heart:❤️ car:🚗 train:🚆 boat:⛵ plane:✈️ house:🏠 book:📖 key:🔑 clock:⏰ music:🎵 tree:🌳 rose:🌹
""".split())
_OPERATIONS = {"adds": "+", "subtracts": "-", "multiplies": "*"}


def phrase(rng) -> Conversation:
    """A phrase into another language, or back."""
    mode = draw_mode(rng, 0.25)
    language = rng.choice(list(_PHRASES))
    english, foreign = rng.choice(_PHRASES[language])
    question, answer = rng.choice(((f'Translate "{english}" to {language}.', foreign), (f'How do you say "{english}" in {language}?', foreign),
                                   (f"{english} in {language}?", foreign), (f'What does "{foreign}" mean?', english)))
    return Conversation(exchange(question, answer, mode, by_effort(mode.effort, f"The language is {language}.",
                                                                   f"{english}: {foreign}", "I give only the phrase.")), mode)


def emoji(rng) -> Conversation:
    """Words to emoji and back."""
    mode = draw_mode(rng, 0.2)
    picked = rng.sample(list(_EMOJI.items()), rng.randint(1, 5))
    named, shown = ", ".join(word for word, _ in picked), "".join(sign for _, sign in picked)
    question, answer = rng.choice(((f"Show as emoji: {named}.", shown), (f"What do these emoji show: {shown}", named), (f"Repeat: {shown}", shown)))
    return Conversation(exchange(question, answer, mode, "I know these signs."), mode)


def code(rng) -> Conversation:
    """A small function in Python, C++ or JavaScript in a fenced block."""
    mode = draw_mode(rng, 0.25)
    verb, sign = rng.choice(list(_OPERATIONS.items()))
    name = rng.choice(("f", "compute", "work", "apply", "run", verb.rstrip("s"), words.made_up_word(rng, 1)))
    number, word = rng.randint(1, 99), rng.choice(words.NOUNS)
    language = rng.choice(("Python", "C++", "JavaScript"))
    if rng.random() < 0.5:
        question = f"Write a {language} function {name} that {verb} two numbers."
        body = {"Python": f"def {name}(a, b):\n    return a {sign} b", "C++": f"int {name}(int a, int b) {{\n  return a {sign} b;\n}}",
                "JavaScript": f"function {name}(a, b) {{\n  return a {sign} b;\n}}"}[language]
    elif rng.random() < 0.5:
        question = f"Write a {language} loop that prints the numbers from 0 to {number}."
        body = {"Python": f"for i in range({number + 1}):\n    print(i)",
                "C++": f"for (int i = 0; i <= {number}; ++i) {{\n  std::cout << i << '\\n';\n}}",
                "JavaScript": f"for (let i = 0; i <= {number}; i++) {{\n  console.log(i);\n}}"}[language]
    else:
        question = f'Print "{word}" in {language}.'
        body = {"Python": f'print("{word}")', "C++": f'std::cout << "{word}\\n";', "JavaScript": f'console.log("{word}");'}[language]
    fence = {"Python": "python", "C++": "cpp", "JavaScript": "js"}[language]
    thought = by_effort(mode.effort, f"I write {language}.", "The code is short.", "It needs no library.")
    return Conversation(exchange(question, f"```{fence}\n{body}\n```", mode, thought), mode)


def table(rng) -> Conversation:
    """Facts into a Markdown table, or one value out of it."""
    mode = draw_mode(rng, 0.2)
    head = rng.choice((("Name", "Age"), ("City", "Degrees"), ("Item", "Price")))
    pool = {"Name": words.FIRST_NAMES, "City": words.CITIES, "Item": words.OBJECTS}[head[0]]
    rows = [(item, rng.randint(1, 99)) for item in rng.sample(pool, rng.randint(2, 5))]
    shown = "\n".join([f"| {head[0]} | {head[1]} |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows)])
    if rng.random() < 0.5:
        listed = ", ".join(f"{a} {b}" for a, b in rows)
        question, answer = f"Make a Markdown table with {head[0]} and {head[1]}: {listed}.", shown
    else:
        item, value = rng.choice(rows)
        question, answer = f"{shown}\n\nWhat is the {head[1].lower()} of {item}?", str(value)
    return Conversation(exchange(question, answer, mode, by_effort(mode.effort, "This is a table.", f"It has {len(rows)} rows.",
                                                                   f"The columns are {head[0]} and {head[1]}.")), mode)


def chinese_german(rng) -> Conversation:
    """Short exchanges wholly in German or Chinese."""
    mode = draw_mode(rng, 0.3)
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    name, city = rng.choice(words.FIRST_NAMES), rng.choice(words.CITIES)
    question, answer = rng.choice((
        (f"Wie viel ist {a} mal {b}?", str(a * b)), (f"Ich heiße {name}. Wie heiße ich?", f"Du heißt {name}."),
        (f"Ich wohne in {city}. Wo wohne ich?", f"Du wohnst in {city}."), ("Welche Farbe hat der Himmel?", "Der Himmel ist blau."),
        ("Zähle von eins bis fünf.", "Eins, zwei, drei, vier, fünf."), (f"{a}加{b}是多少？", str(a + b)), (f"{a}乘{b}是多少？", str(a * b)),
        (f"我叫{name}。我叫什么？", f"你叫{name}。"), (f"我住在{city}。我住在哪里？", f"你住在{city}。"), ("天空是什么颜色？", "天空是蓝色的。"),
        ("从一数到五。", "一、二、三、四、五。"), ("Was ist Tandem?", "Tandem ist eine Laufzeit aus Aktoren für DeepSeek-V4.1-Flash auf zwei DGX Spark."),
        ("什么是Tandem？", "Tandem是在两台DGX Spark上运行DeepSeek-V4.1-Flash的系统。")))
    return Conversation(exchange(question, answer, mode, by_effort(mode.effort, "Eine kurze Antwort." if question.isascii() else "简短回答。",
                                                                   "", "")), mode)
