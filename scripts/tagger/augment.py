"""Generates sentences from the names of the corpora: filled templates, and sentences with replaced names.

The templates are in `messages.txt` and `headlines.txt`. Names in the labelled evaluation
messages are excluded, so that those messages stay unseen.
"""

import os
import random
import re
import sys
from collections import Counter, defaultdict

import corpora

HERE = os.path.dirname(os.path.abspath(__file__))
# Number of sentences per template with an organization, and per other template.
PER_ORGANIZATION, PER_OTHER, PER_HEADLINE = 22, 12, 25
SUBSTITUTED = 1200
# Minimum share of the occurrences of a name that have its type.
MIN_SHARE = 0.8
WORD = re.compile(r"[^\W\d_]+(?:[.'’&-][^\W\d_]+)*\.?")
NO_FIRST_NAMES = {
    "king", "queen", "pope", "lord", "lady", "sir", "saint", "st", "prince", "princess", "president", "dj", "mr", "mrs",
    "ms", "dr", "the", "big", "lil", "little", "young", "de", "von", "van", "general", "baron", "emperor", "judge",
}
FILLERS = {
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "thing": (
        "sofa|kettle|printer|bike|mattress|coat|lamp|charger|blender|tent|fridge|ladder|camera|key|suitcase|router|"
        "parcel|desk|passport|helmet|drill|toaster|watch|bookshelf|keyboard|heater|guitar|pram"
    ).split("|"),
    "job": (
        "plumber|banker|nurse|gardener|dentist|driver|manager|teacher|lawyer|cleaner|painter|consultant|mechanic|"
        "cook|chemist|recruiter|carpenter|trainer|librarian|designer"
    ).split("|"),
    "kin": (
        "sister|brother|mother|father|cousin|grandfather|godmother|wife|husband|daughter|son|niece|nephew|friend|"
        "flatmate"
    ).split("|"),
    "number": [str(number) for number in range(10, 32)],
    "digit": [str(number) for number in range(1, 8)],
}
KIND_OF_SLOT = {
    "org": "ORG", "club": "ORG", "per": "PER", "first": "PER", "last": "PER", "loc": "LOC", "misc": "MISC",
}


def names_of_evaluation():
    return {
        text[start:end].lower()
        for file in ("chat-en.txt", "chat-fresh-en.txt")
        for text, spans in corpora.messages(file)
        for start, end, _ in spans
    }


def is_clean(name):
    """Returns whether a name has the form used in messages: few words of letters, capitalized."""
    parts = name.split(" ")
    return (
        1 < len(name) <= 40 and len(parts) <= 4 and name[0].isupper() and parts[-1][0].isupper()
        and all(part == "&" or WORD.fullmatch(part) for part in parts)
        # Social network accounts contain capitals in the middle.
        and not re.search(r"[a-z][A-Z].*[A-Z]|[a-z]{3}[A-Z]", name)
    )


def name_lists(texts):
    """Returns names by slot, with frequent names repeated."""
    kinds = defaultdict(Counter)
    for text, spans in texts:
        for start, end, kind in spans:
            kinds[text[start:end]][kind] += 1
    unwanted, lists = names_of_evaluation(), {slot: [] for slot in KIND_OF_SLOT}
    for name, counts in sorted(kinds.items()):
        kind, count = counts.most_common(1)[0]
        if not is_clean(name) or name.lower() in unwanted or count < MIN_SHARE * counts.total():
            continue
        times, parts = min(3, count), name.split(" ")
        if kind == "ORG":
            # Most organizations in messages have one-word names, unlike those in the corpora.
            lists["org"] += [name] * times * (2 if len(parts) == 1 else 1)
        elif kind == "LOC":
            lists["loc"] += [name] * times
        elif kind == "PER" and len(parts) == 2 and parts[0].lower() not in NO_FIRST_NAMES and name.istitle():
            lists["per"] += [name] * times
            if len(parts[0]) > 2 and "." not in parts[0] and parts[0].lower() not in unwanted:
                lists["first"].append(parts[0])
            if parts[1].lower() not in unwanted:
                lists["last"].append(parts[1])
        elif kind == "MISC" and re.fullmatch(r"[A-Z][a-z]+(?:ish|ese|ian|ean)", name):
            lists["misc"].append(name)
    lists["club"] = [name for slot in ("loc", "org") for name in lists[slot] if " " not in name]
    return lists


def filled(template, lists, chance):
    text, spans = "", []
    for piece in re.split(r"(\{\w+\})", template):
        slot = piece[1:-1] if piece.startswith("{") else None
        if slot is None:
            text += piece
        elif slot.lower() in KIND_OF_SLOT:
            name = chance.choice(lists[slot.lower()])
            if slot.isupper():
                name = name.upper()
            spans.append((len(text), len(text) + len(name), KIND_OF_SLOT[slot.lower()]))
            text += name
        else:
            text += chance.choice(FILLERS[slot])
    # Message authors omit the period.
    if template.endswith(".") and chance.random() < 0.15:
        text = text[:-1]
    return text, spans


def templates(file):
    with open(os.path.join(HERE, file), encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines if line.strip() and not line.startswith("#")]


def substituted(sentence, lists, chance):
    """Returns the sentence with its names replaced by others of the same type."""
    text, spans = sentence
    new, new_spans, at = "", [], 0
    for start, end, kind in spans:
        new += text[at:start]
        name, parts = text[start:end], text[start:end].split(" ")
        if kind == "PER" and is_clean(name):
            name = chance.choice(lists["per"] if len(parts) > 1 else lists["first"])
        elif kind in ("ORG", "LOC") and is_clean(name):
            name = chance.choice(lists[kind.lower()])
        new_spans.append((len(new), len(new) + len(name), kind))
        new += name
        at = end
    return new + text[at:], new_spans


def read(by_corpus, chance):
    """Yields (name, has_misc, sentences), as `corpora.read` does. `by_corpus` contains the corpora in that form."""
    sentences = [sentence for _, _, own in by_corpus for sentence in own]
    lists = name_lists(sentences)
    made = []
    for template in templates("messages.txt"):
        count = PER_ORGANIZATION if "{org}" in template else PER_OTHER
        made += [filled(template, lists, chance) for _ in range(count)]
    chance.shuffle(made)
    yield "messages", True, made
    made = [filled(template, lists, chance) for template in templates("headlines.txt") for _ in range(PER_HEADLINE)]
    chance.shuffle(made)
    yield "headlines", True, made
    # Corpora without MISC labels are excluded, because most of their texts are noisy.
    with_organization = [
        sentence for _, has_misc, own in by_corpus if has_misc for sentence in own
        if any(kind == "ORG" and is_clean(sentence[0][a:b]) for a, b, kind in sentence[1]) and len(sentence[0]) < 250
    ]
    chosen = [with_organization[chance.randrange(len(with_organization))] for _ in range(SUBSTITUTED)]
    yield "substituted", True, [substituted(sentence, lists, chance) for sentence in chosen]


def main():
    """Prints some of the sentences: `augment.py CORPORA`."""
    chance = random.Random(2)
    by_corpus = list(corpora.read(sys.argv[1], "en"))
    for name, _, sentences in read(by_corpus, chance):
        print(name, len(sentences), sum(len(text.split()) for text, _ in sentences), "words")
        for text, spans in sentences[:40]:
            print("   ", text, [(text[a:b], kind) for a, b, kind in spans])


if __name__ == "__main__":
    main()
