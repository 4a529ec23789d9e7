"""A job -> the arguments of a framework that make it."""
