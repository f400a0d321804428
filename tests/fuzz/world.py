"""What the cases spoil: small trained runs of every kind, text files, and a model of the original implementation."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from ssmt.config import CorpusConfig, DataConfig, changed, compose
from ssmt.evaluation.composition import extract_subsets
from ssmt.interop.fairseq import import_fairseq
from ssmt.progress import Reporter
from ssmt.serve.keys import Key, digest_of
from ssmt.text.corpus_writer import CorpusWriter
from ssmt.text.preparation import TrainingFiles
from ssmt.training import run
from tests.conftest import OBJECTS, SUBJECTS, TENSES, VERBS
from tests.interop.original import Shape, checkpoint_of, random_tensors, write_files

TINY = [
    *("text.source_vocabulary=60", "text.subword_vocabulary=90", "text.lexicon_size=80", "text.longest_segment=4"),
    *("network.width=16", "network.heads=2", "network.feedforward=32", "network.encoder_layers=1"),
    *("network.decoder_layers=1", "training.batch_characters=300", "training.max_epochs=none"),
    *("training.validate_every=2", "training.chrf_sentences=3", "training.max_updates=4"),
]
KINDS = ("ssmt", "bpe", "ulm", "dpe")
LANGUAGES = "languages"  # a model of two: xh and zu
SUBSETS = "subsets"  # of the validation text
INTERRUPTED = "interrupted"  # a run that has not ended its preparation
UPDATES = 4


def build(directory: Path) -> None:
    """Everything, in a new directory."""
    files = directory / "files"
    write_texts(files)
    names = [files / f"{part}.{side}" for part in ("train", "valid") for side in ("source", "target")]
    for kind in KINDS:
        config = compose("tiny", settings=[*TINY, f"model={kind}"])
        if kind == "ssmt":
            config = changed(config, {"network": {"ngram_inputs": True}, "training": {"average_last": 2}}, "fuzz")
        elif kind == "ulm":
            config = changed(config, {"network": {"copies": True}}, "fuzz")
        run.begin(TrainingFiles(*names), directory / kind, config, Reporter())
        run.train(directory / kind, torch.device("cpu"), Reporter())
    corpora = {part: (CorpusConfig(pairs=(str(files / f"{part}.tsv"),)),) for part in ("train", "valid")}
    config = compose("tiny", settings=[*TINY, "text.source_language=en", "network.copies=true"])
    run.begin(DataConfig(**corpora), directory / LANGUAGES, config, Reporter())
    run.train(directory / LANGUAGES, torch.device("cpu"), Reporter())
    _begin_and_interrupt(TrainingFiles(*names), directory / INTERRUPTED)
    extract_subsets(
        *(files / name for name in ("train.target", "valid.source", "valid.target")),
        directory / SUBSETS,
        morphemes=[files / "words.tsv"],
        size=5,
    )
    (directory / "fairseq").mkdir()
    original = write_files(directory / "fairseq", checkpoint_of(random_tensors(Shape(), 1), Shape().options(), "cfg"))
    import_fairseq(*original.arguments(directory / "imported"))


def _begin_and_interrupt(files: TrainingFiles, directory: Path) -> None:
    """A run whose preparation has saved what it had, and ended."""

    def interrupt(writer: CorpusWriter) -> None:
        writer.save()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(CorpusWriter, "finish", interrupt)
        run.begin(files, directory, compose("tiny", settings=TINY), Reporter())


def write_texts(files: Path) -> None:
    files.mkdir(parents=True)
    pairs = [
        (f"{s} {v} {o}{t}.", f"{SUBJECTS[s]}{VERBS[v]}{TENSES[t]} {OBJECTS[o]}.")
        for s, v, t, o in itertools.product(SUBJECTS, VERBS, TENSES, OBJECTS)
    ]
    parts = {"train": [p for i, p in enumerate(pairs) if i % 6], "valid": pairs[::6], "test": pairs[:5]}
    for name, chosen in parts.items():
        for ending, side in zip(("source", "target"), zip(*chosen, strict=True), strict=True):
            (files / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        rows = [f"{source}\t{target}\t{('xh', 'zu')[row % 2]}\n" for row, (source, target) in enumerate(chosen)]
        (files / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    morphemes = {
        f"{SUBJECTS[s]}{VERBS[v]}{TENSES[t]}": f"{SUBJECTS[s]}-{VERBS[v]}-{TENSES[t]}"
        for s, v, t in itertools.product(SUBJECTS, VERBS, TENSES)
    }
    (files / "words.tsv").write_text("".join(f"{w}\t{m}\n" for w, m in morphemes.items()), encoding="utf-8")
    gold = [(source, target, target.replace("bon", "|bon|").replace("biz", "|biz|")) for source, target in pairs[:5]]
    (files / "gold.tsv").write_text("".join("\t".join(row) + "\n" for row in gold), encoding="utf-8")
    (files / "segmented.txt").write_text("".join(f"{row[2]}\n" for row in gold), encoding="utf-8")
    (files / "keys").write_text("".join(Key(name, digest_of(name), None).line for name in ("weblate", "omegat")))
    (files / "settings.yaml").write_text("training:\n  seed: 2\n", encoding="utf-8")
    (files / "subset.lines").write_text("1\n3\n", encoding="utf-8")
