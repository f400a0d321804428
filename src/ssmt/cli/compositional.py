"""`ssmt compositional`: test subsets that ask for new words made of known morphemes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssmt.cli.results import (
    JsonOption,
    LatexOption,
    ManyValues,
    MarkdownOption,
    PlotOption,
    chosen_format,
    require_plot,
    write_plot,
    write_results,
)
from ssmt.cli.shared import DeviceOption, ThreadsOption, app, load_translator, reporter
from ssmt.errors import UserError
from ssmt.files import name_of, require_file
from ssmt.text.lines import read_lines, require_equal_lengths

if TYPE_CHECKING:
    from ssmt.evaluation.composition import Segment, Sentence


@app.command(cls=ManyValues)
def compositional(
    train: Annotated[str, typer.Option(metavar="F", help="The target side of the training text.")],
    test_source: Annotated[str, typer.Option(metavar="F", help="The test set to choose from, source side.")],
    test_target: Annotated[str, typer.Option(metavar="F", help="The test set to choose from, target side.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the subsets are written.")],
    morphemes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="A list of word TAB morphemes joined by -; or two files, the training and the test text with | "
            "between morphemes.",
            show_default="learnt by Morfessor, an extra",
        ),
    ] = None,
    segmenter: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model directory whose segments are the morphemes.")
    ] = None,
    target_divergence: Annotated[
        list[float] | None,
        typer.Option(metavar="D", help="Compound divergences to reach, one subset each.", show_default="0.2 0.3"),
    ] = None,
    size: Annotated[int, typer.Option(min=1, metavar="N", help="Sentences of a subset.")] = 300,
    candidates: Annotated[int, typer.Option(min=1, metavar="N", help="Sentences drawn for each choice.")] = 100,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the draws.")] = 0,
    json_: JsonOption = False,
    markdown: MarkdownOption = False,
    latex: LatexOption = False,
    plot: PlotOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Take subsets from a test set that ask for new words made of known morphemes (the paper's section 6).

    Words are compounds and morphemes are atoms. A subset comes as near to its compound divergence (Chernoff, alpha
    0.1) as it can with the lowest atom divergence (alpha 0.5). `ssmt evaluate --subset DIR` scores systems on them.
    """
    from ssmt.evaluation import composition

    form = chosen_format(json_, markdown, latex)
    require_plot(plot)
    if morphemes and segmenter is not None:
        raise UserError("--morphemes and --segmenter exclude each other: morphemes come from one of them")
    if len(morphemes or []) == 2:  # these are read again, line by line with their morphemes
        require_file(train)
        require_file(test_target)
    training, target = read_lines(train), read_lines(test_target)
    source = read_lines(test_source)
    require_equal_lengths(test_source, len(source), test_target, len(target))
    train_sentences, test_sentences = _analyses(
        (train, training), (test_target, target), morphemes or [], segmenter, seed, threads, device
    )
    seen = composition.Distribution.of(train_sentences)
    subsets = []
    for divergence in dict.fromkeys(target_divergence or [0.2, 0.3]):
        subsets.append(
            composition.extract_subset(
                seen, test_sentences, size=size, target_divergence=divergence, candidates=candidates, seed=seed
            )
        )
    for subset in subsets:
        stem = composition.write_subset(output, subset, source, target)
        reporter.say(f"Written: {stem}.source, .target, .lines, .json")
    whole = composition.Distribution.of(test_sentences)
    d_c, d_a = composition.compound_divergence(seen, whole), composition.atom_divergence(seen, whole)
    record = {
        "test_set": {"size": len(target), "compound_divergence": d_c, "atom_divergence": d_a},
        "subsets": [composition.as_dict(subset) for subset in subsets],
    }
    write_results([composition.as_table(subsets, (len(target), d_c, d_a))], record, form)
    if plot is not None:
        from ssmt.evaluation import plots

        write_plot(plots.growth(subsets), plot)


def _analyses(
    train: tuple[str, list[str]],
    test: tuple[str, list[str]],
    morphemes: Sequence[str],
    segmenter: Path | None,
    seed: int,
    threads: int | None,
    device: str,
) -> tuple[list[Sentence], list[Sentence]]:
    """Words and morphemes of the training and of the test text."""
    from ssmt.evaluation import composition

    if len(morphemes) == 2:
        return composition.read_analyses(train[0], morphemes[0]), composition.read_analyses(test[0], morphemes[1])
    if len(morphemes) > 2:
        raise UserError("--morphemes takes one file (a word list) or two (the training and the test text segmented)")
    segment: Segment
    if morphemes:
        segment = composition.read_word_list(morphemes[0])
    elif segmenter is not None:
        from ssmt.evaluation.model_output import word_segmenter

        reporter.say(f"Segmenting words with {segmenter}")
        segment = word_segmenter(load_translator(segmenter, device, threads), train[1] + test[1])
    else:
        reporter.say("Morfessor learns morphemes from the training text")
        segment = composition.train_morfessor(train[1], seed=seed)
    analysed = composition.analyse(train[1], segment), composition.analyse(test[1], segment)
    if morphemes:
        words = {word for sentence in analysed[0] for word in sentence}
        whole = sum(len(word.morphemes) == 1 for word in words)
        if 2 * whole > len(words):
            reporter.warn(
                f"{whole:,} of {len(words):,} distinct training words are one morpheme; words that "
                f"{name_of(morphemes[0])} does not list count as such"
            )
    return analysed
