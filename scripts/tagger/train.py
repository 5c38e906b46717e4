"""Trains the network: `train.py LANGUAGE FEATURES OUTPUT [epochs [seed]]`, or with `--test` at the end.

Requires only numpy. The output has the format read by `crates/libs/inference/src/tagger/network.rs`. The network is
evaluated on the development texts, and on the test texts only with `--test`, so that they do not influence tuning.
"""

import glob
import os
import pickle
import struct
import sys
import time

import numpy as np

import corpora
import words

HIDDEN, TAGS, WIDTH, ROLES, LAYERS = 128, 9, 384, 3, 2
INPUTS = ROLES * LAYERS * WIDTH
MAX_SHAPES = 40
# Shares of the texts read in lower case and in capitals. The embedding model ignores case, so only the shapes change.
LOWERED_SHARE, CAPITALS_SHARE = 0.2, 0.05
AS_IS, LOWERED, CAPITALS = 0, 1, 2
BATCH = 512
# Dropout rates: single inputs, whole vectors of a word or a neighbour, hidden units.
# Dropping whole vectors prevents the network from relying only on known names or only on the context.
DROPPED_INPUTS, DROPPED_VECTORS, DROPPED_HIDDEN = 0.1, 0.05, 0.3
RATE = 1e-3
# The final weights are the mean of the weights after every `MEAN_EVERY`th step.
MEAN_EVERY, MEAN_SHARE = 10, 0.99


class Words:
    """Concatenated words of several texts."""

    def __init__(self, paths, has_capitals=False):
        self.items, vectors, self.allowed, labels, items_of = [], [], [], [], []
        shapes, lowered, capitals = [], [], []
        for path in paths:
            stored = np.load(path)
            items = pickle.loads(stored["items"].tobytes())
            vectors.append(stored["vectors"])
            for item in items:
                items_of += [len(self.items)] * len(item["words"])
                self.items.append(item)
                labels += item["labels"]
                self.allowed += [item.get("has_misc", True)] * len(item["words"])
                shapes += item["shapes"]
                lowered += item["lowered"] or item["shapes"]
                capitals += shapes_in_capitals(item) if has_capitals else []
        self.vectors = np.concatenate(vectors)
        self.labels = np.array(labels)
        self.items_of = np.array(items_of)
        self.starts = np.concatenate([[0], np.cumsum([len(item["words"]) for item in self.items])])
        self.has_misc = np.array(self.allowed)
        self.shapes = [padded(shapes), padded(lowered)] + ([padded(capitals)] if has_capitals else [])

    def near(self, index, role):
        """Returns the indices of the words before (0), at (1) and after (2); one past the end if there is none."""
        at = index + role - 1
        inside = (at >= 0) & (at < len(self.items_of))
        same = inside & (self.items_of[np.clip(at, 0, len(self.items_of) - 1)] == self.items_of[index])
        return np.where(same, at, len(self.items_of))


def shapes_in_capitals(item):
    text = item["text"].upper()
    if len(text) != len(item["text"]):
        return item["shapes"]
    # `words.shapes` uses only the number of tokens, which is the last feature of a word.
    tokens = [range(on[-1] - words.SHAPES + 5) for on in item["shapes"]]
    return words.shapes(text, [(start, end, own) for (start, end), own in zip(item["words"], tokens)])


def padded(lists):
    array = np.full((len(lists), MAX_SHAPES), words.SHAPES, np.int16)
    for row, places in zip(array, lists):
        row[: len(places)] = places
    return array


def inputs(data, index, case, scale):
    """Returns the inputs of words; `case` is the case of each."""
    x = np.zeros((len(index), INPUTS + words.SHAPES + 1), np.float32)
    for role in range(ROLES):
        at = data.near(index, role)
        inside = at < len(data.items_of)
        x[inside, role * 768 : role * 768 + 768] = data.vectors[at[inside]]
    x[:, :INPUTS].reshape(len(index), ROLES, LAYERS, WIDTH)[...] *= scale[None, None, :, None]
    shapes = data.shapes[AS_IS][index]
    for changed in range(1, len(data.shapes)):
        rows = case == changed
        shapes[rows] = data.shapes[changed][index[rows]]
    x[np.arange(len(index))[:, None], INPUTS + shapes] = 1
    x[:, -1] = 0
    return x


def best(scores):
    """Viterbi decoding with the rule that an inside tag follows a tag of the same type."""
    further = [tag > 0 and tag % 2 == 0 for tag in range(TAGS)]
    allowed = np.array([[not further[t] or b == t or b + 1 == t for t in range(TAGS)] for b in range(TAGS)])
    sums = np.where(further, -np.inf, scores[0])
    back = []
    for own in scores[1:]:
        all_sums = np.where(allowed, sums[:, None], -np.inf)
        back.append(all_sums.argmax(0))
        sums = all_sums.max(0) + own
    tags = [int(sums.argmax())]
    for step in reversed(back):
        tags.append(int(step[tags[-1]]))
    return tags[::-1]


def spans_of_tags(item, tags):
    found, before = [], 0
    for (start, end), tag in zip(item["words"], tags):
        if tag and tag % 2 == 0 and before in (tag, tag - 1):
            found[-1] = (found[-1][0], end, (tag - 1) // 2)
        elif tag:
            found.append((start, end, (tag - 1) // 2))
        before = tag
    return set(found)


def evaluate(network, data, scale, case, kinds=(0, 1, 2, 3), items=None):
    counts = np.zeros((4, 3), int)
    index = np.arange(len(data.items_of))
    scores = np.concatenate([
        network.scores(inputs(data, part, np.full(len(part), case), scale))
        for part in np.array_split(index, max(1, len(index) // 4096))
    ])
    for number, item in enumerate(data.items) if items is None else ((n, data.items[n]) for n in items):
        own = scores[data.starts[number] : data.starts[number + 1]]
        found = spans_of_tags(item, best(own))
        gold = {(a, b, corpora.KINDS[kind]) for a, b, kind in item["spans"]}
        for kind in range(4):
            f, g = {x for x in found if x[2] == kind}, {x for x in gold if x[2] == kind}
            counts[kind] += [len(f & g), len(f - g), len(g - f)]
    return report(counts, kinds), counts


def report(counts, kinds=(0, 1, 2, 3)):
    def figures(right, wrong, missed):
        p, r = right / max(1, right + wrong), right / max(1, right + missed)
        return f"{p:.3f} {r:.3f} {2 * p * r / max(1e-9, p + r):.3f}"

    lines = [f"{name} {figures(*counts[kind])}" for name, kind in corpora.KINDS.items() if kind in kinds]
    return " | ".join([*lines, f"all {figures(*counts[list(kinds)].sum(0))}"])


def kept(chance, shape, share):
    """Returns dropout factors that preserve the expected value."""
    limit = round(share * 256)
    return (chance.integers(0, 256, shape, np.uint8) >= limit) * np.float32(256 / (256 - limit))


class Network:
    def __init__(self, chance):
        size = INPUTS + words.SHAPES + 1
        self.parts = {
            "w1": chance.normal(0, np.sqrt(2 / size), (size, HIDDEN)).astype(np.float32),
            "b1": np.zeros(HIDDEN, np.float32),
            "w2": chance.normal(0, np.sqrt(1 / HIDDEN), (HIDDEN, TAGS)).astype(np.float32),
            "b2": np.zeros(TAGS, np.float32),
        }
        self.moments = {name: (np.zeros_like(p), np.zeros_like(p)) for name, p in self.parts.items()}
        self.means = {name: p.copy() for name, p in self.parts.items()}
        self.steps = 0

    def scores(self, x):
        p = self.parts
        return np.maximum(x @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]

    def step(self, x, labels, has_misc, rate, chance):
        p = self.parts
        x *= kept(chance, x.shape, DROPPED_INPUTS)
        blocks = x[:, :INPUTS].reshape(len(x), ROLES * LAYERS, WIDTH)
        blocks *= kept(chance, (len(x), ROLES * LAYERS, 1), DROPPED_VECTORS)
        pre = x @ p["w1"] + p["b1"]
        keep = kept(chance, pre.shape, DROPPED_HIDDEN)
        hidden = np.maximum(pre, 0) * keep
        scores = hidden @ p["w2"] + p["b2"]
        scores -= scores.max(1, keepdims=True)
        q = np.exp(scores)
        q /= q.sum(1, keepdims=True)
        target = np.zeros_like(q)
        target[np.arange(len(labels)), labels] = 1
        # If MISC is not labelled, a word without a label may be one.
        open_rows = (labels == 0) & ~has_misc
        part = q[open_rows][:, [0, 7, 8]]
        soft = np.zeros((len(part), TAGS), np.float32)
        soft[:, [0, 7, 8]] = part / part.sum(1, keepdims=True)
        target[open_rows] = soft
        loss = -np.log(np.maximum((q * (target > 0)).sum(1), 1e-9)).mean()
        grad = (q - target) / len(labels)
        back = grad @ p["w2"].T * keep * (pre > 0)
        grads = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ grad, "b2": grad.sum(0)}
        self.steps += 1
        for name, g in grads.items():
            one, two = self.moments[name]
            one *= 0.9
            one += 0.1 * g
            two *= 0.999
            two += 0.001 * g * g
            change = one / (1 - 0.9**self.steps) / (np.sqrt(two / (1 - 0.999**self.steps)) + 1e-8)
            if name in ("w1", "w2"):
                change += 0.01 * p[name]
            p[name] -= rate * change
        if self.steps % MEAN_EVERY == 0:
            # Early steps have a low weight.
            share = min(MEAN_SHARE, (1 + self.steps / MEAN_EVERY) / (10 + self.steps / MEAN_EVERY))
            for name, mean in self.means.items():
                mean += (1 - share) * (p[name] - mean)
        return loss

    def blocks(self):
        return [slice(i * WIDTH, (i + 1) * WIDTH) for i in range(ROLES * LAYERS)] + [slice(INPUTS, INPUTS + words.SHAPES)]

    def quantized(self):
        """Rounds the weights of the hidden layer to bytes; returns bytes and scales."""
        w1, scales, rows = self.parts["w1"], [], []
        for block in self.blocks():
            scale = np.maximum(np.abs(w1[block]).max(0), 1e-9) / 127
            bytes_ = np.round(w1[block] / scale).astype(np.int8)
            w1[block] = bytes_ * scale
            scales.append(scale.astype(np.float32))
            rows.append(bytes_)
        return np.concatenate(rows), scales


def store(network, scale, path):
    rows, scales = network.quantized()
    p = network.parts
    with open(path, "wb") as file:
        file.write(b"agentd names 1\n\0")
        file.write(struct.pack("<4I", HIDDEN, WIDTH, words.SHAPES, TAGS))
        for number, part in enumerate(scales):
            # The vectors are used unchanged.
            own = scale[number % LAYERS] if number < ROLES * LAYERS else 1
            file.write((part * own).astype("<f4").tobytes())
        for part in (p["b1"], p["w2"], p["b2"]):
            file.write(part.astype("<f4").tobytes())
        file.write(rows.tobytes())


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--test"]
    language, features, output = arguments[:3]
    epochs = int(arguments[3]) if len(arguments) > 3 else 8
    chance = np.random.default_rng(int(arguments[4]) if len(arguments) > 4 else 7)

    def paths(role):
        return sorted(glob.glob(os.path.join(features, f"{language}.{role}.*npz")))

    train = Words(paths("train") + paths("augmented"), True)
    sample = train.vectors[:: max(1, len(train.vectors) // 20000)].astype(np.float32)
    scale = np.array([1 / sample[:, :WIDTH].std(), 1 / sample[:, WIDTH:].std()], np.float32)
    index = np.arange(len(train.items_of))
    print(f"{len(train.items)} texts, {len(index)} words, scale {scale}", flush=True)
    network = Network(chance)
    for epoch in range(epochs):
        started, losses = time.time(), []
        drawn = chance.random(len(train.items))
        cases = np.select(
            [drawn < LOWERED_SHARE, drawn < LOWERED_SHARE + CAPITALS_SHARE], [LOWERED, CAPITALS], AS_IS
        )[train.items_of]
        order = chance.permutation(index)
        count = len(order) // BATCH
        for number in range(count):
            batch = order[number * BATCH : (number + 1) * BATCH]
            at = (epoch + number / count) / epochs
            rate = RATE * min(1, at * 20) * (1 - at)
            x = inputs(train, batch, cases[batch], scale)
            losses.append(network.step(x, train.labels[batch], train.has_misc[batch], rate, chance))
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, {time.time() - started:.0f} s", flush=True)
    network.parts = network.means
    store(network, scale, output)
    for role in ("development", "test") if "--test" in sys.argv else ("development",):
        texts = Words(paths(role))
        for corpus in sorted({item["corpus"] for item in texts.items}):
            own = [number for number, item in enumerate(texts.items) if item["corpus"] == corpus]
            for name, case in (("as it is", AS_IS), ("lowercased", LOWERED)):
                _, counts = evaluate(network, texts, scale, case, items=own)
                print(f"{role}, {corpus}, {name}: {report(counts)}")
                print(f"{role}, {corpus}, {name}, without MISC: {report(counts, (0, 1, 2))}", flush=True)


if __name__ == "__main__":
    main()
