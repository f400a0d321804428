"""A training run and its directory: begun from text files, or gone on with."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ssmt.config import LIMITS, Config, DataConfig, changed, config_of_segmenter, differences, in_words
from ssmt.devices import threads_for, total_memory
from ssmt.directory import (
    CONFIG,
    FROM,
    SEGMENTER,
    VOCABULARIES,
    WEIGHTS,
    expected_tensors,
    load_config,
    load_description,
    load_segmenter_config,
    save_config,
    save_description,
)
from ssmt.errors import Unfinished, UserError
from ssmt.files import keeping_streams
from ssmt.outputs import remove_leftovers, require_no_link
from ssmt.progress import Reporter
from ssmt.registry import build, kind_of
from ssmt.text.corpus import CORPUS_LINES, Corpus, Many, Resample
from ssmt.text.preparation import PREPARING, TrainingFiles, prepare
from ssmt.text.sampling import SubwordSampler
from ssmt.text.subwords import Subwords
from ssmt.text.vocabulary import BothSides
from ssmt.training import segmented, start
from ssmt.training.distributed import Processes
from ssmt.training.lock import alone as alone
from ssmt.training.loop import Trainer

# What may differ between the sessions of one run: where it ends, not what it learns from.
CHANGEABLE = {f"training.{key}" for key in (*LIMITS, "patience", "min_epochs", "checkpoint_every", "process_timeout")}
CHANGEABLE |= {f"segmenter.{key}" for key in LIMITS}

COPIES = 4  # of the weights that an update needs at the least: themselves, their gradients, two moments
LONGEST_WORD = 50  # characters a blank; with more, a text hardly has words

FOLDERS = ("data", "checkpoints", "tensorboard", SEGMENTER, segmented.DIRECTORY, FROM)
WRITTEN = (WEIGHTS, *VOCABULARIES, "log.jsonl", *(name for name in FOLDERS if name != "data"))


def begin(files: TrainingFiles | DataConfig, directory: Path, config: Config, reporter: Reporter) -> None:
    """Prepare a new run. Its config, which names the files, is written last: a directory with one is ready to train."""
    data = files.data if isinstance(files, TrainingFiles) else files
    config = changed(config, {"data": data.model_dump()}, "data")
    with alone(directory), keeping_streams():
        if (directory / CONFIG).exists():
            raise UserError(
                f"{directory}: already holds a run. Resume it, or choose another directory; nothing is ever overwritten"
            )
        prepared = directory / SEGMENTER if kind_of(config).segments_first else directory
        traces = (Path("train", CORPUS_LINES), Path(PREPARING))  # of an earlier preparation of ours
        interrupted = any((prepared / "data" / trace).exists() for trace in traces)
        in_the_way = [name for name in WRITTEN if os.path.lexists(directory / name)]
        if in_the_way and not interrupted:
            raise UserError(
                f"{directory}: has {', '.join(in_the_way)}, which a run would replace; choose another directory"
            )
        _tidy(directory)
        if interrupted:
            for name in VOCABULARIES:
                (directory / name).unlink(missing_ok=True)
        was_empty = not any(directory.iterdir())
        try:
            _prepare(directory, config, reporter)
        except BaseException as error:
            mended_by_another_call = isinstance(error, Unfinished) or not isinstance(error, UserError)
            if was_empty and not mended_by_another_call:
                for path in directory.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise


def _tidy(directory: Path) -> None:
    """Nothing that the run will write may be elsewhere; what killed processes have left goes."""
    for parent in (directory, directory / SEGMENTER):
        for name in FOLDERS:
            require_no_link(parent / name)
    for part in ("train", "valid"):
        require_no_link(directory / "data" / part)
        require_no_link(directory / SEGMENTER / "data" / part)
    remove_leftovers(directory)


def _prepare(directory: Path, config: Config, reporter: Reporter) -> float | None:
    """Everything that a run needs, its config last; returns the length ratio."""
    kind = kind_of(config)
    config, beginning = start.keep(directory, config)
    if kind.learn is None:
        segmented.discard_other_corpora(directory)
        ratio = _prepare(directory / SEGMENTER, config_of_segmenter(config), reporter)
        save_config(directory, changed(config, {"text": {"length_ratio": ratio}}, "length_ratio"))
        return ratio
    vocabulary, measured = prepare(config.data, config.text, directory / "data", reporter, kind.learn, beginning)
    if config.text.length_ratio is None:
        config = changed(config, {"text": {"length_ratio": measured}}, "length_ratio")
    if config.network.word_layers and "network.character_layers" not in kind.settings_without_effect(config):
        _warn_of_few_blanks(directory / "data" / "train", vocabulary, reporter)
    save_description(directory, vocabulary, config)
    return config.text.length_ratio


def _warn_of_few_blanks(corpus: Path, vocabulary: BothSides, reporter: Reporter) -> None:
    """Layers over words have little to do in text without words, as in Thai or Chinese."""
    text = vocabulary.decode(next(iter(Corpus(corpus).target.chunks())))  # the first part tells
    if len(text) > LONGEST_WORD * (1 + sum(map(str.isspace, text))):
        reporter.warn(
            f"the target has less than one blank in {LONGEST_WORD} characters, so that the decoder's layers over words "
            f"will see little of it; with network.character_layers: null all layers read characters"
        )


def can_resume(directory: Path) -> bool:
    return (directory / CONFIG).exists()


def adopt(directory: Path, reconfigure: Callable[[Config], Config]) -> None:
    """Change the settings of a run before it goes on; only limits can change."""
    with alone(directory):
        old = load_config(directory)
        new = reconfigure(old).model_copy(update={"data": old.data})  # a run goes on with the text that it has read
        if new.start.digest is None:  # written down when the run began
            new = changed(new, {"start": {"digest": old.start.digest}}, "digest")
        if new.text.length_ratio is None:  # measured when the run began, so no preset or file can know it
            new = changed(new, {"text": {"length_ratio": old.text.length_ratio}}, "length_ratio")
        conflicts = [difference for difference in differences(old, new) if difference[0] not in CHANGEABLE]
        if conflicts:
            raise UserError(
                f"{directory}: a run goes on with the settings it began with ({in_words(conflicts)}). Leave them out"
            )
        if new != old:
            if kind_of(new).segments_first:
                begun_with = load_config(directory / SEGMENTER).start.digest
                segmenter = changed(config_of_segmenter(new), {"start": {"digest": begun_with}}, "digest")
                save_config(directory / SEGMENTER, segmenter)
            save_config(directory, new)


def begin_or_adopt(files: TrainingFiles | DataConfig, directory: Path, config: Config, reporter: Reporter) -> None:
    """Prepare a new run, or one that was begun before with the same settings but for its limits."""
    with alone(directory):
        if can_resume(directory):
            adopt(directory, lambda _: config)
        else:
            begin(files, directory, config, reporter)


def train(directory: Path, device: torch.device, reporter: Reporter, processes: Processes | None = None) -> str | None:
    """Train the run in a directory until a limit; returns the name of the signal that ended it before, if one did.

    A model whose text another cuts has three stages, each with the run's limits: the segmenter, its segmentation of
    the training text, the model. A stage that is over is not entered again: one segmenter cuts all of the text.
    Of several processes each calls this, and the first has the directory to itself.
    """
    processes = processes or Processes(device)
    with processes.first_has(alone, directory):
        processes.first_does(lambda: _tidy(directory))
        processes.connect(_config_of_all(directory, processes).training.process_timeout)
        return _train_stages(directory, processes, processes.reporter(reporter))


def _config_of_all(directory: Path, processes: Processes) -> Config:
    if not (processes.is_first or can_resume(directory)):
        raise UserError(
            f"{directory}: process {processes.rank}, on {socket.gethostname()}, does not find there what the first "
            f"process has prepared; all machines need the same directory, on a file system that they share"
        )
    return load_config(directory)


def _train_stages(directory: Path, processes: Processes, reporter: Reporter) -> str | None:
    if kind_of(load_config(directory)).segments_first and not segmented.is_complete(directory):
        load_segmenter_config(directory)
        if not segmented.is_begun(directory):
            reporter.say(f"Stage 1 of 3: the segmenter, in {directory / SEGMENTER}")
            if stopped_by := _train_model(directory / SEGMENTER, processes, reporter):
                return stopped_by
        reporter.say(f"Stage 2 of 3: its segmentation of the training text, in {directory / segmented.DIRECTORY}")
        try:
            with _room(directory):
                processes.first_does(lambda: segmented.segment_corpora(directory, processes.device, reporter))
        except KeyboardInterrupt:  # the blocks that are written stay
            return "SIGINT"
        reporter.say(f"Stage 3 of 3: the model that learns from it, in {directory}")
    return _train_model(directory, processes, reporter)


def _train_model(directory: Path, processes: Processes, reporter: Reporter) -> str | None:
    vocabulary, config = load_description(directory)
    _require_memory(vocabulary, config, processes.device)
    torch.manual_seed(config.training.seed)
    model = build(vocabulary, config)
    start.begin(model, directory, config)
    model = model.to(processes.device)
    trainer = Trainer(
        model,
        config,
        _corpus(directory / "data" / "train", vocabulary, _resample(vocabulary, config)),
        _corpus(directory / "data" / "valid", vocabulary),
        directory,
        reporter,
        processes,
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    several = f", processes: {processes.count}" if processes.count > 1 else ""
    with threads_for(parameters, processes.device) as threads, _room(directory):
        reporter.say(f"{parameters:,} parameters on {processes.device}{several}, {threads}")
        return trainer.run()


@contextmanager
def _room(directory: Path) -> Iterator[None]:
    """A full disk is a user's error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"{directory}: no space left ({os.strerror(error.errno)}). The last whole checkpoint is kept; "
                f"make room and resume the run"
            ) from None
        raise


def _resample(vocabulary: BothSides, config: Config) -> Resample | None:
    """How a batch of the training corpus is cut anew, where the run samples its subwords."""
    alpha, seed = config.text.subword_sampling, config.training.seed
    if not alpha:
        return None
    if not isinstance(vocabulary.source, Subwords):
        raise UserError(
            "text.subword_sampling: the subwords of a model of the original code cannot be cut anew; set it to 0"
        )
    sides = {"source": vocabulary.source, "target": getattr(vocabulary, "target", None)}
    samplers = {
        name: SubwordSampler(side, kind_of(config).sampling, alpha)
        for name, side in sides.items()
        if isinstance(side, Subwords)
    }

    def resample(sources: Many, targets: Many, draws: Sequence[tuple[int, int]]) -> tuple[Many, Many]:
        texts = {"source": sources, "target": targets}
        for name, sampler in samplers.items():
            texts[name] = sampler.resample(texts[name], (f"{seed} {epoch} {place} {name}" for epoch, place in draws))
        return texts["source"], texts["target"]

    return resample


def _corpus(directory: Path, vocabulary: BothSides, resample: Resample | None = None) -> Corpus:
    corpus = Corpus(directory, vocabulary.batch_symbols, resample)
    corpus.require_within(vocabulary.sizes)
    return corpus


def _require_memory(vocabulary: BothSides, config: Config, device: torch.device) -> None:
    """Refuse a network that cannot be trained here, before it is built."""
    needed = COPIES * sum(tensor.nbytes for tensor in expected_tensors(vocabulary, config).values())
    if device.type == "cpu" and needed > (there := total_memory()):
        raise UserError(
            f"This network needs {needed / 2**30:,.0f} GiB to be trained, and the machine has {there / 2**30:,.0f}: "
            f"lower network.width, network.feedforward or the numbers of layers"
        )
