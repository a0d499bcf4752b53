"""Cuts text into the pieces that BPE works on: the three Split steps of DeepSeek's tokenizer.json.

The standard library's `re` knows no \\p{L}. So every character outside ASCII is first replaced by
one representative of its class (letter, mark, number, punctuation, symbol, CJK, space, nothing),
one for one; a small regular expression finds the borders on that shadow text and the pieces are
cut from the original at the same places.

The three splits become one expression: numbers and CJK runs stand first, and whatever looks one
character ahead treats them like the end of the text, because the later split never sees across
the border of an earlier piece. The third split also runs inside CJK runs (a middle dot ends a piece).
"""

import re
import unicodedata

NUMBER_REGEX = r"\p{N}{1,3}"
CJK_REGEX = "[一-龥぀-ゟ゠-ヿ]+"
WORD_REGEX = (  # CR and LF stand as themselves in the released file, not as escapes
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"""
    "\r\n"
    r"""\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["""
    "\r\n]*"
    r"|\s*["
    "\r\n]+"
    r"|\s+(?!\S)|\s+"
)

# White_Space of Unicode; Python's own \s also takes U+001C..U+001F, which are plain controls here.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_LETTER, _MARK, _NUMBER, _PUNCT, _SYMBOL, _CJK, _SPACE, _NOTHING = "éˊ²¡¢一\xa0\x01"


class _ShadowOf(dict):
    """Code point -> representative character; ASCII stands for itself."""

    def __init__(self, with_cjk: bool):
        super().__init__()
        self._with_cjk = with_cjk

    def __missing__(self, code):
        char = chr(code)
        category = unicodedata.category(char)[0]
        if code < 128:
            shadow = char
        elif category == "N":
            shadow = _NUMBER
        elif self._with_cjk and (0x4E00 <= code <= 0x9FA5 or 0x3040 <= code <= 0x30FF):
            shadow = _CJK
        elif char in _SPACES:
            shadow = _SPACE
        else:
            shadow = {"L": _LETTER, "M": _MARK, "P": _PUNCT, "S": _SYMBOL}.get(category, _NOTHING)
        self[code] = shadow
        return shadow


_shadow_of = _ShadowOf(with_cjk=True)
_shadow_inside_cjk = _ShadowOf(with_cjk=False)

_S = r"\t\n\v\f\r \xa0"
_A = r"!-/:-@\[-`{-~"
_PS = _A + _PUNCT + _SYMBOL
_N = "0-9" + _NUMBER
_pieces = re.compile(
    f"[{_N}]{{1,3}}"
    f"|{_CJK}+"
    f"|[{_A}][A-Za-z]+"
    f"|[^\\r\\nA-Za-z{_LETTER}{_PS}{_N}{_CJK}]?[A-Za-z{_LETTER}{_MARK}]+"
    f"| ?[{_PS}]+[\\r\\n]*"
    f"|[{_S}]*[\\r\\n]+"
    f"|[{_S}]+(?![^{_S}{_N}{_CJK}])"
    f"|[{_S}]+"
)


def split(text: str) -> list[str]:
    """The pieces of `text`, in order; joined they are `text` again."""
    shadow = text if text.isascii() else text.translate(_shadow_of)
    if shadow is text:
        pieces = _pieces.findall(text)
        if sum(map(len, pieces)) == len(text):
            return pieces
    return _cut(text, shadow)


def _cut(text: str, shadow: str) -> list[str]:
    """Pieces of `text` at the matches in `shadow` and the gaps between them."""
    pieces, end = [], 0
    for match in _pieces.finditer(shadow):
        if match.start() > end:
            pieces.append(text[end : match.start()])
        end = match.end()
        piece = text[match.start() : end]
        if shadow[match.start()] == _CJK:
            pieces += _cut(piece, piece.translate(_shadow_inside_cjk))
        else:
            pieces.append(piece)
    if end < len(text):
        pieces.append(text[end:])
    return pieces
