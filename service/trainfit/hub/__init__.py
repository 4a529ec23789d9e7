"""config.json from the Hugging Face Hub: fetched, cached, and answered when the Hub is not there.

A revision names a commit for a while; a commit names a config for ever. Both are kept, in this
order of distance: `memory` in the process, `disk` on the machine, `shared` between replicas. Only
`client` knows httpx, only `shared` knows Redis.
"""
