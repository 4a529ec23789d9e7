"""A config of MosaicML's LLM Foundry, which Composer trains -> a job."""
