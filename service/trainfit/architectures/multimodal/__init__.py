"""Families of composite types: text models with vision or audio towers."""
