"""Shell scripts and command lines, read as bash would expand them, without running anything.

Statements are followed in their order; what a variable is, is known as far as the script itself and
the request's `env` and `argv` say. What is not known is carried on as such, with what to give, so
that it hurts only where it decides something.
"""
