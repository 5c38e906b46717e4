"""Words of a text and the shape features of their letters.

`crates/libs/inference/src/tagger/words.rs` and `shape.rs` are equivalent; a test in `crates/libs/inference` compares both
implementations on stored examples, so a change here requires the same change there and new weights.
"""

JOINERS = ".-&_'’+@"
APOSTROPHES = "'’"
DIGITS = "0123456789"
ABBREVIATIONS = {
    "inc", "corp", "co", "ltd", "llc", "bros", "st", "dr", "mr", "mrs", "ms", "jr", "sr", "prof", "gen", "sen", "rep",
    "gov", "lt", "col", "capt", "rev", "mt", "ft",
}
SENTENCE_ENDS = {".", "!", "?", "…"}
BASE = 30
FAR = [0, 1, 2, 3, 4, 10]
SHAPES = 3 * BASE + 2 * len(FAR) + 3 + 4


def is_abbreviation(word):
    """Returns whether a period after `word` belongs to it."""
    pieces = word.split(".")
    if len(pieces) > 1:
        return all(0 < len(piece) <= 2 and piece.isalpha() for piece in pieces)
    return len(word) == 1 and word.isupper() or word.lower() in ABBREVIATIONS


def split_word(word):
    """Splits text between white space into words and punctuation; returns offsets in characters."""
    parts, at, length = [], 0, len(word)

    def possessive(place):
        after = place + 2
        return (place > 0 and word[place] in APOSTROPHES and word[place + 1 : after] in ("s", "S")
                and (after == length or not word[after].isalnum()))

    while at < length:
        end = at + 1
        starts_tag = at == 0 and word[at] in "@#" and length > 1 and word[1].isalnum()
        if word[at].isalnum() or starts_tag:
            while end < length:
                if word[end].isalnum():
                    end += 1
                    continue
                joins = end + 1 < length and word[end + 1].isalnum()
                if word[end] == ",":
                    joins = joins and word[end - 1] in DIGITS and word[end + 1] in DIGITS
                else:
                    joins = joins and word[end] in JOINERS and not possessive(end)
                if not joins:
                    break
                end += 1
            if end < length and word[end] == "." and is_abbreviation(word[at:end]):
                end += 1
        elif possessive(at):
            end = at + 2
        parts.append((at, end))
        at = end
    return parts


def spaced_words(text):
    """Returns the offsets of text between white space."""
    found, start = [], None
    for at, character in enumerate(text):
        if character.isspace():
            if start is not None:
                found.append((start, at))
            start = None
        elif start is None:
            start = at
    if start is not None:
        found.append((start, len(text)))
    return found


def words_of(text, tokenize):
    """Returns the words of a text: (start, end, tokens). Text that the tokenizer splits differently stays whole."""
    words = []
    for start, end in spaced_words(text):
        whole = tokenize(text[start:end])
        parts = [(start + a, start + b) for a, b in split_word(text[start:end])]
        cut = [tokenize(text[a:b]) for a, b in parts]
        if [token for tokens in cut for token in tokens] != whole:
            parts, cut = [(start, end)], [whole]
        words += [(a, b, tokens) for (a, b), tokens in zip(parts, cut) if tokens]
    return words


def base_shape(word, is_first, is_last):
    """Returns the indices of the base features that are 1."""
    letters = [c for c in word if c.isalpha()]
    alnum = [c for c in word if c.isalnum()]
    upper = sum(c.isupper() for c in letters)
    lower = sum(c.islower() for c in letters)
    on = []
    if letters:
        if upper == 0:
            on.append(0)
        elif upper == 1 and len(alnum) == 1:
            on.append(3)
        elif upper == 1 and alnum[0].isupper():
            on.append(1)
        elif lower == 0 and upper >= 2:
            on.append(2)
        else:
            on.append(4)
    digits = sum(c in DIGITS for c in alnum)
    if digits:
        on.append(5)
        if digits == len(alnum):
            on.append(6)
    for place, characters in ((7, "-"), (8, "."), (9, APOSTROPHES), (15, "&")):
        if any(c in characters for c in word):
            on.append(place)
    if not alnum:
        on.append(10)
    if word[0] in APOSTROPHES and word[1:] in ("s", "S"):
        on.append(11)
    if alnum and word[0] == "@":
        on.append(12)
    if alnum and word[0] == "#":
        on.append(13)
    if is_first:
        on.append(14)
    if alnum:
        for place, most in ((16, 1), (17, 2), (18, 3), (19, 5), (20, 8), (21, 12), (22, 10**9)):
            if len(alnum) <= most:
                on.append(place)
                break
    if any(ord(c) > 127 for c in letters):
        on.append(23)
    for place, marks in ((24, (",",)), (25, (".",)), (26, ('"', "“", "”", "„")), (27, ("(", "[")), (28, (":",))):
        if word in marks:
            on.append(place)
    if is_last:
        on.append(29)
    return on


def shapes(text, words):
    """Returns the indices of the features that are 1, for each word."""
    base = []
    for index, (start, end, _) in enumerate(words):
        is_first = index == 0
        if index > 0:
            before = words[index - 1]
            is_first = text[before[0] : before[1]] in SENTENCE_ENDS or "\n" in text[before[1] : start]
        base.append(base_shape(text[start:end], is_first, index + 1 == len(words)))
    cased = [on for on in base if any(place < 5 for place in on)]
    whole = []
    if all(0 in on for on in cased):
        whole.append(0)
    if cased and 10 * sum(1 in on for on in cased) > 6 * len(cased):
        whole.append(1)
    if cased and 10 * sum(2 in on for on in cased) > 6 * len(cased):
        whole.append(2)
    result = []
    for index, (_, _, tokens) in enumerate(words):
        on = []
        for slot, offset in enumerate((-1, 0, 1)):
            if 0 <= index + offset < len(words):
                on += [slot * BASE + place for place in base[index + offset]]
        for slot, offset in enumerate((-2, 2)):
            if 0 <= index + offset < len(words):
                on += [3 * BASE + slot * len(FAR) + FAR.index(place) for place in base[index + offset] if place in FAR]
        first = 3 * BASE + 2 * len(FAR)
        on += [first + place for place in whole]
        on.append(first + 3 + min(len(tokens), 4) - 1)
        result.append(on)
    return result
