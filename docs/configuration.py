"""Writes docs/configuration.md, the reference of all settings, from the config classes: python docs/configuration.py"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from ssmt.config import PRESETS, PRESETS_OF_MODELS, Config, CorpusConfig, Section, compose
from ssmt.registry import KINDS, kind_of

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# Configuration

<!-- Written by docs/configuration.py from the classes in src/ssmt/config/schema.py. Change those, then `make docs`. -->

Every setting has a default; all together they are the paper's model, but for what
[differences.md](differences.md#the-model) lists. A preset changes some, a YAML file (`--config my.yaml`) changes some
of those, `--set section.key=value` changes single ones; what comes later wins. Where `--preset` is not given, one is
chosen: by device and data, and with `--config` always `base`, which is as large as the paper's model and has
[our decoder](model.md#layers-over-words-ours). `--config configs/paper_decoder.yaml` has the paper's decoder in
any preset. `ssmt config --preset tiny --model bpe` prints a complete file to start from; a file need only hold what
differs:

```yaml
network:
  width: 256
training:
  learning_rate: 0.001
```

A key or value that cannot be is refused before anything is written, with the nearest key that exists. Some values of
a preset are for one kind of model, whichever the file or the settings name. A setting that the chosen model has no use
for (the lexicon of `bpe`, say) is named in a warning if you changed it. The
settings of a run are in its `config.json`; `ssmt train --resume` keeps to them, but for limits (the `segmenter`'s too),
`patience`, `min_epochs`, `checkpoint_every` and `process_timeout`, which may be given anew.
"""


def reference() -> str:
    """The whole page."""
    top = [(name, field) for name, field in Config.model_fields.items() if not isinstance(field.default, Section)]
    named = _table(top, {}, {"model": KINDS})
    parts = [HEAD, f"## Presets\n\n{_presets()}", f"## At the top\n\n{named}"]
    for name, field in Config.model_fields.items():
        if isinstance(field.default, Section):
            keys = type(field.default).model_fields
            values = {key: getattr(field.default, key) for key in keys}
            parts.append(f"## `{name}`\n\n{type(field.default).__doc__}\n\n{_table(list(keys.items()), values)}")
            if name == "data":
                values = {key: inner.default for key, inner in CorpusConfig.model_fields.items()}
                corpus = _table(list(CorpusConfig.model_fields.items()), values)
                parts.append(f"### A corpus of `data`\n\n{CorpusConfig.__doc__}\n\n{corpus}")
    return "\n".join(parts)


def _presets() -> str:
    """Only the keys in which presets differ, or change the default; then those in which one differs by the kind of
    model."""
    presets = {f"`{name}`": compose(name) for name in PRESETS}
    parts = [_compared({"default": Config(), **presets}), "\nThese are for `ssmt`.\n"]
    for name in PRESETS_OF_MODELS:
        models = {f"`{model}`": compose(name, settings=[f"model={model}"]) for model in KINDS}
        said = f"What each kind of model has in `{name}` (`dpe` partly in its first model):"
        parts.append(f"\n{said}\n\n{_compared(models)}")
    return "".join(parts)


def _compared(configs: Mapping[str, Config]) -> str:
    """A row for each key in which the configs differ, those aside that have no use for it."""
    lines = [f"| | {' | '.join(configs)} |", "|---|" + "---|" * len(configs)]
    unused = {name: kind_of(config).settings_without_effect(config) for name, config in configs.items()}
    for section, part in Config():
        for key in type(part).model_fields if isinstance(part, Section) else ():
            values = [
                "" if f"{section}.{key}" in unused[name] else _written(getattr(getattr(config, section), key))
                for name, config in configs.items()
            ]
            if len({*values} - {""}) > 1:
                lines.append(f"| `{section}.{key}` | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _table(
    fields: list[tuple[str, FieldInfo]], values: dict[str, Any], names: Mapping[str, Iterable[str]] | None = None
) -> str:
    """`names`: of settings that name an entry of a table."""
    lines = ["| key | default | values | what it is |", "|---|---|---|---|"]
    for key, field in fields:
        default = _written(values.get(key, field.default))
        allowed = _listed(names[key]) if names and key in names else _allowed(field)
        lines.append(f"| `{key}` | {default} | {allowed} | {_cell(field.description or '')} |")
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _allowed(field: FieldInfo) -> str:
    """The values that a field takes, in words."""
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    if get_origin(field.annotation) is Literal:
        words = _listed(get_args(field.annotation))
    elif get_origin(field.annotation) is tuple:
        words = "list of corpora" if kinds[0] is CorpusConfig else "text, or a list of texts"
    else:
        (kind,) = kinds
        words = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text"}[kind]
    bounds = {
        name: getattr(part, name) for part in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(part, name)
    }
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = " and ".join(f"{signs[name]} {value:g}" for name, value in bounds.items())
    return ", ".join(part for part in (f"{words} {limits}".strip(), "`none`" if optional else "") if part)


def _written(value: Any) -> str:
    """A value as it stands in YAML."""
    if value is None or value == ():
        return "`none`" if value is None else ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE, help="the page")
    parser.parse_args().output.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
