"""The paper's tables and figures, made by this program on data that anybody can get, as one document.

    python benchmarks/results.py DATA --output DIR [--tables headline 3 4 5+6 7 figure3 figure4] [--languages ss zu]
                                 [--seeds 1 2 3] [--minutes 60] [--short-minutes 20] [--split test]
                                 [--document docs/results.md] [--archive benchmarks/archive]

DATA has train, dev and test for each language (DATA/ss/train.en, DATA/ss/train.ss and so on) and gold morphemes
(DATA/morphology/ss.sentences.tsv); for Zulu, where it is there, a text of another kind (DATA/zu/flores.dev.en). Two
models train side by side, with one thread each; --minutes are of CPU time, so that other work on the machine changes
nothing. What is done is never done again: stopped in any way, the same command
goes on. The document is written from what DIR holds, also while another call trains, with --document-only.
--archive keeps the results without the models, and what is in it is not done again on another machine either.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import BrokenExecutor
from functools import partial
from pathlib import Path

from paper import archive, systems
from paper.document import write_document
from paper.kept import Kept
from paper.plan import TABLES, Options, Plan, Train, plan_of
from paper.slots import work_through
from paper.work import Place, perform, require_same_settings
from ssmt.errors import Stopped, UserError
from ssmt.training.lock import alone

DOCUMENT = Path(__file__).parents[1] / "docs" / "results.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="where runs and results go")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--languages", nargs="+", choices=list(systems.LANGUAGES), default=list(systems.LANGUAGES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="the first serves all tables")
    parser.add_argument("--minutes", type=float, default=60.0, help="of CPU time, of a run")
    parser.add_argument("--short-minutes", type=float, default=20.0, help="the same of Table 4 and Figure 4")
    parser.add_argument("--split", choices=["test", "dev"], default="test", help="of the headline, Table 3, Figure 3")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="of all runs")
    parser.add_argument("--processes", type=int, default=2, help="jobs side by side")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--figures", type=Path, help="directory (default: figures, beside the document)")
    parser.add_argument("--archive", type=Path, help="a directory of results without models, added to")
    parser.add_argument("--document-only", action="store_true", help="write what there is, train nothing")
    arguments = parser.parse_args()
    options = Options(
        tuple(arguments.seeds),
        arguments.minutes,
        arguments.short_minutes,
        arguments.split,
        tuple(arguments.settings),
    )
    place = Place(arguments.data, arguments.output)
    try:
        plan = plan_of(options, arguments.tables, arguments.languages, place.languages_with_aside())
        if arguments.archive:
            archive.restore(arguments.archive, arguments.output)
        complete = arguments.document_only or do_jobs(plan, place, arguments.processes, arguments.archive)
        figures = arguments.figures or arguments.document.parent / "figures"
        place.keep_texts(job for job in plan.jobs if job.result(place.output).exists())
        write_document(Kept(place, options), arguments.document, figures)
        if arguments.archive:
            archive.store(arguments.output, arguments.archive)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"Written: {arguments.document}")
    if not complete:
        sys.exit("Some jobs have failed; the same command tries them again")


def do_jobs(plan: Plan, place: Place, processes: int, kept_in: Path | None) -> bool:
    """Whether all of them succeeded."""
    complete = True
    with alone(place.output):
        for job in plan.jobs:
            if isinstance(job, Train):
                require_same_settings(job.run, place.output)
        place.keep_texts(plan.jobs)
        done = sum(job.result(place.output).exists() for job in plan.jobs)
        if done:
            print(f"{done} of {len(plan.jobs)} jobs are done already", flush=True)
        try:
            for job, said, succeeded in work_through(plan, place.output, processes, partial(perform, place=place)):
                done += 1
                complete &= succeeded
                said = said if succeeded else f"FAILED: {said}"
                print(f"[{done}/{len(plan.jobs)}] {job.name}: {said}", flush=True)
                if kept_in:
                    archive.store(place.output, kept_in)
        except (KeyboardInterrupt, Stopped):
            sys.exit("Stopped; the same command goes on")
        except BrokenExecutor:
            sys.exit("A process has ended before its job was done; the same command goes on")
    return complete


if __name__ == "__main__":
    main()
