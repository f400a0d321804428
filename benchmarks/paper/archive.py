"""What of an output is worth keeping for good: numbers, translations and curves, without models and without texts.

The runs of all tables take days. An archive lets them be made in many sessions, on machines that come and go: what it
holds is not trained again, and the document is written from it and from the data alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from ssmt.config import Config, DataConfig, differences, in_words
from ssmt.directory import CONFIG, load_config
from ssmt.errors import UserError
from ssmt.files import as_json, read_json
from ssmt.outputs import open_for_writing, replacing
from ssmt.training.log import read_log

LOG = "log.jsonl"
DIGESTS = Path("texts/digests.json")  # of the texts, which grow with every language
TRAINED = ("checkpoints", "data")  # what a run has that was trained here, and its copy from an archive has not
WHOLE = ("*-minutes/*/*/measured/*.json", "evaluated/*.json", "subsets/**/*", str(DIGESTS))


def store(output: Path, archive: Path) -> None:
    """Copy into the archive what it lacks."""
    for name in _whole_files(output):
        _copy(output, archive, name)
    if (output / DIGESTS).exists():
        digests = read_json(archive / DIGESTS) | read_json(output / DIGESTS)
        with open_for_writing(archive / DIGESTS) as stream:
            stream.write(as_json(digests, indent=2) + "\n")
    for measured in output.glob("*-minutes/*/*/measured/run.json"):  # of finished runs
        run = measured.parents[1]
        name = run.relative_to(output)
        if not (archive / name / LOG).exists():
            (archive / name).mkdir(parents=True, exist_ok=True)  # a run can finish meanwhile
            with open_for_writing(archive / name / CONFIG) as stream:
                stream.write(_without_paths(run).model_dump_json(indent=1) + "\n")
            validated = [line for line in read_log(run) if any(key.startswith("valid_") for key in line)]
            with open_for_writing(archive / name / LOG) as stream:
                stream.writelines(json.dumps(line) + "\n" for line in validated)


def restore(archive: Path, output: Path) -> None:
    """Copy into the output what it lacks, of runs that it has not begun itself. What is of other settings or texts is
    refused."""
    _restore_digests(archive, output)
    runs = sorted(path.parent.relative_to(archive) for path in archive.glob(f"*-minutes/*/*/{CONFIG}"))
    own = {run for run in runs if any((output / run / name).exists() for name in TRAINED)}
    for run in own:
        if changed := list(differences(load_config(archive / run), _without_paths(output / run))):
            raise UserError(f"{archive / run}: is of other settings than {output / run} ({in_words(changed)})")
    begun = ((run / name) for run in runs for name in (CONFIG, LOG))
    for path in (*_whole_files(archive), *begun):
        if not own & {*path.parents}:
            _copy(archive, output, path)


def _restore_digests(archive: Path, output: Path) -> None:
    there, here = (read_json(root / DIGESTS) if (root / DIGESTS).exists() else {} for root in (archive, output))
    if other := sorted(name for name in there.keys() & here.keys() if there[name] != here[name]):
        raise UserError(f"{archive}: was made from another {other[0]} than {output}")
    (output / DIGESTS).parent.mkdir(parents=True, exist_ok=True)
    with open_for_writing(output / DIGESTS) as stream:
        stream.write(as_json(there | here, indent=2) + "\n")


def _without_paths(run: Path) -> Config:
    """Its settings, without those that are of one machine."""
    return load_config(run).model_copy(update={"data": DataConfig()})


def _whole_files(root: Path) -> Iterator[Path]:
    for pattern in WHOLE:
        yield from (path.relative_to(root) for path in sorted(root.glob(pattern)) if path.is_file())


def _copy(source: Path, target: Path, name: Path) -> None:
    if not (target / name).exists():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with replacing(target / name) as temporary:
            shutil.copyfile(source / name, temporary)
