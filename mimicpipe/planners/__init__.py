"""Planners of free motion, which `generator=skillgen` asks for the way to each skill."""
