"""From a request to the answer that is sent: one path for every door."""
