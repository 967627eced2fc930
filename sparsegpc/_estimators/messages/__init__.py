"""Progress and warnings of a fit."""
