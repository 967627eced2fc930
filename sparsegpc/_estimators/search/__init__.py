"""The choice among candidates by their bounds."""
