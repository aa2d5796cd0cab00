"""Training data from records: selection, guards, and one writer for each format."""

from .derivation import derive
from .formats import FORMATS, record_from_atif
from .manifest import Report
from .options import Options, moment

__all__ = ["FORMATS", "Options", "Report", "derive", "moment", "record_from_atif"]
