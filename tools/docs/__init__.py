"""The parts of the documentation that are made from the code.

A page has a place for each, between `<!-- generated: NAME -->` and `<!-- end -->`.
`python -m tools.docs` fills them and draws the pictures; a test compares them.
"""
