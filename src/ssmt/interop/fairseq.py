"""Models of the original implementation (Meyer and Buys 2023, an extension of fairseq) as model directories.

Nothing is approximated. The original's two lexicon layers have no nonlinearity between them and become one; the rows
of that layer move, because our lexicon is ordered by its characters; an LSTM's two biases are added up.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ssmt.config import Config, NetworkConfig, changed
from ssmt.directory import save_description, save_weights
from ssmt.errors import UserError
from ssmt.interop.checkpoint import Tensors, read_checkpoint
from ssmt.model.ssmt import SSMT
from ssmt.text.alphabet import EOM, Alphabet
from ssmt.text.dictionary import SPECIALS, DictionarySubwords, read_dictionary
from ssmt.text.lexicon import LONGEST_ENTRY, Gram, Lexicon
from ssmt.text.vocabulary import Vocabulary

# Options of fairseq's Transformer that our network has no equivalent for, with the value that it does have.
FIXED_OPTIONS: dict[str, Any] = {
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "no_token_positional_embeddings": False,
    "layernorm_embedding": False,
    "activation_fn": "relu",
    "adaptive_input": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "no_decoder_final_norm": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "base_layers": 0,
}
# Both sides have the same value in our network.
PAIRED_OPTIONS = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")
FIRST_POSITION = 2  # fairseq counts positions from its padding id, 1, upwards
# Tensors of the checkpoint that compute nothing: SSMT has no output layer over characters, tied or not.
UNUSED = (".version", "._float_tensor", ".embed_positions.weights", "decoder.output_projection.weight", ".embed_out")


def import_fairseq(
    checkpoint: Path,
    source_dictionary: Path,
    characters: Path,
    lexicon: Path,
    source_codes: Path | None,
    output: Path,
) -> SSMT:
    """Make a model directory of a checkpoint and the vocabularies that the original wrote beside it."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; give the imported model a directory of its own")
    tensors, options = read_checkpoint(checkpoint)
    source = DictionarySubwords.read(source_dictionary, source_codes)
    alphabet = read_characters(characters)
    grams = read_lexicon(lexicon, alphabet)
    vocabulary = Vocabulary(source, alphabet, Lexicon(alphabet, grams, grams))
    config = config_of(options, vocabulary, checkpoint)
    weights = weights_of(tensors, config.network, vocabulary, list(grams), bool(options.get("no_scale_embedding")))
    model = SSMT(vocabulary, config)  # after all its weights were found to be there
    model.load_state_dict(weights)
    save_description(output, vocabulary, config)
    save_weights(output, weights)
    return model


def read_characters(path: Path) -> Alphabet:
    """The original's `char_dict`: specials and `<eom>` come before what is in the file. Its word characters are those
    of `str.isalpha`, which unlike ours leaves out combining marks."""
    symbols = [symbol for symbol, _ in read_dictionary(path)]
    seen: set[str] = set()
    for number, symbol in enumerate(symbols, start=1):
        if len(symbol) != 1:
            raise UserError(f"{path}, line {number}: {symbol[:40]!r} is not a single character")
        if symbol in seen:
            raise UserError(f"{path}, line {number}: {symbol!r} is there already")
        seen.add(symbol)
    return Alphabet([*SPECIALS, EOM, *symbols], word_characters=[symbol for symbol in symbols if symbol.isalpha()])


def read_lexicon(path: Path, alphabet: Alphabet) -> dict[Gram, int]:
    """The original's `lex_dict`: its entries as character ids, in the order of the checkpoint's rows, with counts."""
    id_of_symbol = {symbol: id for id, symbol in enumerate(alphabet.symbols)}
    grams: dict[Gram, int] = {(id_of_symbol[special],): 0 for special in SPECIALS}
    for number, (text, count) in enumerate(read_dictionary(path), start=1):
        unknown = [character for character in text if character not in id_of_symbol]
        if unknown:
            raise UserError(
                f"{path}, line {number}: {text[:40]!r} has {unknown[0]!r}, which is not among the characters"
            )
        if len(text) > LONGEST_ENTRY:
            raise UserError(f"{path}, line {number}: the entry has {len(text):,} characters; {LONGEST_ENTRY} can be")
        grams[tuple(id_of_symbol[character] for character in text)] = count
    return grams


def config_of(options: dict[str, Any], vocabulary: Vocabulary, path: Path) -> Config:
    """Our settings for a network that fairseq's options describe."""

    def needed(key: str) -> Any:
        if options.get(key) is None:
            raise UserError(f"{path}: its options do not say {key!r}, without which the network's shape is not known")
        return options[key]

    for key, value in FIXED_OPTIONS.items():
        if (options.get(key) or value) != value:
            raise UserError(f"{path}: was made with {key}={options[key]!r}, which this program's network cannot do")
    for key in PAIRED_OPTIONS:
        encoder, decoder = options.get(f"encoder_{key}"), options.get(f"decoder_{key}")
        if decoder is not None and (decoder or None) != (encoder or None):
            raise UserError(
                f"{path}: encoder_{key}={encoder!r} but decoder_{key}={decoder!r}; this program's network has the same "
                f"on both sides"
            )
    width = needed("encoder_embed_dim")
    for key in ("decoder_input_dim", "decoder_output_dim"):
        if (options.get(key) or width) != width:
            raise UserError(f"{path}: was made with {key}={options[key]!r}, which must be the width, {width}")

    text: dict[str, Any] = {
        "source_vocabulary": len(vocabulary.source),
        "lexicon_size": len(vocabulary.lexicon),
        "longest_segment": needed("max_seg_len"),
        "single_blanks": True,
    }
    for ours, theirs in (("longest_source", "max_source_positions"), ("longest_target", "max_target_positions")):
        if options.get(theirs) is not None:
            text[ours] = options[theirs]
    network = {
        "width": width,
        "heads": needed("encoder_attention_heads"),
        "feedforward": needed("encoder_ffn_embed_dim"),
        "encoder_layers": needed("encoder_layers"),
        "decoder_layers": needed("decoder_layers"),
        "dropout": options.get("dropout") or 0.0,
        "norm": "pre" if options.get("encoder_normalize_before") else "post",
        "position_offset": FIRST_POSITION,
        "proper": False,
    }
    return changed(Config(), {"text": text, "network": network}, str(path))


def weights_of(
    tensors: Tensors, config: NetworkConfig, vocabulary: Vocabulary, grams: list[Gram], unscaled: bool
) -> dict[str, Tensor]:
    """The checkpoint's tensors by our names. `unscaled`: its embeddings are used as they are, ours times sqrt(D)."""
    D, F, C, V = config.width, config.feedforward, len(vocabulary.alphabet), len(grams)
    take = tensors.take
    weights: dict[str, Tensor] = {}

    def linear(ours: str, theirs: str, outputs: int, inputs: int) -> None:
        weights[f"{ours}.weight"] = take(f"{theirs}.weight", outputs, inputs)
        weights[f"{ours}.bias"] = take(f"{theirs}.bias", outputs)

    def norm(ours: str, theirs: str) -> None:
        weights[f"{ours}.weight"], weights[f"{ours}.bias"] = take(f"{theirs}.weight", D), take(f"{theirs}.bias", D)

    def attention(ours: str, theirs: str) -> None:
        linear(f"{ours}.query", f"{theirs}.q_proj", D, D)
        linear(f"{ours}.output", f"{theirs}.out_proj", D, D)
        for part, shape in (("weight", (D, D)), ("bias", (D,))):
            both = [take(f"{theirs}.{projection}.{part}", *shape) for projection in ("k_proj", "v_proj")]
            weights[f"{ours}.key_value.{part}"] = torch.cat(both)

    for side, size, layers in (
        ("encoder", len(vocabulary.source), config.encoder_layers),
        ("decoder", C, config.decoder_layers),
    ):
        embedding = take(f"{side}.embed_tokens.weight", size, D)
        weights[f"{side}.embedding.tokens.weight"] = embedding / math.sqrt(D) if unscaled else embedding
        for layer in (f"{side}.layers.{number}" for number in range(layers)):
            attention(f"{layer}.attention", f"{layer}.self_attn")
            norm(f"{layer}.attention_residual.norm", f"{layer}.self_attn_layer_norm")
            if side == "decoder":
                attention(f"{layer}.cross_attention", f"{layer}.encoder_attn")
                norm(f"{layer}.cross_residual.norm", f"{layer}.encoder_attn_layer_norm")
            linear(f"{layer}.feedforward.0", f"{layer}.fc1", F, D)
            linear(f"{layer}.feedforward.3", f"{layer}.fc2", D, F)
            norm(f"{layer}.feedforward_residual.norm", f"{layer}.final_layer_norm")
        if config.norm == "pre":
            norm(f"{side}.norm", f"{side}.layer_norm")

    spelling, lstm = "segments.characters", "decoder.char_decoder.lstm"
    linear(f"{spelling}.start", "decoder.char_decoder.transform", D, D)
    weights[f"{spelling}.input.weight"] = take(f"{lstm}.weight_ih_l0", 4 * D, D)
    weights[f"{spelling}.input.bias"] = take(f"{lstm}.bias_ih_l0", 4 * D) + take(f"{lstm}.bias_hh_l0", 4 * D)
    weights[f"{spelling}.recurrent.weight"] = take(f"{lstm}.weight_hh_l0", 4 * D, D)
    linear(f"{spelling}.output", "decoder.char_decoder.fc", C, D)

    # W2 (W1 h + b1) + b2 = (W2 W1) h + (W2 b1 + b2), with row i for the i-th entry in our order
    first, second = "decoder.lex_decoder.transform", "decoder.lex_decoder.fc"
    row_of_gram = {gram: row for row, gram in enumerate(grams)}
    rows = torch.tensor([row_of_gram[gram] for gram in vocabulary.lexicon.entries])
    w1, b1 = take(f"{first}.weight", D, D).double(), take(f"{first}.bias", D).double()
    w2, b2 = take(f"{second}.weight", V, D).double()[rows], take(f"{second}.bias", V).double()[rows]
    weights["segments.entries.weight"], weights["segments.entries.bias"] = (w2 @ w1).float(), (w2 @ b1 + b2).float()
    linear("segments.gate", "decoder.mixture_gate_func", 1, D)

    tensors.refuse_others(*UNUSED)
    return weights
