"""The frozen configurations of a campaign: whose TEST may be read again, under which configuration, and no other."""

from dataclasses import dataclass
from pathlib import Path

from alphabet_study.campaign.plan import check_seal
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import read_csv
from alphabet_study.data_root import data_digest
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DONE, FINAL, Cell, FitKey, Job, Record
from alphabet_study.protocol.settings import Settings
from alphabet_study.registry.task import Task


@dataclass(frozen=True)
class FrozenCampaign:
    """What a campaign's store or export says: its settings, the digests of its data, and its records by key."""

    source: Path
    settings: Settings
    data: dict[str, dict[str, str]]
    records: dict[FitKey, Record]

    def families(self, tasks: list[str]) -> list[str]:
        """The families with a final on any of these tasks, in the order of their keys."""
        return list(dict.fromkeys(key.family for key in self.records if key.stage == FINAL and key.task in tasks))

    def final_job(self, cell: Cell, task: Task, seed: int) -> Job:
        """The job of a final that has run, after checking that its selection froze just this configuration."""
        key = FitKey(cell.task, cell.family, FINAL, 0, seed)
        record = self.records.get(key)
        if record is None or record.outcome.status != DONE:
            raise StudyError(
                f"{self.source} has no finished final of {cell} with seed {seed}, hence no frozen configuration under "
                f"which TEST was opened: it stays sealed. Complete that cell by `alphabet-study run --task {cell.task} "
                f"--family {cell.family} --settings {self.settings.name}`, or name others by --task, --family, --seed"
            )
        outcomes = {known: (each.job, each.outcome) for known, each in self.records.items() if known.cell == cell}
        check_seal(cell, task, self.settings, outcomes)
        return record.job

    def test_score(self, key: FitKey, metric: str) -> float:
        """What a final scored on TEST in the campaign, NaN where it does not say."""
        return self.records[key].outcome.test.get(metric, float("nan"))

    def check_data(self, task: Task, root: Path | None) -> None:
        """Refuse files that are not those of the campaign."""
        for part, digest in self.data.get(task.name, {}).items():
            here = data_digest(task, root, part)
            if here != digest:
                raise StudyError(
                    f"{task.name}: the files of {part.upper()} are not those of {self.source}: digest {here} here, "
                    f"{digest} there. Name the data root of that campaign by --data"
                )


def read_campaign(path: Path) -> FrozenCampaign:
    """The campaign of a store, or of a CSV file that `alphabet-study export` wrote."""
    if path.suffix == ".csv":
        described, records = read_csv(path)
        settings, data = described.settings, described.data
    else:
        with Store.read(path) as store:
            records, settings, data = store.records(), store.settings, store.data_digests()
    return FrozenCampaign(path, settings, data, {record.job.key: record for record in records})
