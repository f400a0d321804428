"""Writes docs/configuration.md, the reference of all settings, from the config classes: python docs/configuration.py"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from ssmt.config import PRESETS, Config, CorpusConfig, Section
from ssmt.registry import KINDS

PAGE = Path(__file__).with_suffix(".md")
NAMES = {"model": KINDS}  # settings that name an entry of a table

HEAD = """\
# Configuration

<!-- Written by docs/configuration.py from the classes in src/ssmt/config.py. Change those, then `make docs`. -->

Every setting has a default; all together they are the paper's model, but for what
[differences.md](differences.md#the-model) lists. A preset changes some, a YAML file (`--config my.yaml`) changes some
of those, `--set section.key=value` changes single ones; what comes later wins. Where `--preset` is not given, one is
chosen: by device and data, and with `--config` always `base`, the paper's model with layers over words and a narrower
character model, at less than half the cost. The paper's decoder is `--set network.character_layers=null --set
network.character_width=null`. `ssmt config --preset tiny` prints a complete file to start from; a file need only hold
what differs:

```yaml
network:
  width: 256
training:
  learning_rate: 0.001
```

A key or value that cannot be is refused before anything is written, with the nearest key that exists. Presets serve
all models; a setting that the chosen model has no use for (the lexicon of `bpe`, say) is named in a warning if you
changed it (`text.subword_sampling` is refused). The settings of a run are in its `config.json`; `ssmt train --resume`
keeps to them, but for limits, `patience`, `min_epochs` and `checkpoint_every`, which may be given anew.
"""


def reference() -> str:
    """The whole page."""
    top = [(name, field) for name, field in Config.model_fields.items() if not isinstance(field.default, Section)]
    parts = [HEAD, f"## Presets\n\n{_presets()}", f"## At the top\n\n{_table(top, {})}"]
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
    """Only the keys in which presets differ."""
    keys = [(section, key) for preset in PRESETS.values() for section, values in preset.items() for key in values]
    lines = [f"| | {' | '.join(f'`{name}`' for name in PRESETS)} |", "|---|" + "---|" * len(PRESETS)]
    for section, key in dict.fromkeys(keys):
        default = getattr(getattr(Config(), section), key)
        values = (preset.get(section, {}).get(key, default) for preset in PRESETS.values())
        lines.append(f"| `{section}.{key}` | {' | '.join(map(_written, values))} |")
    return "\n".join(lines) + "\n"


def _table(fields: list[tuple[str, FieldInfo]], values: dict[str, Any]) -> str:
    lines = ["| key | default | values | what it is |", "|---|---|---|---|"]
    for key, field in fields:
        default = _written(values.get(key, field.default))
        allowed = _listed(NAMES[key]) if key in NAMES else _allowed(field)
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
