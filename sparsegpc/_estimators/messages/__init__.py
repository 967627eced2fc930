"""What users are told during and after a fit."""
