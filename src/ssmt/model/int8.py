"""Linear layers with weights of 8 bits, for decoding on CPU: a quarter of what each step must read.

Each row of a weight matrix is rounded to 255 steps of its own, and the inputs to half as many, all of a batch together:
scores change a little, and a translation can depend on the batch that it is in. So this is an option;
docs/performance.md has what it saves and what it costs.
"""

from __future__ import annotations

import warnings

import torch
from torch import nn

from ssmt.errors import UserError
from ssmt.model.translation import TranslationModel

FEW = 16  # inputs or outputs: with fewer, rounding saves nothing, and the layer stays as it is


def use_int8_weights(model: TranslationModel) -> None:
    """In place, where the network says that it can be."""
    if model.device.type != "cpu":
        raise UserError(f"Weights of 8 bits are for CPU only, and this model is on {model.device}; load it on cpu")
    _require_engine()
    for name in model.layers_for_int8():
        inside, _, attribute = name.rpartition(".")
        parent = model.get_submodule(inside)
        setattr(parent, attribute, _quantise(nn.Sequential(model.get_submodule(name))).get_submodule("0"))


def _require_engine() -> None:
    """Some builds of torch have kernels for this but choose none."""
    kernels = torch.backends.quantized
    if kernels.engine == "none":
        engines = [engine for engine in kernels.supported_engines if engine != "none"]
        if not engines:
            raise UserError("This build of PyTorch has no kernels for weights of 8 bits")
        kernels.engine = engines[0]


def _quantise(module: nn.Module) -> nn.Module:
    qconfig = torch.ao.quantization.per_channel_dynamic_qconfig
    few = {
        name: None
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear) and min(part.in_features, part.out_features) < FEW
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces another package for this, which would be one more to install
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            module, {nn.Linear: qconfig, **few}, inplace=True
        )
    return quantised
