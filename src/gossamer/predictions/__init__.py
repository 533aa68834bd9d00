"""Models that a run has left, used on new rows: predictions, coefficients by name, files for other tools."""

from gossamer.predictions.files import load_model
from gossamer.predictions.fitted import FittedModel
from gossamer.predictions.runs import fitted_model

__all__ = ["FittedModel", "fitted_model", "load_model"]
