"""Writes the reference data of the tests and the probe that identifies the embedding model.

    examples.py MODEL CRATE_TAGGER_FOLDER

`probe.bin` contains the mean vectors of the probe's words. `examples.json` contains words, tokens and features of some
texts, and for the probe the vectors of each word in thousandths.
"""

import json
import os
import sys

import numpy as np

import encoder
import words

PROBE = "Anna works at Siemens in Berlin."
TEXTS = [
    PROBE,
    "Anna O'Brien's brother works at Coca-Cola Co. in the U.S., doesn't he?",
    "we met mr. yilmaz (the new CEO of AT&T) in são paulo on 3,500 euros!\nHe pays 5€ @bob #team",
    "„Ich heiße Jürgen“, sagte er: Köln ist schön…",
    "ALL CAPS HERE: NASA AND ESA IN PARIS",
    "My Favourite Places Are Rome And New York.",
]


def main():
    model_path, folder = sys.argv[1:3]
    model = encoder.Encoder(model_path)
    examples = []
    for text in TEXTS:
        cut = words.words_of(text, model.tokenize)
        row = [token for _, _, tokens in cut for token in tokens]
        example = {
            "text": text,
            "words": [text[a:b] for a, b, _ in cut],
            "tokens": [tokens for _, _, tokens in cut],
            "shapes": [sorted(on) for on in words.shapes(text, cut)],
        }
        if text == PROBE:
            first, last = model.pieces(np.array(row)), model.encode([row])[0]
            starts = np.cumsum([0] + [len(tokens) for _, _, tokens in cut])[:-1]
            counts = np.array([len(tokens) for _, _, tokens in cut])[:, None]
            both = np.concatenate([np.add.reduceat(first, starts), np.add.reduceat(last, starts)], 1) / counts
            example["vectors"] = np.round(both * 1000).astype(int).tolist()
            with open(os.path.join(folder, "probe.bin"), "wb") as file:
                file.write(both.mean(0).astype("<f4").tobytes())
        examples.append(example)
    with open(os.path.join(folder, "examples.json"), "w", encoding="utf-8") as file:
        json.dump(examples, file, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
