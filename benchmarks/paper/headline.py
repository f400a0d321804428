"""Who is ahead, in sentences; SSMT against BPE by seeds and budgets; their learning curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from paper import plan, systems
from paper.page import BPE, METRICS, NOT_RUN, SSMT, Page, signatures, spread
from paper.plan import Options, Translate
from ssmt.evaluation import plots
from ssmt.evaluation.tables import Cell, Table, markdown
from ssmt.evaluation.translation import SIGNIFICANCE_LEVEL, TranslationReport


def in_short(page: Page) -> str:
    sentences = [_who_is_ahead(page, metric) for metric in METRICS]
    cuts = page.cuts("boundary")
    compared = [
        f"{cuts[language, SSMT]['f1']['value']:.1f} against {cuts[language, BPE]['f1']['value']:.1f} "
        f"({systems.LANGUAGES[language]})"
        for language in systems.MORPHOLOGY
        if (language, SSMT) in cuts and (language, BPE) in cuts
    ]
    if compared:
        sentences.append(f"F1 of morpheme boundaries, `{SSMT}` against `{BPE}`: {', '.join(compared)}.")
    said = [f"* {sentence}" for sentence in sentences if sentence]
    return "\n".join(said) + "\n" if said else f"Nothing of it has been run yet ({NOT_RUN}).\n"


def _who_is_ahead(page: Page, metric: str) -> str:
    places: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
    for language, report in page.reports.items():
        if {BPE, SSMT} <= {*report.systems}:
            score = report[SSMT, metric]
            gain, p_value = score.score - report[BPE, metric].score, score.p_value
            assert p_value is not None, "it was tested against bpe"
            is_clear = p_value < SIGNIFICANCE_LEVEL
            place = "level" if not is_clear else "ahead" if gain > 0 else "behind"
            places[place].append(f"{systems.LANGUAGES[language]} ({gain:+.1f}, p = {p_value:.3f})")
    said = [
        f"{words} on {', '.join(places[place])}"
        for place, words in (
            ("ahead", f"**ahead of `{BPE}`**"),
            ("level", f"not clearly apart from `{BPE}`"),
            ("behind", f"**behind `{BPE}`**"),
        )
        if places[place]
    ]
    return f"{metric}, {page.budget}: `{SSMT}` is {'; '.join(said)}." if said else ""


Cells = Callable[[Options], Mapping[tuple[str, int, str], Translate]]  # by language, seed and system


def headline(page: Page) -> str:
    first = next(iter(page.reports.values()), None)
    return _compared(page, plan.headline, systems.HEADLINE, signatures(first))


def aside(page: Page) -> str:
    return _compared(page, plan.aside, tuple(systems.ASIDE), [])


def _compared(page: Page, cells: Cells, languages: Sequence[str], more_notes: Sequence[str]) -> str:
    """SSMT against BPE, by language, budget and metric."""
    rows = []
    for options in page.budgets:
        jobs = cells(options)
        for language in languages:
            by_seed = {seed: _of_seed(page, jobs, language, seed) for seed in options.seeds}
            reports = {seed: report for seed, report in by_seed.items() if report is not None}
            for metric in METRICS:
                values = {
                    name: [report[name, metric].score for report in reports.values() if name in report.systems]
                    for name in (BPE, SSMT)
                }
                gains = [
                    f"{report[SSMT, metric].score - report[BPE, metric].score:+.1f} (seed {seed}, "
                    f"p = {report[SSMT, metric].p_value:.3f})"
                    for seed, report in reports.items()
                    if {BPE, SSMT} <= {*report.systems}
                ]
                rows.append(
                    (
                        Cell(systems.LANGUAGES[language]),
                        Cell(next((f"{report.sentences:,}" for report in reports.values()), NOT_RUN)),
                        Cell(f"{options.minutes:g}"),
                        Cell(metric),
                        *(Cell(spread(values[name])) for name in (BPE, SSMT)),
                        Cell(", ".join(gains) or NOT_RUN),
                    )
                )
    columns = ("English to", "sentences", "CPU minutes", "", f"`{BPE}`", f"`{SSMT}`", "difference")
    notes = (
        "Mean of the seeds, with the lowest and the highest where there are several.",
        *_lengths(page, cells),
        *more_notes,
    )
    return markdown(Table(columns, tuple(rows), "", notes))


def _lengths(page: Page, cells: Cells) -> list[str]:
    """What is shorter has a lower chrF and BLEU for that alone."""
    said = []
    for options in page.budgets:
        lengths = {key: page.kept.length(job) for key, job in cells(options).items()}
        for language, seed in dict.fromkeys((language, seed) for language, seed, _ in lengths):
            of_systems = {name: lengths[language, seed, name] for name in (BPE, SSMT)}
            listed = [f"`{name}` {100 * length:.0f}" for name, length in of_systems.items() if length is not None]
            if listed:
                where = f"{systems.LANGUAGES[language]}, {options.minutes:g} minutes, seed {seed}"
                said.append(f"{', '.join(listed)} ({where})")
    return [f"Words written for 100 of the references: {'; '.join(said)}."] if said else []


def _of_seed(
    page: Page, cells: Mapping[tuple[str, int, str], Translate], language: str, seed: int
) -> TranslationReport | None:
    jobs = {name: job for (of, of_seed, name), job in cells.items() if (of, of_seed) == (language, seed)}
    return page.kept.comparison(jobs, BPE)


def curves(page: Page) -> str:
    parts = []
    for language in systems.HEADLINE:
        images = [
            _curve(page, language, key, label, name)
            for key, label, name in (
                ("valid_bits_per_character", "validation bits per character", "bits"),
                ("valid_chrf", "validation chrF, greedy", "chrf"),
            )
        ]
        parts.append(f"{systems.LANGUAGES[language]}: " + (" ".join(filter(None, images)) or NOT_RUN))
    return "\n\n".join(parts) + "\n"


def _curve(page: Page, language: str, key: str, label: str, name: str) -> str:
    curves = {
        system: page.kept.curve(job.run, key)
        for (of, seed, system), job in plan.headline(page.options).items()
        if (of, seed) == (language, page.options.seed)
    }
    curves = {system: points for system, points in curves.items() if points[0]}
    if not curves:
        return ""
    title = systems.LANGUAGES[language]
    figure = plots.learning_curve(curves, {}, "minutes of CPU time", label, title)
    ends = ", ".join(f"{system} ends at {y[-1]:.2f}" for system, (_, y) in curves.items())
    return page.image(f"curve-{language}-{name}", figure, f"{title}, {label} over CPU minutes: {ends}")
