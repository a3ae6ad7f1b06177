"""Engines compute fits: `local` in processes of this machine, `ray` on a Ray cluster. Both give the same records."""

from alphabet_study.campaign.engines.engine import Engine, Fit, failed_record
from alphabet_study.errors import StudyError

__all__ = ["Engine", "Fit", "failed_record", "make_engine"]


def make_engine(name: str, fit: Fit, workers: int | None = None) -> Engine:
    """The engine of this name with that many slots, by default one per core that it can use."""
    if name == "local":
        from alphabet_study.campaign.engines.local import LocalEngine

        return LocalEngine(fit, workers)
    if name == "ray":
        from alphabet_study.campaign.engines.ray_engine import RayEngine

        return RayEngine(fit, workers)
    raise StudyError(f"engine must be local or ray; got {name!r}")
