"""Runs the embedding model over the corpora and stores the training features: `features.py MODEL CORPORA OUTPUT [LANGUAGE…]`."""

import os
import pickle
import random
import sys

import numpy as np

import augment
import corpora
import encoder
import words

MAX_TOKENS = 200
BATCH_TOKENS = 1500
# Number of texts per file.
PART = 250


def grouped(sentences, tokenize, chance):
    """Yields single sentences and groups of consecutive sentences, like messages."""
    group, count = None, 0
    for text, spans in sentences:
        size = len(tokenize(text))
        if group and (chance.random() < 0.4 or count + size > MAX_TOKENS):
            yield group
            group = None
        if group is None:
            group, count = (text, list(spans)), size
        else:
            shift = len(group[0]) + 1
            joined = group[0] + ("\n" if chance.random() < 0.2 else " ") + text
            group = (joined, group[1] + [(a + shift, b + shift, kind) for a, b, kind in spans])
            count += size
    if group:
        yield group


def labels_of(cut, spans):
    """Returns a BIO tag for each word."""
    labels, before = [], None
    for start, end, _ in cut:
        over = next((i for i, (a, b, _) in enumerate(spans) if a < end and start < b), None)
        if over is None:
            labels.append(0)
        else:
            labels.append(1 + 2 * corpora.KINDS[spans[over][2]] + (over == before))
        before = over
    return labels


def compute(model, examples):
    """Returns the data of texts with spans, and the vectors of all words."""
    items = []
    for text, spans in examples:
        cut = words.words_of(text, model.tokenize)
        # Longer texts are rare; the engine truncates them.
        while sum(len(tokens) for _, _, tokens in cut) > 250:
            cut.pop()
        items.append((text, spans, cut))
    order = sorted(range(len(items)), key=lambda i: sum(len(t) for _, _, t in items[i][2]))
    vectors = [None] * len(items)
    batch, size = [], 0
    for place, index in enumerate(order):
        batch.append(index)
        size += sum(len(tokens) for _, _, tokens in items[index][2])
        if size < BATCH_TOKENS and place + 1 < len(order):
            continue
        rows = [[token for _, _, tokens in items[i][2] for token in tokens] for i in batch]
        for i, row, last in zip(batch, rows, model.encode(rows)):
            first = model.pieces(np.array(row))
            starts = np.cumsum([0] + [len(tokens) for _, _, tokens in items[i][2]])[:-1]
            counts = np.array([len(tokens) for _, _, tokens in items[i][2]], np.float32)[:, None]
            both = np.concatenate([np.add.reduceat(first, starts), np.add.reduceat(last, starts)], 1)
            vectors[i] = (both / counts).astype(np.float16)
        batch, size = [], 0
    stored = []
    for text, spans, cut in items:
        lowered = text.lower()
        stored.append({
            "text": text, "spans": spans, "words": [(a, b) for a, b, _ in cut], "labels": labels_of(cut, spans),
            "shapes": words.shapes(text, cut),
            "lowered": words.shapes(lowered, cut) if len(lowered) == len(text) else None,
        })
    return stored, np.concatenate(vectors)


def store(path, model, examples):
    if os.path.exists(path):
        return
    items, vectors = compute(model, [example[:2] for example in examples])
    for item, (_, _, has_misc, corpus) in zip(items, examples):
        item["has_misc"], item["corpus"] = has_misc, corpus
    np.savez(path, vectors=vectors, items=np.frombuffer(pickle.dumps(items), np.uint8))
    print(path, len(items), vectors.shape, flush=True)


def parts(model, folder, language):
    """Yields the files of a language: names and texts, with shuffled corpora."""
    by_corpus = list(corpora.read(folder, language))
    sources = [("train", 1, by_corpus)]
    if language == "en":
        sources.append(("augmented", 2, augment.read(by_corpus, random.Random(2))))
    for role, seed, source in sources:
        chance = random.Random(seed)
        texts = []
        for name, has_misc, sentences in source:
            texts += [(*group, has_misc, name) for group in grouped(sentences, model.tokenize, chance)]
        chance.shuffle(texts)
        for first in range(0, len(texts), PART):
            yield f"{language}.{role}.{first:05}.npz", texts[first : first + PART]
    roles = {}
    for role, name, sentences in corpora.read_evaluation(folder, language):
        roles.setdefault(role, []).extend((*sentence, True, name) for sentence in sentences)
    for role, texts in roles.items():
        for first in range(0, len(texts), PART):
            yield f"{language}.{role}.{first:05}.npz", texts[first : first + PART]


def main():
    model_path, folder, output = sys.argv[1:4]
    model = encoder.Encoder(model_path)
    os.makedirs(output, exist_ok=True)
    for language in sys.argv[4:] or ("en", "de"):
        for name, examples in parts(model, folder, language):
            store(os.path.join(output, name), model, examples)


if __name__ == "__main__":
    main()
