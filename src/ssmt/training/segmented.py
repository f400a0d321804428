"""The second stage of a model that learns from another's segmentation: the training text, cut by its best paths.

DIR/segmenter/        the first model, a run of its own
DIR/segmented/        train.txt and valid.txt: a line for each pair, blanks between pieces, ▁ for a blank of the text
DIR/target.txt, data/ the second model's vocabulary and corpora, made from those lines
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from ssmt import lattice
from ssmt.directory import FROM, SEGMENTER, load_config, load_description, load_model, load_segmenter_config
from ssmt.files import require_regular
from ssmt.model.ssmt import SSMT
from ssmt.outputs import require_no_link
from ssmt.progress import Reporter, tracked
from ssmt.segmentation import cut
from ssmt.text.batch import batches_by_length
from ssmt.text.corpus import CORPUS_LINES, Corpus
from ssmt.text.corpus_writer import write_with_other_targets
from ssmt.text.lines import stream_lines
from ssmt.text.pieces import Pieces, segmented_line
from ssmt.text.vocabulary import SubwordVocabulary

DIRECTORY = "segmented"
BLOCK = 1000  # lines that are cut and written together; what a killed process loses at most


def is_begun(directory: Path) -> bool:
    return (directory / DIRECTORY).exists()


def is_complete(directory: Path) -> bool:
    return (directory / "data" / "train" / CORPUS_LINES).exists()  # written last


def discard_other_corpora(directory: Path) -> None:
    """What an interrupted run of another kind has prepared there would look like a complete stage."""
    for part in ("train", "valid"):
        if (directory / "data" / part / CORPUS_LINES).exists():
            shutil.rmtree(directory / "data" / part)


def segment_corpora(directory: Path, device: torch.device, reporter: Reporter) -> None:
    """Cut the text of the segmenter's run and make the second model's vocabulary and corpora of it."""
    config = load_config(directory)
    load_segmenter_config(directory)
    model, _ = load_model(directory / SEGMENTER, device)
    assert isinstance(model, SSMT)
    for part in ("valid", "train"):
        _write_segmented(
            model,
            directory / SEGMENTER / "data" / part,
            directory / DIRECTORY / f"{part}.txt",
            config.training.batch_characters,
            reporter,
        )
    lines = stream_lines(directory / DIRECTORY / "train.txt", normalised=False)
    known = None
    if (directory / FROM).exists() and not config.start.take:  # the run began with a model of this kind
        old = load_description(directory / FROM)[0]
        assert isinstance(old, SubwordVocabulary)
        assert isinstance(old.target, Pieces)
        known = old.target
    pieces = Pieces.of_lines(lines, config.text.subword_vocabulary, known)
    vocabulary = SubwordVocabulary(model.vocabulary.source, pieces)
    vocabulary.save(directory)
    for part in ("valid", "train"):
        lines = stream_lines(directory / DIRECTORY / f"{part}.txt", normalised=False)
        encoded = (pieces.encode([line])[0] for line in lines)
        in_characters, in_pieces = directory / SEGMENTER / "data" / part, directory / "data" / part
        write_with_other_targets(in_characters, in_pieces, encoded, len(pieces))
    reporter.say(f"{len(vocabulary.source):,} source subwords, {len(pieces):,} target pieces")


def _write_segmented(model: SSMT, data: Path, path: Path, batch_characters: int, reporter: Reporter) -> None:
    """A corpus's targets, cut; goes on after the last whole block of an interrupted call."""
    unfinished = path.with_suffix(".unfinished")
    for written in (path, unfinished):
        require_no_link(written)
    if path.exists():
        require_regular(path)
        return
    corpus = Corpus(data, model.vocabulary.batch_symbols)
    texts = [target for _, target in corpus.texts(range(len(corpus)))] if (data / "target.txt").exists() else None
    path.parent.mkdir(exist_ok=True)
    with open(unfinished, "ab+") as stream:
        done = _keep_whole_blocks(stream.fileno(), unfinished)
        starts = range(done, len(corpus), BLOCK)
        for start in tracked(reporter, starts, f"segmenting {path.stem}", len(starts)):
            rows = range(start, min(start + BLOCK, len(corpus)))
            lines = _segmented_lines(model, corpus, rows, texts, batch_characters)
            stream.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
            stream.flush()
        os.fsync(stream.fileno())
    unfinished.rename(path)


def _keep_whole_blocks(descriptor: int, path: Path) -> int:
    """Cut off what a killed process left of its last block; how many lines remain."""
    count = size = 0
    with open(path, "rb") as stream:
        while len(block := list(islice(stream, BLOCK))) == BLOCK and block[-1].endswith(b"\n"):
            count, size = count + BLOCK, size + sum(map(len, block))
    os.ftruncate(descriptor, size)
    return count


@torch.inference_mode()
def _segmented_lines(
    model: SSMT, corpus: Corpus, rows: range, texts: Sequence[str] | None, batch_characters: int
) -> list[str]:
    """The best paths of some pairs. Where the raw text is not kept, the ids are as good: they have no `<unk>`."""
    lines = [""] * len(rows)
    for batch_rows in batches_by_length([int(corpus.characters[row]) for row in rows], batch_characters):
        batch = corpus.batch([rows[place] for place in batch_rows]).to(model.device)
        _, ends = lattice.best_path(model.lattice(batch), batch.target_lengths)
        for place, row_ends in zip(batch_rows, ends.tolist(), strict=True):
            row = rows[place]
            text = model.vocabulary.decode(corpus.target[row]) if texts is None else texts[row]
            lines[place] = segmented_line(cut(text, row_ends))
    return lines
