"""The numbers of a run: JSON lines, and TensorBoard where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ssmt.files import as_json, is_number, open_for_reading, parse_json, require_regular, whole_lines
from ssmt.outputs import replacing
from ssmt.training.state import State


class NoLog:
    """Of a process that does not write."""

    def write(self, update: int, **numbers: Any) -> None: ...

    def close(self) -> None: ...


class RunLog(NoLog):
    """Appends to `log.jsonl`. After a resume, lines beyond the checkpoint are dropped: they will be written again."""

    def __init__(self, directory: Path, state: State) -> None:
        self.path = directory / "log.jsonl"
        kept = [line for line in read_log(directory) if _is_of_past(line, state)] if self.path.exists() else []
        with replacing(self.path) as temporary:  # a file of its own, whatever was there
            temporary.write_text("".join(as_json(line) + "\n" for line in kept), encoding="utf-8")
        self.stream = open(self.path, "a", encoding="utf-8")  # noqa: SIM115
        self.board = _tensorboard(directory / "tensorboard", state.update)

    def write(self, update: int, **numbers: Any) -> None:
        self.stream.write(as_json({"update": update, **numbers}) + "\n")
        self.stream.flush()
        if self.board is not None:
            for name, value in numbers.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self.board.add_scalar(name, value, update)

    def close(self) -> None:
        self.stream.close()
        if self.board is not None:
            self.board.close()


def _is_of_past(line: dict[str, Any], state: State) -> bool:
    """Whether a run in this state will not write it again: it may have ended just after it had."""
    update = int(line["update"])
    if update != state.update:
        return update < state.update
    will_validate = state.validated_at < update and any(name.startswith("valid_") for name in line)
    will_average = state.finished_at < update and "averaged" in line
    return not (will_validate or will_average)


def read_log(directory: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; what a crash cut short or garbled is left out."""
    path = directory / "log.jsonl"
    require_regular(path)
    lines = []
    with open_for_reading(path) as stream:
        for raw in whole_lines(stream):
            try:
                line = parse_json(raw.decode("utf-8", errors="replace"))
            except ValueError:
                continue
            if _is_ours(line):
                lines.append(line)
    return lines


def _is_ours(line: object) -> bool:
    """A line of a run has numbers, and switches, and nothing inside of them; an infinite one was written as null."""
    if not isinstance(line, dict) or not is_number(line.get("update")) or not is_number(line.get("minutes", 0)):
        return False
    return all(value is None or isinstance(value, bool) or is_number(value) for value in line.values())


def kept_bits(log: Sequence[dict[str, Any]]) -> float | None:
    """Validation bits per character of the model that a run has kept."""
    kept = [line for line in log if line.get("improved")]
    return next((kept[-1][key] for key in kept[-1] if key.endswith("_bits_per_character")), None) if kept else None


def _tensorboard(directory: Path, resumed_at: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=resumed_at + 1 if resumed_at else None)
