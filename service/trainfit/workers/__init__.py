"""Work that can be killed, in processes with limits of memory and time."""
