"""The plan of benchmarks/results.py, the order in which its jobs start, and the paper's numbers. (The script is run in
test_benchmarks.py.)"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ssmt.config import Config
from ssmt.errors import UserError

ROOT = Path(__file__).parents[1]
PAPER = ROOT.parent / "shared" / "paper" / "subword-segmental-machine-translation.tex"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def module(name: str) -> Any:
    return importlib.import_module(f"paper.{name}")


def started(plan: Any, processes: int = 2) -> Iterator[list[str]]:
    """What runs at the same time, where every job takes equally long."""
    startable = module("slots").startable
    waiting = list(plan.jobs)
    while waiting:
        jobs = startable(waiting, [], plan, processes)
        assert jobs, "something can always be started"
        waiting = [job for job in waiting if job not in jobs]
        yield [job.name for job in jobs]


def plan_of(*tables: str, **options: Any) -> Any:
    plan = module("plan")
    languages = options.pop("languages", tuple(module("systems").LANGUAGES))
    return plan.plan_of(plan.Options(**options), tables or plan.TABLES, languages)


def test_the_headline_comes_first_and_in_pairs() -> None:
    rounds = list(started(plan_of()))
    trained = [names for names in rounds if names[0].endswith("trained")]
    for language, names in zip(("ss", "zu", "xh"), trained[:3], strict=True):
        assert names == [f"{language} {system}, seed 1, 60 minutes, trained" for system in ("bpe", "ssmt")]
    assert [names[0].split(",")[1] for names in trained[3:9]] == [" seed 2"] * 3 + [" seed 3"] * 3
    assert [len(names) for names in trained if len(names) == 1] == [], "none is trained alone"
    after_first = rounds[rounds.index(trained[0]) + 1 : rounds.index(trained[1])]
    assert len(after_first) == 2, "what a pair has learnt is measured before the next one is trained"
    assert {name.split(", ")[3][:4] for names in after_first for name in names} == {"test", "morp"}


def test_jobs_come_once_and_after_what_they_need() -> None:
    jobs = plan_of().jobs
    assert len(set(jobs)) == len(jobs)
    places = {job: place for place, job in enumerate(jobs)}
    assert all(places[need] < places[job] for job in jobs for need in job.needs)
    results = [job.result(Path()) for job in jobs]
    assert len(set(results)) == len(results), "each has a file of its own"


def test_text_of_another_kind_is_translated_where_there_is_some() -> None:
    plan = module("plan")
    options = plan.Options(seeds=(1,))
    with_it, without = (plan.plan_of(options, ["headline"], with_aside=languages).jobs for languages in (["zu"], []))
    more = [job for job in with_it if job not in without]
    assert [(job.language, job.split, job.run.system) for job in more] == [
        ("zu", "flores.dev", "bpe"),
        ("zu", "flores.dev", "ssmt"),
    ]
    assert all(job.tuned_as in without for job in more), "by the penalty of the test text's job"


def test_every_table_alone_is_part_of_the_whole() -> None:
    whole = set(plan_of().jobs)
    parts = [set(plan_of(table).jobs) for table in module("plan").TABLES]
    assert set().union(*parts) == whole
    assert all(parts)


def test_languages_and_seeds_are_chosen() -> None:
    jobs = plan_of(languages=["zu"], seeds=(7,)).jobs
    assert {job.language for job in jobs} == {"zu"}
    assert {job.run.seed for job in jobs if hasattr(job, "run")} == {7}


def test_a_training_waits_for_both_slots_and_nothing_goes_before_it() -> None:
    slots, plan = module("slots"), plan_of("headline", "7")
    bpe, ssmt = (job for job in plan.jobs[:4] if job.name.endswith("trained"))
    translation = next(job for job in plan.jobs if job.needs == (bpe,))
    waiting = [job for job in plan.jobs if job not in (bpe, ssmt)]
    assert slots.startable(waiting, [ssmt], plan, 2) == [translation]
    waiting.remove(translation)
    assert slots.startable(waiting, [ssmt, translation], plan, 2) == []
    assert slots.startable(waiting, [ssmt], plan, 2) == [], "the next pair needs two slots"
    later = [job for job in waiting if "mixture" in job.name]
    assert later, "Table 7 could be decoded"
    ready = [job for job in waiting if job.language == "xh"] + later
    assert slots.startable(ready, [ssmt], plan, 2) == []
    assert slots.startable(later, [ssmt], plan, 2) == later[:1]
    assert len(slots.startable(plan.jobs, [], plan, 1)) == 1, "with one slot there are no pairs"
    assert slots.startable([ssmt, translation], [bpe], plan, 2) == [ssmt], "its partner runs already"


@pytest.mark.parametrize("error", [UserError("it diverges"), ZeroDivisionError("a fault")])
def test_a_job_that_fails_takes_only_those_that_need_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slots, plan = module("slots"), plan_of("3", languages=["ss"])
    monkeypatch.setattr(slots, "ProcessPoolExecutor", lambda processes, **_: ThreadPoolExecutor(processes))
    monkeypatch.setattr(slots, "ONE_THREAD", {})
    failing = next(job for job in plan.jobs if job.name == "ss ulm, seed 1, 60 minutes, trained")

    def perform(job: Any) -> str:
        if job == failing:
            raise error
        return "done"

    outcomes = {job: (said, succeeded) for job, said, succeeded in slots.work_through(plan, tmp_path, 2, perform)}
    assert set(outcomes) == set(plan.jobs), "each is spoken of"
    assert str(error) in outcomes[failing][0]
    failed = {job for job, (_, succeeded) in outcomes.items() if not succeeded}
    assert failed == {failing, *(job for job in plan.jobs if failing in job.needs)}
    assert len(failed) == 2


def test_all_systems_have_the_same_budget() -> None:
    systems = module("systems")
    for system in [*systems.SYSTEMS.values(), *systems.ABLATION.values()]:
        config = system.config(60, 3)
        first = config.segmenter.max_cpu_minutes or 0.0
        assert config.training.max_cpu_minutes + first == pytest.approx(60)
        assert (first > 0) == (config.model == "dpe")
        assert (config.training.max_epochs, config.training.patience, config.training.seed) == (None, None, 3)
        assert config.training.cooldown == 0.4


def test_rows_of_one_name_have_one_run() -> None:
    systems = module("systems")
    configs: dict[str, Any] = {}
    for system in [*systems.SYSTEMS.values(), *systems.ABLATION.values()]:
        assert configs.setdefault(system.name, system.config(60, 1)) == system.config(60, 1)


def test_tuning_sentences_are_spread_over_the_whole_text() -> None:
    spread = module("work").spread
    assert spread([str(line) for line in range(10)], 4) == ["0", "2", "5", "7"]
    assert spread(["a", "b"], 4) == ["a", "b"]
    assert spread([], 4) == []


def test_the_length_penalty_is_that_of_the_nearest_length() -> None:
    nearest_length = module("work").nearest_length
    assert nearest_length({1.0: 0.8, 2.0: 0.97, 3.0: 1.04}) == 2.0
    assert nearest_length({1.0: 0.0, 2.0: 1.9}) == 2.0
    assert nearest_length({2.0: 1.0, 1.0: 1.0}) == 1.0


def test_the_grid_changes_layers_and_vocabulary() -> None:
    systems = module("systems")
    bpe, ssmt = (systems.of_grid(system, 3, 1000).config(15, 1) for system in systems.GRID_SYSTEMS)
    assert (bpe.network.encoder_layers, bpe.network.decoder_layers, bpe.text.subword_vocabulary) == (3, 3, 1000)
    assert (ssmt.network.encoder_layers, ssmt.network.word_layers, ssmt.text.lexicon_size) == (3, 3, 1000)


def test_the_papers_cuts_are_copied_rightly() -> None:
    """F1 is the harmonic mean of precision and recall, but for the rounding of both."""
    for table in module("published").MORPHEMES.values():
        assert len(table) == 12
        for precision, recall, f1 in table.values():
            assert f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=0.02)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
def test_the_papers_numbers_are_those_of_its_tables() -> None:
    published, names = module("published"), module("systems").LANGUAGES
    text = re.sub(r"\\(?:textbf|underline)\b|[{}]", "", PAPER.read_text(encoding="utf-8"))

    def rows(first: str, numbers: int) -> list[list[float]]:
        """The rows of the paper's tables that begin with a name and have so many numbers."""
        found = [re.findall(r"\d+\.\d+", row) for row in re.findall(rf"{first}\s*&(.*?)\\\\", text, flags=re.DOTALL)]
        return [[float(number) for number in row] for row in found if len(row) == numbers]

    for language, name in names.items():
        scores = [number for system in published.SYSTEMS for number in published.TRANSLATION[language, system]]
        assert rows(name, 8) == [scores]
    for system in published.SYSTEMS:
        boundaries, morphemes = rows(system.upper(), 9)
        for measure, row in (("boundary", boundaries), ("identification", morphemes)):
            cuts = [published.MORPHEMES[measure][language, system] for language in ("xh", "zu", "ss")]
            assert row == [number for scores in cuts for number in scores]
    for beam in (1, 3, 5, 7, 10):
        scores = [number for search in ("mixture", "dynamic") for number in published.BEAMS[search, beam]]
        assert rows(rf"\s{beam}", 4) == [scores]
    assert [rows(first, 1) for first in (r"\(DPE\)", r"char \(SSMT --char\)", r"char \(SSMT\)")] == [
        [[23.3]],
        [[23.7], [26.2]],
        [[23.1], [26.4]],
    ]


def test_a_run_that_finishes_while_others_are_archived_is_archived_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, run = module("archive"), Path("20-minutes/ss/ssmt-1")
    (tmp_path / "output" / run / "measured").mkdir(parents=True)
    (tmp_path / "output" / run / "config.json").write_text(Config().model_dump_json())
    (tmp_path / "output" / run / "log.jsonl").write_text('{"update": 1, "valid_bits_per_character": 2.0}\n')
    whole_files = archive._whole_files
    monkeypatch.setattr(archive, "_whole_files", lambda root: iter(list(whole_files(root))))
    plain = archive._copy

    def finishes(*arguments: Path) -> None:
        (tmp_path / "output" / run / "measured" / "run.json").write_text("{}")
        plain(*arguments)

    monkeypatch.setattr(archive, "_copy", finishes)
    (tmp_path / "output" / "evaluated").mkdir()
    (tmp_path / "output" / "evaluated" / "x.json").write_text("{}")
    archive.store(tmp_path / "output", tmp_path / "archive")
    assert (tmp_path / "archive" / run / "log.jsonl").read_text()


def test_an_archive_learns_the_texts_of_later_calls(tmp_path: Path) -> None:
    archive, digests = module("archive"), Path("texts") / "digests.json"
    for name, content in (("one", '{"a": "1"}'), ("two", '{"b": "2"}')):
        (tmp_path / name / "texts").mkdir(parents=True)
        (tmp_path / name / digests).write_text(content)
        archive.store(tmp_path / name, tmp_path / "archive")
    assert json.loads((tmp_path / "archive" / digests).read_text()) == {"a": "1", "b": "2"}


def finished_run(root: Path, name: str, dropout: float = 0.1) -> Path:
    """What an output has of a run that was trained there, and what was measured with it."""
    run = root / "20-minutes" / "ss" / name
    (run / "measured").mkdir(parents=True)
    (run / "data").mkdir()
    config = Config().model_copy(update={"network": Config().network.model_copy(update={"dropout": dropout})})
    (run / "config.json").write_text(config.model_dump_json())
    (run / "log.jsonl").write_text('{"update": 1, "minutes": 1.0, "valid_bits_per_character": 2.0}\n')
    (run / "measured" / "run.json").write_text("{}")
    return run


def test_what_an_archive_gains_later_is_restored_too(tmp_path: Path) -> None:
    archive, trained = module("archive"), finished_run(tmp_path / "output", "ssmt-1")
    archive.store(tmp_path / "output", tmp_path / "archive")
    archive.restore(tmp_path / "archive", tmp_path / "elsewhere")
    (trained / "measured" / "morphemes.json").write_text("[]")
    archive.store(tmp_path / "output", tmp_path / "archive")
    archive.restore(tmp_path / "archive", tmp_path / "elsewhere")
    copy = tmp_path / "elsewhere" / trained.relative_to(tmp_path / "output")
    assert (copy / "measured" / "morphemes.json").read_text() == "[]"


def test_an_archive_of_other_settings_or_texts_is_refused(tmp_path: Path) -> None:
    archive = module("archive")
    for place, dropout in (("output", 0.1), ("other", 0.2)):
        finished_run(tmp_path / place, "ssmt-1", dropout)
        (tmp_path / place / "texts").mkdir()
        (tmp_path / place / "texts" / "digests.json").write_text('{"ss/test.en": "1"}')
    archive.store(tmp_path / "output", tmp_path / "archive")
    with pytest.raises(UserError, match=r"ssmt-1: is of other settings than .*dropout was 0\.1, now 0\.2"):
        archive.restore(tmp_path / "archive", tmp_path / "other")
    archive.restore(tmp_path / "archive", tmp_path / "output")
    (tmp_path / "output" / "texts" / "digests.json").write_text('{"ss/test.en": "2", "zu/test.en": "3"}')
    with pytest.raises(UserError, match=r"was made from another ss/test\.en"):
        archive.restore(tmp_path / "archive", tmp_path / "output")


def test_digests_of_an_archive_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    archive, digests = module("archive"), Path("texts") / "digests.json"
    for name, content in (("archive", '{"a": "1"}'), ("output", '{"b": "2"}')):
        (tmp_path / name / "texts").mkdir(parents=True)
        (tmp_path / name / digests).write_text(content)
    archive.restore(tmp_path / "archive", tmp_path / "output")
    assert json.loads((tmp_path / "output" / digests).read_text()) == {"a": "1", "b": "2"}
