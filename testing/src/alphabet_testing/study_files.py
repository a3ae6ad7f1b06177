"""Small files in every format that the study reads: valid, a few series each, for tests that read or damage them."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from alphabet_study.readers import cifar10, localization, physionet_2019
from alphabet_study.registry.task import DataFile, Task
from scipy.io import savemat

Content = bytes | Mapping[str, bytes]


@dataclass(frozen=True)
class SmallSet:
    """A task and its files by name; an archive is given by its members."""

    task: Task
    files: Mapping[str, Content]

    def write(self, folder: Path) -> Path:
        """Write all files and return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else pack(name, content))
        return folder


def pack(name: str, members: Mapping[str, bytes]) -> bytes:
    """An archive, of the kind that its name says, with these members."""
    buffer = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w") as zipped:
            for member, content in members.items():
                zipped.writestr(member, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w") as tarred:
        for member, content in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tarred.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 1) if name.endswith(".gz") else buffer.getvalue()


def declare(name: str, reader: str, train: tuple[str, ...], test: tuple[str, ...], **fields: Any) -> Task:
    """A task whose sizes are not declared, unless `fields` say so."""
    declared: dict[str, Any] = {
        "objective": "classification",
        "metric": "accuracy",
        "selection_metric": "accuracy",
        "split": "stratified",
        "final_training": "full-train",
        **dict.fromkeys(("channels", "length", "outputs", "train_size", "test_size")),
        **fields,
    }
    files: dict[str, Any] = {
        "files_train": tuple(DataFile(f"small/{name}/{file}") for file in train),
        "files_test": tuple(DataFile(f"small/{name}/{file}") for file in test),
    }
    return Task(name=name, suite="small", title=name, source="", citation="", reader=reader, **files, **declared)


def ucr_univariate() -> SmallSet:
    """Two classes of equal length, nothing missing."""
    header = b"#A comment\n@problemName Small\n@timeStamps false\n@missing false\n@univariate true\n"
    header += b"@equalLength true\n@seriesLength 5\n@classLabel true 1 2\n@data\n"
    train = header + b"0.5,1,-2.25,3e-1,4:1\n1.5,2,3,4,5.125:2\n-1,-2,-3,-4,-5:1\n0,0,0.0,1E2,7:2\n"
    test = header + b"5,4,3,2,1:2\n0.125,1,2,3,4:1\n2,2,2,2,2:2\n"
    names = ("Small_TRAIN.ts", "Small_TEST.ts")
    return SmallSet(declare("Small", "ucr", names[:1], names[1:]), dict(zip(names, (train, test), strict=True)))


def ucr_multivariate() -> SmallSet:
    """Three classes, two channels, unequal lengths, missing values, TEST longer than TRAIN."""
    header = b"@problemName Wide\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"
    header += b"@equalLength false\n@classLabel true sit stand run\n\n@data\n"
    train = header + b"1,2,3:4,5,6:sit\n1.5:2.5:run\n?,2,NaN,4:1,?,3,4:stand\n7,8:9,10:run\n"
    test = header + b"1,2,3,4,5,6:6,5,4,3,2,1:run\n1,?:3,4:sit\n"
    names = ("Wide_TRAIN.ts", "Wide_TEST.ts")
    return SmallSet(declare("Wide", "ucr", names[:1], names[1:]), dict(zip(names, (train, test), strict=True)))


def ucr_tsv() -> SmallSet:
    """The 2018 archive's form: the label first, shorter series padded by NaN, and a gap within one."""
    train = b"1\t0.5\t1.5\t2.5\t3.5\n-1\t1\t2\tNaN\tNaN\n1\t3\tNaN\t5\t6\n"
    test = b"-1\t9\t8\t7\t6\n1\t5\t4\t3\tNaN\n"
    files = {"Tabs_TRAIN.tsv": train, "Tabs_TEST.tsv": test}
    return SmallSet(declare("Tabs", "ucr", ("Tabs_TRAIN.ts",), ("Tabs_TEST.ts",)), files)


def forecasting(rows: int = 24, **options: Any) -> SmallSet:
    """Two channels, hourly; divided 12, 6 and 6 unless the options say otherwise."""
    lines = [b"date,load \xb5W,OT"]  # a Latin-1 byte, as published headers have
    lines += [f"2016-07-{1 + row // 24:02} {row % 24:02}:00:00,{row}.5,{-row / 4}".encode() for row in range(rows)]
    division = {} if "shares" in options else {"rows": [12, 6, 6]}
    options = {"context": 3, "horizon": 2, **division, **options}
    task = declare(
        "Load", "forecasting-csv", ("load.csv",), ("load.csv",), objective="forecasting", metric="mse",
        selection_metric="mse", split="predefined", options=options,
    )  # fmt: skip
    return SmallSet(task, {"load.csv": b"\n".join(lines) + b"\n"})


def clinical_2012() -> SmallSet:
    """Set A with three records and Set C with two: descriptors, repeated, missing and nameless measurements."""
    start = "Time,Parameter,Value\n00:00,RecordID,{0}\n00:00,Age,54\n00:00,Gender,0\n00:00,Height,-1\n"
    start += "00:00,ICUType,4\n00:00,Weight,{1}\n"
    records = {
        1: start.format(1, 80.5) + "00:07,HR,73\n00:07,Temp,35.1\n00:37,HR,77\n00:37,HR,78\n01:30,pH,7.4\n",
        2: start.format(2, -1),
        3: start.format(3, -1) + "10:00,Urine,0\n47:59,DiasABP,-1\n48:00,NISysABP,130\n",
        4: start.format(4, 60) + "00:20,,3.5\n02:00,GCS,15\n02:00,,2\n",
        5: start.format(5, 71) + "00:30,K,4.1\n24:00,MAP,70\n",
    }
    header = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n"
    files: dict[str, Content] = {}
    for letter, group in (("a", (1, 2, 3)), ("c", (4, 5))):
        files[f"set-{letter}.tar.gz"] = {f"set-{letter}/{one}.txt": records[one].encode() for one in group}
        files[f"Outcomes-{letter}.txt"] = (header + "".join(f"{one},6,1,5,-1,{one % 2}\n" for one in group)).encode()
    names = tuple(files)
    task = declare("Clinic", "physionet-2012", names[:2], names[2:], metric="auroc", channels=37, outputs=2)
    return SmallSet(task, files)


def clinical_2019() -> SmallSet:
    """Two hospitals with two patients each, one of whom becomes septic in the second hour."""
    header = "|".join((*physionet_2019.CHANNELS, "SepsisLabel")) + "\n"

    def patient(labels: str) -> bytes:
        hours = []
        for hour, label in enumerate(labels, 1):
            measured = ["NaN"] * 34 + ["61.5", "1", "NaN", "NaN", "-0.03", str(hour)]
            measured[hour % 34] = f"{80 + hour}.5"
            hours.append("|".join([*measured, label]))
        return (header + "\n".join(hours) + "\n").encode()

    files = {
        "training_setA.zip": {"training/p000001.psv": patient("000"), "training/p000002.psv": patient("0111")},
        "training_setB.zip": {"training_setB/p100001.psv": patient("00"), "training_setB/p100002.psv": patient("01")},
    }
    names = tuple(files)
    return SmallSet(declare("Sepsis", "physionet-2019", names[:1], names[1:], metric="auroc"), files)


def motion() -> SmallSet:
    """Three people, a few rows of two activities with the time between; windows of two rows."""

    def person(shift: float) -> bytes:
        rows = []
        for row, activity in enumerate((0, 1, 1, 1, 1, 1, 0, 4, 4, 4, 0)):
            heart = "NaN" if row % 3 else "100"
            rows.append(" ".join([f"{8.38 + row / 100:.2f}", str(activity), heart, *[f"{shift + row}"] * 51]))
        return ("\n".join(rows) + "\n").encode()

    files = {f"subject10{number}.dat": person(number / 4) for number in (1, 5, 6)}
    names = tuple(files)
    task = declare("Motion", "pamap2", names[:2], names[2:], split="predefined", options={"window": 2})
    return SmallSet(task, files)


def positions() -> SmallSet:
    """One recording of each of five people: five readings of an activity, two of another; windows of two."""
    tags, rows = list(localization.TAGS), []
    for person in "ABCDE":
        for reading in range(7):
            ticks = 633790226051280329 + 270_000 * reading
            activity = "walking" if reading < 5 else "sitting down"
            place = f"27.05.2009 14:03:25:{127 + reading},4.0{reading},1.{ord(person)},-0.5"
            rows.append(f"{person}01,{tags[reading % 4].decode()},{ticks},{place},{activity}")
    names = ("ConfLongDemo_JSI.txt",)
    task = declare("Positions", "localization", names, names, split="predefined", options={"window": 2})
    return SmallSet(task, {names[0]: ("\n".join(rows) + "\n").encode()})


def stations() -> SmallSet:
    """Twenty stations with values before and after time 150; of station 7 one variable is never observed after it."""
    lines = ["ID,Time," + ",".join(f"{kind}_{i}" for kind in ("Value", "Mask") for i in range(5))]
    for station in range(20):
        for time in (80.2, 0.1, 150.0, 150.1, 163.5, 199.9):
            masks = [int((station + round(time) + i) % 3 != 0) for i in range(5)]
            if time == 163.5:
                masks = [1, 1, 1, 1, int(station != 7)]
            elif station == 7 and time > 150:
                masks[4] = 0
            values = [f"{station + i + time / 100:.3f}" if masks[i] else "0.0" for i in range(5)]
            lines.append(",".join([str(station), str(time), *values, *map(str, masks)]))
    names = ("small_chunked_sporadic.csv",)
    task = declare("Stations", "ushcn", names, names, objective="forecasting", metric="mse", selection_metric="mse")
    return SmallSet(task, {names[0]: ("\n".join(lines) + "\n").encode()})


def images() -> SmallSet:
    """One image in each of the five data batches, two in the test batch."""
    draw = np.random.default_rng(0)

    def batch(*classes: int) -> bytes:
        return b"".join(bytes([label]) + draw.bytes(cifar10.RECORD - 1) for label in classes)

    members = {f"cifar-10-batches-bin/{name}": batch(number) for number, name in enumerate(cifar10.TRAIN_BATCHES)}
    members["cifar-10-batches-bin/test_batch.bin"] = batch(9, 3)
    names = ("cifar-10-binary.tar.gz",)
    return SmallSet(declare("Images", "cifar10", names, names), {names[0]: members})


def vibration() -> SmallSet:
    """A recording of each of three sets in TRAIN, one of CWRU in TEST; windows of eight samples."""
    signal = np.sin(np.arange(50.0))[:, None]
    channel = np.zeros(2, dtype=[("Name", object), ("Data", object)])
    channel["Name"], channel["Data"] = ["force", "vibration_1"], [signal.T[:, :9], signal.T]
    contents = {
        "105.mat": {"X105_DE_time": signal, "X105_FE_time": signal[:9], "X105RPM": 1797},
        "baseline_1.mat": {"bearing": {"sr": 97656, "gs": signal, "load": 270, "rate": 25}},
        "N15_M07_F10_KA01_1.mat": {"N15_M07_F10_KA01_1": {"Info": 1, "Y": channel}},
        "108.mat": {"X108_DE_time": 2 * signal, "X108_FE_time": signal[:9]},
    }
    files = {}
    for name, content in contents.items():
        buffer = io.BytesIO()
        savemat(buffer, content, do_compression=name.startswith("N"))
        # The header's first bytes tell the platform and the time; without them every day's file is the same.
        files[name] = b"MATLAB 5.0 MAT-file".ljust(116) + buffer.getvalue()[116:]
    names = tuple(files)
    return SmallSet(declare("Vibration", "mat-vibration", names[:3], names[3:], options={"window": 8}), files)


SMALL_SETS: dict[str, Callable[[], SmallSet]] = {
    "ts": ucr_univariate,
    "ts, unequal and missing": ucr_multivariate,
    "tsv": ucr_tsv,
    "forecasting csv": forecasting,
    "forecasting csv by shares": lambda: forecasting(30, shares=[0.5, 0.25, 0.25]),
    "physionet 2012": clinical_2012,
    "physionet 2019": clinical_2019,
    "pamap2": motion,
    "localization": positions,
    "ushcn": stations,
    "cifar10": images,
    "mat": vibration,
}
