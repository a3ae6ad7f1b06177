"""One reader per published format, strict: a malformed file is refused with its place, nothing is skipped in silence.

places      files, their bytes, options, errors with file, line, column and remedy      archives  members of tar and zip
numbers     what a number is, and where one is not                                      labels    classes and indices
stacking    series of unequal length, with gaps, at irregular times, as examples
"""

from alphabet_study.data import Reader
from alphabet_study.readers import (
    cifar10,
    forecasting_csv,
    localization,
    mat_vibration,
    pamap2,
    physionet_2012,
    physionet_2019,
    ucr,
    ushcn,
)

READERS: dict[str, Reader] = {
    "ucr": ucr.READER,
    "forecasting-csv": forecasting_csv.READER,
    "physionet-2012": physionet_2012.READER,
    "physionet-2019": physionet_2019.READER,
    "pamap2": pamap2.READER,
    "localization": localization.READER,
    "ushcn": ushcn.READER,
    "cifar10": cifar10.READER,
    "mat-vibration": mat_vibration.READER,
}
