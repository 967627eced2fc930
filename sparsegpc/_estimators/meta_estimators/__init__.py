"""Estimators that wrap another one."""
