#!/usr/bin/env python3
"""Writes the sentence encoder all-MiniLM-L6-v2 as one GGUF file with eight bits per weight.

    convert.py SOURCE TARGET

SOURCE is the folder with `config.json`, `vocab.txt`, `tokenizer_config.json`, `1_Pooling/config.json`
and `model.safetensors`. The output is identical on every machine: every step is done element
by element in IEEE arithmetic, and the file contains no machine- or time-dependent data.

Preprocessing and pooling are those of the published model: `[CLS]` first, `[SEP]` last, one segment,
lower case, no accents, mean over all tokens. The classification head of the published file (`pooler`)
is not part of a sentence vector and is omitted.
"""

import json
import pathlib
import sys

import gguf
import numpy
from safetensors.numpy import load_file

SPECIAL = {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}
UNKNOWN = "[UNK]"
# Marks the beginning of a word in the engine's vocabulary; the publisher marks continuations instead.
WORD_START = "\u2581"
LEFT_OUT = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}
# The engine adds rows of these tensors to others, which requires full precision.
KEPT_WHOLE = {"embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"}


def must(condition: bool, sentence: str) -> None:
    if not condition:
        sys.exit(f"convert: {sentence}")


def add_settings(writer: gguf.GGUFWriter, source: pathlib.Path) -> int:
    """Writes the shape of the network and returns the number of its layers."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    pooling = json.loads((source / "1_Pooling/config.json").read_text(encoding="utf-8"))
    must(config["model_type"] == "bert", f"a model of the type {config['model_type']} is not known here")
    must(config["hidden_act"] == "gelu", f"the activation {config['hidden_act']} is not known here")
    must(config["position_embedding_type"] == "absolute", "positions are not absolute")
    modes = sorted(mode for mode, on in pooling.items() if mode.startswith("pooling_mode") and on)
    must(modes == ["pooling_mode_mean_tokens"], f"a vector is not the mean over the tokens but {modes}")

    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    return config["num_hidden_layers"]


def add_vocabulary(writer: gguf.GGUFWriter, source: pathlib.Path) -> None:
    settings = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    must(settings["tokenizer_class"] == "BertTokenizer" and settings["do_lower_case"], "the tokenizer is another one")
    pieces = (source / "vocab.txt").read_text(encoding="utf-8").split("\n")
    if pieces[-1] == "":
        pieces.pop()
    tokens, types = [], []
    for piece in pieces:
        if piece == UNKNOWN:
            tokens.append(piece)
            types.append(gguf.TokenType.UNKNOWN)
        elif piece in SPECIAL:
            tokens.append(piece)
            types.append(gguf.TokenType.CONTROL)
        else:
            tokens.append(piece[2:] if piece.startswith("##") else WORD_START + piece)
            types.append(gguf.TokenType.NORMAL)
    must(len(set(tokens)) == len(tokens), "two pieces of the vocabulary became the same")

    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_type_count(2)
    writer.add_bos_token_id(pieces.index("[CLS]"))
    writer.add_unk_token_id(pieces.index(UNKNOWN))
    writer.add_sep_token_id(pieces.index("[SEP]"))
    writer.add_pad_token_id(pieces.index("[PAD]"))
    writer.add_mask_token_id(pieces.index("[MASK]"))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_sep_token(True)


def add_tensors(writer: gguf.GGUFWriter, source: pathlib.Path, layers: int) -> None:
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    tensors = load_file(source / "model.safetensors")
    for name in sorted(tensors):
        if name in LEFT_OUT:
            continue
        stem, _, part = name.rpartition(".")
        target = names.get_name(stem)
        must(target is not None, f"the tensor {name} has no place in the file")
        data = numpy.ascontiguousarray(tensors[name], dtype=numpy.float32)
        if part == "weight" and data.ndim == 2 and name not in KEPT_WHOLE:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{target}.{part}", gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{target}.{part}", data)


def main() -> None:
    must(len(sys.argv) == 3, "usage: convert.py SOURCE TARGET")
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    writer = gguf.GGUFWriter(target, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.BERT])
    layers = add_settings(writer, source)
    add_vocabulary(writer, source)
    add_tensors(writer, source, layers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
