"""The original implementation, restated: what its files look like, and what it computes from them.

`write_files` makes up a small checkpoint with random weights as fairseq would save it. `Original` computes from such
a checkpoint's tensors one sentence at a time, in float64, with nothing of ours in it. The comments count the items of
the oracle's README.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
SOURCE = ["I", "see", "a", "bird", "cow@@", "s", ".", "madeupword0000"]
# Letters first; a combining mark (no letter for `str.isalpha`) and the Ohm sign (which NFC makes an omega) among them.
CHARACTERS = ["a", "b", "n", "i", "o", "é", "\u03a9", "\u2126", "\u030c", "2", ".", "-", " "]
LEXICON = ["a", "n", "i", "ni", "bon", "ona", "na", "aa", "é", ".", "\u030c", "\u2126", " "]  # some characters, not all


@dataclass(frozen=True)
class Shape:
    """Options of a made-up model, by fairseq's names."""

    encoder_embed_dim: int = 12
    encoder_attention_heads: int = 3
    encoder_ffn_embed_dim: int = 20
    encoder_layers: int = 2
    decoder_layers: int = 1
    max_seg_len: int = 3
    encoder_normalize_before: bool = False
    no_scale_embedding: bool = False
    others: dict[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        given = {key: value for key, value in vars(self).items() if key != "others"}
        both = {f"decoder{key.removeprefix('encoder')}": value for key, value in given.items() if "encoder_" in key}
        return {**both, **given, "dropout": 0.3, "activation_fn": "relu", "max_target_positions": 64, **self.others}


def random_tensors(shape: Shape, seed: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    D, H = shape.encoder_embed_dim, shape.encoder_ffn_embed_dim
    C, V = len(SPECIALS) + 1 + len(CHARACTERS), len(SPECIALS) + len(LEXICON)
    tensors: dict[str, Tensor] = {}

    def add(name: str, *size: int, scale: float = 1.0) -> None:
        tensors[name] = torch.randn(*size, generator=random) * scale

    def linear(name: str, outputs: int, inputs: int) -> None:
        add(f"{name}.weight", outputs, inputs, scale=1.5 * inputs**-0.5)
        add(f"{name}.bias", outputs, scale=0.5)

    def norm(name: str) -> None:
        add(f"{name}.weight", D)
        add(f"{name}.bias", D)

    for side, size in (("encoder", len(SPECIALS) + len(SOURCE)), ("decoder", C)):
        tensors[f"{side}.version"] = torch.ones(1)
        tensors[f"{side}.embed_positions._float_tensor"] = torch.ones(1)
        add(f"{side}.embed_tokens.weight", size, D, scale=D**-0.5)
        for layer in range(shape.encoder_layers if side == "encoder" else shape.decoder_layers):
            attentions = ["self_attn"] if side == "encoder" else ["self_attn", "encoder_attn"]
            for attention in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    linear(f"{side}.layers.{layer}.{attention}.{part}", D, D)
                norm(f"{side}.layers.{layer}.{attention}_layer_norm")
            linear(f"{side}.layers.{layer}.fc1", H, D)
            linear(f"{side}.layers.{layer}.fc2", D, H)
            norm(f"{side}.layers.{layer}.final_layer_norm")
        if shape.encoder_normalize_before:
            norm(f"{side}.layer_norm")
    linear("decoder.char_decoder.transform", D, D)
    for name, size in (
        ("weight_ih", (4 * D, D)),
        ("weight_hh", (4 * D, D)),
        ("bias_ih", (4 * D,)),
        ("bias_hh", (4 * D,)),
    ):
        add(f"decoder.char_decoder.lstm.{name}_l0", *size, scale=0.4)
    linear("decoder.char_decoder.fc", C, D)
    linear("decoder.lex_decoder.transform", D, D)
    linear("decoder.lex_decoder.fc", V, D)
    linear("decoder.mixture_gate_func", 1, D)
    return tensors


def checkpoint_of(tensors: dict[str, Tensor], options: dict[str, Any], style: str) -> dict[str, Any]:
    """As fairseq saves it: `args` until 2020, since then `cfg`, where the model has a Namespace or nested sections."""
    content: dict[str, Any] = {"model": tensors, "extra_state": {"best": np.float64(0.1), "counts": np.arange(3)}}
    if style == "args":
        return content | {"args": argparse.Namespace(**options)}
    task = {"max_seg_len": options["max_seg_len"], "_name": "subword_segmental_translation"}
    model: Any = argparse.Namespace(**options)
    if style == "nested":
        model = {
            key: value for key, value in options.items() if not key.startswith(("encoder_", "decoder_", "max_seg"))
        }
        for side in ("encoder_", "decoder_"):
            model[side.removesuffix("_")] = {
                key.removeprefix(side): value for key, value in options.items() if key.startswith(side)
            }
    return content | {"args": None, "cfg": {"model": model, "task": task, "common": {"seed": 1}}}


@dataclass(frozen=True)
class Files:
    checkpoint: Path
    source_dict: Path
    characters: Path
    lexicon: Path
    source_codes: Path

    def arguments(self, output: Path) -> tuple[Path, Path, Path, Path, Path, Path]:
        return (self.checkpoint, self.source_dict, self.characters, self.lexicon, self.source_codes, output)


def write_files(directory: Path, content: Any) -> Files:
    files = Files(*(directory / name for name in ("model.pt", "dict.en.txt", "char.txt", "lex.txt", "codes")))
    torch.save(content, files.checkpoint)
    for path, symbols in ((files.source_dict, SOURCE), (files.characters, CHARACTERS), (files.lexicon, LEXICON)):
        path.write_text("".join(f"{symbol} {9 + i}\n" for i, symbol in enumerate(symbols)), encoding="utf-8")
    files.source_codes.write_text("#version: 0.2\nc o\nco w\ns e\nse e</w>\nb i\nbi r\nbir d</w>\n", encoding="utf-8")
    return files


class Original:
    """One sentence pair at a time, literally."""

    def __init__(self, tensors: dict[str, Tensor], shape: Shape) -> None:
        self.w = {name: tensor.double() for name, tensor in tensors.items()}
        D = shape.encoder_embed_dim
        self.lstm = torch.nn.LSTM(D, D).double().requires_grad_(False)
        self.lstm.load_state_dict(
            {name: self.w[f"decoder.char_decoder.lstm.{name}"] for name in self.lstm.state_dict()}
        )
        self.shape = shape
        self.characters = [*SPECIALS, "<eom>", *CHARACTERS]
        self.lexicon = {symbol: id for id, symbol in enumerate([*SPECIALS, *LEXICON])}

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], eps=1e-5)

    def scaled(self, side: str, ids: list[int]) -> Tensor:
        scale = 1.0 if self.shape.no_scale_embedding else math.sqrt(self.shape.encoder_embed_dim)
        return self.w[f"{side}.embed_tokens.weight"][ids] * scale

    def embedded(self, side: str, ids: list[int]) -> Tensor:
        """5: sines, then cosines; the first token is at position 2."""
        half = self.shape.encoder_embed_dim // 2
        rows = []
        for position in range(2, 2 + len(ids)):
            angles = [position * math.exp(-i * math.log(10000) / (half - 1)) for i in range(half)]
            rows.append([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])
        return self.scaled(side, ids) + torch.tensor(rows, dtype=torch.float64)

    def attention(self, name: str, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
        q, k, v = (self.linear(f"{name}.{part}_proj", y) for part, y in (("q", x), ("k", memory), ("v", memory)))
        heads, outputs = self.shape.encoder_attention_heads, []
        for qh, kh, vh in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1), strict=True):
            weights = qh @ kh.T / math.sqrt(qh.shape[-1])
            if causal:
                weights = weights.masked_fill(torch.ones_like(weights).triu(1).bool(), -math.inf)
            outputs.append(weights.softmax(-1) @ vh)
        return self.linear(f"{name}.out_proj", torch.cat(outputs, -1))

    def layers(self, side: str, x: Tensor, memory: Tensor | None) -> Tensor:
        pre = self.shape.encoder_normalize_before
        for number in range(self.shape.encoder_layers if memory is None else self.shape.decoder_layers):
            layer = f"{side}.layers.{number}"
            steps: list[tuple[str, Any]] = [
                (
                    f"{layer}.self_attn_layer_norm",
                    lambda y, n=f"{layer}.self_attn": self.attention(n, y, y, memory is not None),
                )
            ]
            if memory is not None:
                steps.append(
                    (
                        f"{layer}.encoder_attn_layer_norm",
                        lambda y, n=f"{layer}.encoder_attn": self.attention(n, y, memory, False),
                    )
                )
            steps.append(
                (
                    f"{layer}.final_layer_norm",
                    lambda y, n=layer: self.linear(f"{n}.fc2", self.linear(f"{n}.fc1", y).relu()),
                )
            )
            for norm, branch in steps:
                x = x + branch(self.norm(norm, x)) if pre else self.norm(norm, x + branch(x))
        return self.norm(f"{side}.layer_norm", x) if pre else x

    def states(self, source: list[int], target: list[int]) -> Tensor:
        """6: the decoder reads `</s>` and the target; state j has read j characters."""
        memory = self.layers("encoder", self.embedded("encoder", source), None)
        return self.layers("decoder", self.embedded("decoder", [2, *target[:-1]]), memory)

    def spelling(self, state: Tensor, before: int, segment: list[int], ended: bool = True) -> float:
        """7: log p_char of a segment with its `<eom>`, or of its characters alone."""
        hidden = self.linear("decoder.char_decoder.transform", state).view(1, 1, -1)
        outputs, _ = self.lstm(
            self.scaled("decoder", [before, *segment]).unsqueeze(1), (hidden, torch.zeros_like(hidden))
        )
        log_probs = self.linear("decoder.char_decoder.fc", outputs[:, 0]).log_softmax(-1)
        return sum(float(log_probs[i, id]) for i, id in enumerate([*segment, *([4] if ended else [])]))

    def segment(self, state: Tensor, before: int, segment: list[int]) -> float:
        """8: log (g p_char + (1 - g) p_lex)."""
        gate = float(torch.sigmoid(self.linear("decoder.mixture_gate_func", state)))
        probability = gate * math.exp(self.spelling(state, before, segment))
        text = "".join(self.characters[id] for id in segment)
        if text in self.lexicon:
            logits = self.linear("decoder.lex_decoder.fc", self.linear("decoder.lex_decoder.transform", state))
            probability += (1 - gate) * float(logits.softmax(-1)[self.lexicon[text]])
        return math.log(probability)

    def forward_table(self, source: list[int], target: list[int]) -> list[float]:
        """9: one character of any kind, or alphabetic ones only. log alpha_0 .. log alpha_T."""
        states = self.states(source, target)
        alpha = [1.0]
        for end in range(1, len(target) + 1):
            total = 0.0
            for start in range(max(0, end - self.shape.max_seg_len), end):
                segment = target[start:end]
                if len(segment) == 1 or all(self.characters[id].isalpha() for id in segment):
                    before = target[start - 1] if start else 2
                    total += alpha[start] * math.exp(self.segment(states[start], before, segment))
            alpha.append(total)
        return [math.log(a) for a in alpha]

    def next_characters(self, source: list[int], prefix: list[int], start: int) -> tuple[list[float], list[float]]:
        """12: `con` and `end` of every next character, given the characters so far and where the last segment began.

        `<pad>` is left out: the original can write it by its lexicon alone, we never do.
        """
        state = self.states(source, [*prefix, 2])[start]
        before, open = (prefix[start - 1] if start else 2), prefix[start:]
        gate = float(torch.sigmoid(self.linear("decoder.mixture_gate_func", state)))
        logits = self.linear("decoder.lex_decoder.fc", self.linear("decoder.lex_decoder.transform", state))
        entries = logits.softmax(-1).tolist()
        texts = [*([special] for special in SPECIALS), *(list(text) for text in LEXICON)]
        con, end = [], []
        for id, symbol in enumerate(self.characters):
            segment = [*open, id]
            in_word = all(self.characters[one].isalpha() for one in segment)
            con.append(-math.inf)
            end.append(-math.inf)
            if in_word and len(segment) < self.shape.max_seg_len:
                spelt = self.spelling(state, before, segment, ended=False)
                begin = [self.characters[one] for one in segment]
                n = len(begin)
                longer = sum(p for p, text in zip(entries, texts, strict=True) if text[:n] == begin and len(text) > n)
                con[-1] = math.log(gate * math.exp(spelt) + (1 - gate) * longer)
            if in_word or (not open and symbol not in ("<pad>", "<eom>")):
                end[-1] = self.segment(state, before, segment)
        return con, end

    def decode(
        self, source: list[int], beam: int, normalisation: str, averaged: bool, longest: int, shortest: int = 1
    ) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
        """13 to 15: finished hypotheses as (characters, ends of their segments, final score), best first.

        A hypothesis is its characters, its boundaries with the 0 in front, and the log-probabilities of its segments,
        the last of them open in the beam `con`.
        """
        in_search, at_end = normalisation.split("-")
        eos = 2
        con: list[Any] = []
        end: list[Any] = [([], [0], [])]
        finished: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []
        for step in range(longest + 1):
            pools: dict[bool, list[Any]] = {False: [], True: []}
            for is_end, (characters, eoms, segments) in [*((False, one) for one in con), *((True, one) for one in end)]:
                closed = segments if is_end else segments[:-1]
                for closes, scores in zip(
                    (False, True), self.next_characters(source, characters, eoms[-1]), strict=True
                ):
                    count = {"seg": len(eoms), "char": step + closes + len(eoms), "none": 1}[in_search]
                    for id, score in enumerate(scores):
                        at_length = step == longest
                        if score == -math.inf or (at_length and id != eos) or (id == eos and step < max(shortest, 1)):
                            continue
                        total, by = sum(closed) + score, count
                        if averaged and is_end and closed:
                            total = sum(closed[:-1]) + (closed[-1] + score) / 2
                            by = count - {"seg": 1, "char": 2, "none": 0}[in_search]
                        boundaries = [*eoms, step + 1] if closes else eoms
                        pools[closes].append((total / by, [*characters, id], boundaries, [*closed, score]))
            for pool in pools.values():
                pool.sort(key=lambda one: -one[0])
            con = [one[1:] for one in pools[False][:beam]]
            end = []
            for place, (_, characters, eoms, segments) in enumerate(pools[True][: 2 * beam]):
                if len(end) == beam:
                    break
                if characters[-1] != eos:
                    end.append((characters, eoms, segments))
                elif place < beam:
                    by = {"seg": len(eoms) - 1, "char": len(eoms), "none": 1}[at_end]
                    finished.append((tuple(characters[:-1]), tuple(eoms[1:-1]), segments[-1] / by))
                    if len(finished) == beam:
                        return sorted(finished, key=lambda one: -one[2])
        return sorted(finished, key=lambda one: -one[2])
