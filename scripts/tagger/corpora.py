"""Reads the corpora as texts with the spans of their names."""

import glob
import html
import os
import re

TAGS = ["O"] + [f"{prefix}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for prefix in "BI"]
KINDS = {"PER": 0, "ORG": 1, "LOC": 2, "MISC": 3}

SAME = {
    "PER": "PER", "ORG": "ORG", "LOC": "LOC", "MISC": "MISC", "person": "PER", "organisation": "ORG",
    "location": "LOC", "misc": "MISC",
}
WNUT = {
    "person": "PER", "location": "LOC", "corporation": "ORG", "group": "ORG", "product": "MISC",
    "creative-work": "MISC",
}
CROSSNER = {
    **SAME, "politician": "PER", "writer": "PER", "musicalartist": "PER", "scientist": "PER", "researcher": "PER",
    "band": "ORG", "politicalparty": "ORG", "university": "ORG", "country": "LOC", "academicjournal": "MISC",
    "magazine": "MISC", "book": "MISC", "album": "MISC", "song": "MISC", "poem": "MISC", "award": "MISC",
    "event": "MISC", "election": "MISC", "conference": "MISC", "product": "MISC", "programlang": "MISC",
    "astronomicalobject": "MISC",
}
MESSAGES = {"person": "PER", "organization": "ORG", "place": "LOC"}
LABEL = re.compile(r"\[([^|\]]+)\|([^|\]]+)[^\]]*\]")
GERMEVAL = {"PER": "PER", "ORG": "ORG", "LOC": "LOC", "OTH": "MISC"}

OPENING = {"(", "[", "{", "$", "#", "“", "„", "``"}
CLOSING = {",", ".", ";", ":", "!", "?", ")", "]", "}", "%", "”", "''", "…"}
CLITICS = {"'s", "n't", "'m", "'re", "'ve", "'d", "'ll", "’s", "n’t", "’m", "’re", "’ve", "’d", "’ll", "'S", "N'T"}


def rows(path, token, tag):
    """Yields sentences as lists of (token, tag)."""
    sentence = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\r\n")
            if token > 0 and line.startswith("# "):
                continue
            fields = line.split("\t") if "\t" in line else line.split(" ")
            if not line.strip() or line.startswith("-DOCSTART-"):
                if sentence:
                    yield sentence
                sentence = []
            elif len(fields) > max(token, tag) and fields[token]:
                sentence.append((fields[token], fields[tag]))
    if sentence:
        yield sentence


def without_mentions(pairs):
    """Merges "@" and "name", which the Broad Twitter Corpus splits and labels, into one token without a label. An "@"
    without a label mostly means "at"."""
    joined, is_mention = [], False
    for token, tag in pairs:
        if is_mention:
            joined.append(("@" + token, "O"))
            is_mention = False
        elif token == "@" and tag != "O":
            is_mention = True
        else:
            joined.append((html.unescape(token), tag))
    return joined


def sentence_of(pairs, kinds):
    """Returns the text with natural spacing, and its spans (start, end, kind)."""
    text, spans, is_quoted, glued, before = "", [], False, True, "O"
    for token, tag in pairs:
        prefix, _, name = tag.partition("-")
        kind = kinds.get(name) if prefix in ("B", "I") else None
        if token.startswith("@") and len(token) > 1:
            kind = None
        token = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")"}.get(token, token)
        is_closing = token in CLOSING or token in CLITICS or token == '"' and is_quoted
        if text and not glued and not is_closing:
            text += " "
        start = len(text)
        text += token
        glued = token in OPENING or token == '"' and not is_quoted
        if token == '"':
            is_quoted = not is_quoted
        if kind:
            continues = prefix == "I" and before.partition("-")[2] == name and before != "O" and spans
            if continues and spans[-1][2] == kind:
                spans[-1] = (spans[-1][0], len(text), kind)
            else:
                spans.append((start, len(text), kind))
            before = tag
        else:
            before = "O"
    return text, spans


def read(folder, language):
    """Yields (name, has_misc, sentences) of the training data. If the corpus does not label MISC, a word without a label
    may be one. Uses every fourth sentence without a name, and all or every second of the others."""
    def sentences(paths, token, tag, kinds, every=1):
        found = [
            sentence_of(without_mentions(pairs), kinds) for path in sorted(paths) for pairs in rows(path, token, tag)
        ]
        return [sentence for number, sentence in enumerate(found) if number % (every if sentence[1] else 4) == 0]

    def found(pattern):
        return glob.glob(os.path.join(folder, pattern))

    if language == "de":
        yield "GermEval 2014", True, sentences(found("germeval.test.tsv"), 1, 2, GERMEVAL)
        return
    yield "Wikigold", True, sentences(found("wikigold.conll"), 0, 1, SAME)
    yield "WNUT17", True, sentences(found("wnut17.*.conll"), 0, 1, WNUT)
    yield "Broad Twitter Corpus", False, sentences(found("btc.*.conll"), 0, 1, SAME)
    yield "UNER English EWT", False, sentences(found("uner.*.iob2"), 1, 2, SAME)
    yield "CrossNER", True, sentences(found("crossner.*.txt"), 0, 1, CROSSNER)


def message_of(line):
    """Parses a line of the labelled messages, [surface|type] or [surface|type|key], into a text and its spans."""
    text, spans, at = "", [], 0
    for label in LABEL.finditer(line):
        text += line[at : label.start()]
        spans.append((len(text), len(text) + len(label[1]), MESSAGES[label[2]]))
        text += label[1]
        at = label.end()
    return text + line[at:], spans


def messages(file):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), file), encoding="utf-8") as lines:
        return [message_of(line.rstrip("\n")) for line in lines if line.strip() and not line.startswith("#")]


def read_evaluation(folder, language):
    """Yields (role, name, sentences) of the evaluation data: development texts are used for tuning, test texts only for
    the final evaluation."""
    def sentences(file, token, tag, kinds):
        return [sentence_of(pairs, kinds) for pairs in rows(os.path.join(folder, file), token, tag)]

    if language == "de":
        yield "development", "GermEval 2014", sentences("germeval.dev.tsv", 1, 2, GERMEVAL)
        return
    yield "development", "chat-en", messages("chat-en.txt")
    yield "development", "CoNLL-2003 testa", sentences("conll2003.testa.txt", 0, 1, SAME)
    yield "test", "chat-fresh-en", messages("chat-fresh-en.txt")
    yield "test", "CoNLL-2003 testb", sentences("conll2003.testb.txt", 0, 1, SAME)
