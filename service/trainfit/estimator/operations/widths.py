"""Bytes of an element."""

FP32 = 4
INT32 = 4
INT64 = 8
BYTE = 1
