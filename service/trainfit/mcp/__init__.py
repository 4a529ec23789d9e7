"""The Model Context Protocol: questions as tools that agents call. It translates, and knows of a
question no more than its operation in the OpenAPI document says.
"""
