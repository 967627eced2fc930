"""Progress messages, callbacks and warnings of a fit."""
