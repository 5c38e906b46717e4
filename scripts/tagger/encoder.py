"""The embedding model in numpy: word pieces, and the vectors before its first and after its last layer.

The engine uses eight-bit activations, this code floats; the vectors differ by about 0.1 %.
"""

import unicodedata

import gguf
import numpy as np


def load(path):
    reader = gguf.GGUFReader(path)
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        weights[tensor.name] = np.ascontiguousarray(values.astype(np.float32))
    field = reader.fields["tokenizer.ggml.tokens"]
    tokens = [bytes(field.parts[index]).decode() for index in field.data]
    return weights, {token: index for index, token in enumerate(tokens)}


def is_han(code):
    ranges = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
              (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
    return any(first <= code <= last for first, last in ranges)


class Tokenizer:
    """Splits a text into the same word pieces as the engine."""

    UNKNOWN, BEGIN, END = 100, 101, 102

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.longest = max(map(len, vocabulary))
        self.known = {}

    def __call__(self, text):
        if text not in self.known:
            self.known[text] = [token for word in self.words(text) for token in self.pieces(word)]
        return self.known[text]

    def words(self, text):
        words = [""]
        for character in unicodedata.normalize("NFD", text):
            category = unicodedata.category(character)
            if character.isspace():
                words.append("")
            elif character in "\0\ufffd" or category in ("Cc", "Cf") or category == "Mn":
                continue
            else:
                lower = character.lower()
                code = ord(character)
                if category[0] == "P" or code < 0x7F and category[0] == "S" or is_han(code):
                    words += [lower, ""]
                else:
                    words[-1] += lower
        return [word for word in words if word]

    def pieces(self, word):
        found, at, marked = [], 0, "▁" + word
        while at < len(marked):
            for end in range(min(len(marked), at + self.longest), at, -1):
                token = self.vocabulary.get(marked[at:end])
                if token is not None:
                    found.append(token)
                    at = end
                    break
            else:
                return [self.UNKNOWN]
        return found


def normalized(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    x /= np.sqrt(np.einsum("ij,ij->i", x, x) / x.shape[1] + 1e-12)[:, None]
    x *= weights[name + ".weight"]
    x += weights[name + ".bias"]
    return x


class Encoder:
    HEADS = 12

    def __init__(self, path):
        self.weights, vocabulary = load(path)
        self.tokenize = Tokenizer(vocabulary)
        self.layers = 6

    def pieces(self, tokens):
        """Returns the vectors of word pieces independent of their position."""
        w = self.weights
        return normalized(w["token_embd.weight"][tokens] + w["token_types.weight"][0], w, "token_embd_norm")

    def encode(self, rows):
        """Returns the vectors after the last layer for rows of tokens, without the special tokens."""
        w = self.weights
        rows = [[Tokenizer.BEGIN, *row, Tokenizer.END] for row in rows]
        ends = np.cumsum([len(row) for row in rows])
        tokens = np.concatenate([np.array(row) for row in rows])
        positions = np.concatenate([np.arange(len(row)) for row in rows])
        x = w["token_embd.weight"][tokens] + w["token_types.weight"][0] + w["position_embd.weight"][positions]
        x = normalized(x, w, "token_embd_norm")
        for layer in range(self.layers):
            p = f"blk.{layer}."
            q, k, v = (x @ w[p + f"attn_{n}.weight"].T + w[p + f"attn_{n}.bias"] for n in "qkv")
            mixed = np.empty_like(x)
            start = 0
            for end in ends:
                heads = [part[start:end].reshape(end - start, self.HEADS, -1).transpose(1, 0, 2) for part in (q, k, v)]
                scores = heads[0] @ heads[1].transpose(0, 2, 1) / np.sqrt(heads[0].shape[-1])
                scores = np.exp(scores - scores.max(-1, keepdims=True))
                scores /= scores.sum(-1, keepdims=True)
                mixed[start:end] = (scores @ heads[2]).transpose(1, 0, 2).reshape(end - start, -1)
                start = end
            x = normalized(x + mixed @ w[p + "attn_output.weight"].T + w[p + "attn_output.bias"], w,
                           p + "attn_output_norm")
            h = x @ w[p + "ffn_up.weight"].T + w[p + "ffn_up.bias"]
            # The engine's GELU approximation by tanh, written as a sigmoid.
            power = h * h
            power *= np.float32(-2 * np.sqrt(2 / np.pi) * 0.044715)
            power -= np.float32(2 * np.sqrt(2 / np.pi))
            power *= h
            with np.errstate(over="ignore"):
                np.exp(power, out=power)
            power += 1
            h /= power
            x = normalized(x + h @ w[p + "ffn_down.weight"].T + w[p + "ffn_down.bias"], w, p + "layer_output_norm")
        start, parts = 0, []
        for end in ends:
            parts.append(x[start + 1 : end - 1])
            start = end
        return parts
