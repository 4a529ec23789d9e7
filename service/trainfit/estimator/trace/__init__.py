"""The requests of a rank: what a framework asks of the allocator, in order, as programs tell it."""
