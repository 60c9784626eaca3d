"""Adapters room: a few numbers that are trained beside a frozen net, in PEFT's layout."""
