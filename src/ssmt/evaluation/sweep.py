"""A sweep and its directory, whether models are decoded in many ways (`sweep_decoding`) or trained over a grid
(`sweep_training`).

What is finished is never done again, so a stopped sweep goes on where it was, and a later one
with more beams or values adds to it:

    sweep.json             what every point has in common: files, models, settings; another sweep is refused
    results/POINT.json     the numbers of a finished point
    decoded/POINT.jsonl    its translations so far, a block a line
    runs/POINT/            its training run
    table.md  table.tex  results.json  plot.svg  plot.png
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssmt.errors import UserError, renumbered
from ssmt.evaluation import plots, tables
from ssmt.evaluation.model_output import translate_lines
from ssmt.evaluation.tables import Table
from ssmt.evaluation.translation import evaluate_translations
from ssmt.files import (
    as_json,
    is_number,
    is_text,
    open_for_reading,
    parse_json,
    read_json,
    require_file,
    require_regular,
    whole_lines,
)
from ssmt.outputs import open_in_directory, replacing
from ssmt.progress import Reporter
from ssmt.training.lock import alone
from ssmt.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Translate = Callable[[Sequence[str]], list[str]]
BLOCK = 64  # lines that are decoded, and saved, together
METRICS = ("BLEU", "chrF")
Fields = dict[str, Any]  # names and types, as `isinstance` takes them
SCORES: Fields = dict.fromkeys(METRICS, (int, float)) | {"signatures": dict, "seconds": (int, float)}


@dataclass(frozen=True)
class SweepResults:
    """The finished points of a sweep, with their table if there are any, and why others failed."""

    records: list[Record]
    table: Table | None
    points: int  # that were asked for
    failed: Mapping[str, str] = field(default_factory=dict)


class SweepDirectory:
    """Opens a sweep, or begins it; `identity` is what all its points have in common, `fields` what each record has
    besides its scores, with their types."""

    @classmethod
    @contextmanager
    def alone(cls, path: Path, identity: Mapping[str, Any], fields: Fields) -> Iterator[SweepDirectory]:
        """With no other process in it: translations of two would mix."""
        with alone(path):
            yield cls(path, identity, fields)

    def __init__(self, path: Path, identity: Mapping[str, Any], fields: Fields) -> None:
        self.path, self.fields = path, SCORES | fields
        for folder in ("results", "decoded"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        begun = path / "sweep.json"
        wanted = json.loads(json.dumps(identity))
        if begun.exists():
            there = self._read(begun)
            if different := [key for key in {**there, **wanted} if there.get(key) != wanted.get(key)]:
                raise UserError(
                    f"{path}: holds a sweep of something else ({', '.join(different)} differ). "
                    f"Repeat its options to go on with it, or choose another directory"
                )
        else:
            with open_in_directory(begun) as stream:
                stream.write(as_json(wanted, indent=2) + "\n")

    def result(self, point: str) -> Record | None:
        path = self.path / "results" / f"{point}.json"
        return self._record(path) if path.exists() else None

    def results(self) -> list[Record]:
        """Of all finished points, in the order of their names."""
        return [self._record(path) for path in sorted((self.path / "results").glob("*.json"))]

    def _record(self, path: Path) -> Record:
        record = self._read(path)
        for name, kind in self.fields.items():
            if not isinstance(record.get(name), kind) or not _is_plain(record[name]):
                raise UserError(f"{path}: has no {name} of a finished point; delete it to do it again")
        return record

    def finish(self, point: str, record: Record) -> None:
        with open_in_directory(self.path / "results" / f"{point}.json") as stream:
            stream.write(as_json(record, indent=2) + "\n")

    def write(self, table: Table, figure: Figure, records: Sequence[Record]) -> None:
        for name, text in (
            ("table.md", tables.markdown(table)),
            ("table.tex", tables.latex(table)),
            ("results.json", as_json(list(records), indent=2) + "\n"),
        ):
            with open_in_directory(self.path / name) as stream:
                stream.write(text)
        for ending in ("svg", "png"):
            plots.save(figure, self.path / f"plot.{ending}")

    def decode(
        self, point: str, weights: str, sources: Sequence[str], translate: Translate, reporter: Reporter
    ) -> tuple[list[str], float]:
        """Translations of all sources and the seconds they took, saved block by block; `weights` names the model."""
        path = self.path / "decoded" / f"{point}.jsonl"
        blocks = _whole_blocks(path, weights)
        done = sum(len(block["translations"]) for block in blocks)
        if done > len(sources):
            raise UserError(f"{path}: has {done:,} lines of {len(sources):,}; delete it to do it again")
        with reporter.bar(f"decoding {point}", len(sources)) as bar, open(path, "a", encoding="utf-8") as stream:
            while done < len(sources):
                begun = time.perf_counter()
                with renumbered(range(done + 1, len(sources) + 1)):
                    translations = translate(sources[done : done + BLOCK])
                block = {"seconds": time.perf_counter() - begun, "translations": translations, "weights": weights}
                stream.write(as_json(block) + "\n")
                stream.flush()
                blocks.append(block)
                done += len(translations)
                bar.advance(done)
        return [line for block in blocks for line in block["translations"]], sum(block["seconds"] for block in blocks)

    @staticmethod
    def _read(path: Path) -> Record:
        try:
            record = read_json(path)
            if isinstance(record, dict):
                return record
        except UserError as error:
            raise UserError(f"{error}; delete it to do it again") from None
        raise UserError(f"{path}: is no record of a sweep; delete it to do it again")


def _whole_blocks(path: Path, weights: str) -> list[Record]:
    """The blocks of an earlier session; a last line cut short by a crash is dropped, from the file too, and so are
    those of other weights."""
    blocks: list[Record] = []
    if path.exists():
        require_regular(path)
        with open_for_reading(path) as stream:
            for line in whole_lines(stream):
                try:
                    block = parse_json(line.decode("utf-8", errors="replace"))
                except ValueError:
                    break
                if not _is_block(block) or block["weights"] != weights:
                    break
                blocks.append(block)
    with replacing(path) as temporary:
        temporary.write_text("".join(as_json(block) + "\n" for block in blocks), encoding="utf-8")
    return blocks


def _is_plain(value: Any) -> bool:
    """A number, a text, or texts by name."""
    return is_number(value) or is_text(value) or (isinstance(value, dict) and all(map(is_text, value.values())))


def _is_block(value: Any) -> bool:
    if not isinstance(value, dict) or not is_number(value.get("seconds")) or "weights" not in value:
        return False
    lines = value.get("translations")
    return isinstance(lines, list) and all(map(is_text, lines))


def translate_with(translator: Translator, search: str | None, beam: int) -> Translate:
    return lambda sources: [best.text for best in translate_lines(translator, sources, search=search, beam=beam)]


def scores(translations: Sequence[str], references: Sequence[Sequence[str]]) -> Record:
    report = evaluate_translations({"": translations}, references, metrics=METRICS, samples=0)
    return {metric: report["", metric].score for metric in METRICS} | {
        "signatures": {metric: report["", metric].signature for metric in METRICS}
    }


def digest(path: str | Path) -> str:
    """Of a file's content: a sweep knows its files by what is in them, wherever they lie."""
    require_file(path)
    with open_for_reading(path) as stream:
        content = hashlib.sha256()
        while piece := stream.read(1 << 20):
            content.update(piece)
    return content.hexdigest()[:16]
