/** Runs that several scenarios ask for, as they stand in an address. */

/** DeepSeek-V3 on more memory than its cards have. */
export const DEEPSEEK =
  "model.hf_id=deepseek-ai/DeepSeek-V3&parallelism.num_gpus=128&parallelism.tp=4&parallelism.pp=4" +
  "&parallelism.ep=8&parallelism.num_layers_in_last_pipeline_stage=16&training.seq_length=4096" +
  "&gpu=H100-80GB-SXM";

/** Experts over four stages of two chunks each, with a map. */
export const PIPELINE =
  "model.hf_id=Qwen/Qwen3-30B-A3B&parallelism.num_gpus=64&parallelism.pp=4&parallelism.vpp=2" +
  "&parallelism.ep=8&gpu=H100-80GB-SXM&map=/parallelism/tp,/parallelism/pp";

/** A model on one GPU, whose allocator is replayed. */
export const ALONE =
  "model.hf_id=meta-llama/Llama-3.2-1B&parallelism.num_gpus=1&training.seq_length=2048" +
  "&framework.name=transformers&gpu=H100-80GB-SXM";

/** Short sequences, several of which have room. */
export const SHORT =
  "model.hf_id=meta-llama/Llama-3.1-8B&parallelism.num_gpus=8&parallelism.tp=2&gpu=H100-80GB-SXM" +
  "&training.seq_length=2048&training.micro_batch_size=1&framework.name=megatron";
