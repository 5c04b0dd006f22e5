"""Twenty kinds of models, small and with random weights: every operation is known, and FLOPs of products are those of a formula."""
import unittest

try:
    import torch
    import transformers
except ImportError:
    raise unittest.SkipTest("torch or transformers is not installed: models are not traced") from None

from torch.utils.flop_counter import FlopCounterMode

import ridge

B, S, V = 2, 16, 100       # Sequences, tokens of each, vocabulary
D, F, H, L = 32, 48, 4, 2  # Width, width of the feed-forward layer, heads, layers
E = D // H                 # Width of a head
N = B * S
SMALL = dict(hidden_size=D, intermediate_size=F, num_hidden_layers=L, num_attention_heads=H, vocab_size=V, max_position_embeddings=64)
GROUPED = dict(SMALL, num_key_value_heads=2, head_dim=E)
IDS = {"input_ids": torch.zeros(B, S, dtype=torch.int64)}


def product(rows, *extents):
    """FLOPs of a chain of matrix products with that many rows: product(N, D, F, D) is a feed-forward layer."""
    return sum(2 * rows * a * b for a, b in zip(extents, extents[1:]))


def attention(pairs, heads=H, key=E, value=E):
    return 2 * B * heads * pairs * (key + value)


CAUSAL, FULL = S * (S + 1) // 2, S * S
GROUPED_LAYER = product(N, D, D) + 2 * product(N, D, 2 * E) + product(N, D, D) + attention(CAUSAL)
DENSE_LAYER = 4 * product(N, D, D) + product(N, D, F, D)
GATED = 3 * product(N, D, F)
HEAD = product(N, D, V)


def causal(name, **config):
    of_text = "Gemma3Text" if name == "Gemma3" else name
    return (lambda: getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{of_text}Config")(**config)), IDS)


def mamba_layer():
    inner, state, rank, taps = 2 * D, 16, 2, 4
    return (product(N, D, 2 * inner) + product(N, inner, rank + 2 * state) + product(N, rank, inner) + product(N, inner, D)
            + 2 * B * (S + taps - 1) * inner * taps + 2 * N * inner * state)


def deepseek_layer():
    q_rank, kv_rank, rope, nope, value = 16, 8, 4, 8, 8
    return (product(N, D, q_rank, H * (nope + rope)) + product(N, D, kv_rank + rope) + product(N, kv_rank, H * (nope + value))
            + product(N, H * value, D) + attention(CAUSAL, H, nope + rope, value))


def images(size):
    return {"pixel_values": torch.randn(B, 3, size, size)}


def t5():
    one = 4 * product(N, D, D)
    encoder = one + product(N, D, F, D) + attention(FULL)
    decoder = 2 * one + product(N, D, F, D) + 2 * attention(FULL)  # Its mask is a tensor, so no half is left out
    config = transformers.T5Config(d_model=D, d_ff=F, num_layers=L, num_heads=H, d_kv=E, vocab_size=V, decoder_start_token_id=0)
    return (lambda: transformers.T5ForConditionalGeneration(config), {**IDS, "labels": IDS["input_ids"]}, L * (encoder + decoder) + HEAD)


def whisper():
    frames = 2 * S  # The second convolution halves them
    convolutions = 2 * B * frames * D * 3 * 8 + 2 * B * S * D * 3 * D
    encoder = DENSE_LAYER + attention(FULL)
    decoder = 8 * product(N, D, D) + product(N, D, F, D) + attention(CAUSAL) + attention(FULL)
    config = transformers.WhisperConfig(
        d_model=D, encoder_layers=L, decoder_layers=L, encoder_attention_heads=H, decoder_attention_heads=H, encoder_ffn_dim=F,
        decoder_ffn_dim=F, vocab_size=V, max_source_positions=S, max_target_positions=64, num_mel_bins=8, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)
    return (lambda: transformers.WhisperForConditionalGeneration(config),
            {"input_features": torch.randn(B, 8, frames), "decoder_input_ids": IDS["input_ids"]}, convolutions + L * (encoder + decoder) + HEAD)


class Graph(torch.nn.Module):
    """A layer of a graph network: index, index_add, scatter_reduce and an embedding bag."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.out = torch.nn.EmbeddingBag(V, D), torch.nn.Linear(D, D), torch.nn.Linear(D, V)

    def forward(self, ids, edges):
        x = self.embedding(ids)
        messages = self.layer(x[edges[0]])
        x = torch.zeros_like(x).index_add(0, edges[1], messages)
        x = x.scatter_reduce(0, edges[1][:, None].expand(-1, D), messages, "amax")
        return self.out(torch.nn.functional.elu(x)).logsumexp(-1).topk(3)


def models():
    """Yields name, function that makes the model, keyword arguments, and FLOPs of its products."""
    uncut = attention(FULL) - attention(CAUSAL)  # Models whose attention is written out compute all scores
    for name in ("Llama", "Qwen2", "Qwen3", "Gemma2", "Gemma3"):
        yield name, *causal(name, **GROUPED), L * (GROUPED_LAYER + GATED + (uncut if name == "Gemma2" else 0)) + HEAD
    expert = 3 * product(2 * N, D, 24)
    yield ("Qwen3Moe", *causal("Qwen3Moe", **GROUPED, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24),
           L * (GROUPED_LAYER + product(N, D, 8) + expert) + HEAD)
    routed = GROUPED_LAYER + product(N, D, 4) + 3 * product(2 * N, D, F)
    yield "Mixtral", *causal("Mixtral", **GROUPED, num_local_experts=4, num_experts_per_tok=2), L * routed + HEAD
    yield ("DeepseekV3", *causal("DeepseekV3", **SMALL, num_key_value_heads=H, q_lora_rank=16, kv_lora_rank=8, qk_rope_head_dim=4,
                                 qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1,
                                 moe_intermediate_size=24, first_k_dense_replace=1),
           L * deepseek_layer() + GATED + product(N, D, 8) + expert + 3 * product(N, D, 24) + HEAD)
    yield "GptOss", *causal("GptOss", **GROUPED, num_local_experts=4, num_experts_per_tok=2), L * (routed + uncut) + HEAD
    yield ("GPT2", lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=D, n_layer=L, n_head=H, vocab_size=V, n_positions=64)),
           IDS, L * (4 * product(N, D, D) + product(N, D, 4 * D, D) + attention(CAUSAL)) + HEAD)
    yield ("Bert", lambda: transformers.BertModel(transformers.BertConfig(**SMALL)), IDS,
           L * (DENSE_LAYER + attention(FULL)) + product(B, D, D))
    yield "T5", *t5()
    patches = 16 + 1  # And the class token
    yield ("ViT", lambda: transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=D, intermediate_size=F, num_hidden_layers=L, num_attention_heads=H, image_size=32, patch_size=8)), images(32),
           product(B * 16, 3 * 64, D) + L * (4 * product(B * patches, D, D) + product(B * patches, D, F, D) + attention(patches ** 2))
           + product(B, D, 2))
    yield "Whisper", *whisper()
    yield ("Mamba", lambda: transformers.MambaForCausalLM(transformers.MambaConfig(hidden_size=D, num_hidden_layers=L, vocab_size=V)), IDS,
           L * mamba_layer() + HEAD)
    yield ("Mamba2", lambda: transformers.Mamba2ForCausalLM(transformers.Mamba2Config(
        hidden_size=D, num_hidden_layers=L, vocab_size=V, num_heads=8, head_dim=8, n_groups=1, state_size=16, chunk_size=8)), IDS, None)
    yield ("ResNet", lambda: transformers.ResNetForImageClassification(transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16], depths=[1], layer_type="basic")), images(32),
           2 * B * 8 * (16 * 16 * 3 * 49) + 2 * B * 16 * 64 * (8 * 9 + 16 * 9 + 8) + product(B, 16, 2))
    yield ("ConvNext", lambda: transformers.ConvNextForImageClassification(transformers.ConvNextConfig(
        hidden_sizes=[8], depths=[1], num_stages=1)), images(32),
           2 * B * 64 * 8 * (3 * 16 + 49) + product(B * 64, 8, 32, 8) + product(B, 8, 2))
    x = {"input": torch.randn(S, B, D)}
    yield "LSTM", lambda: torch.nn.LSTM(D, F, 2), x, product(N, D + F, 4 * F) + product(N, 2 * F, 4 * F)
    yield "GRU", lambda: torch.nn.GRU(D, F, 2), x, product(N, D + F, 3 * F) + product(N, 2 * F, 3 * F)
    yield ("TransformerEncoder", lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(D, H, F, batch_first=True), L),
           {"src": torch.randn(B, S, D)}, L * (DENSE_LAYER + attention(FULL)))
    yield "graph", Graph, {"ids": torch.zeros(7, 3, dtype=torch.int64), "edges": torch.zeros(2, 9, dtype=torch.int64)}, \
        product(9, D, D) + product(7, D, V)


def cast(inputs, dtype):
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


class Models(unittest.TestCase):
    def test_every_operation_is_known_and_products_are_counted_exactly(self):
        for name, make, inputs, expected in models():
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(model=name, dtype=dtype):
                    report = ridge.explain(make().to(dtype).eval(), cast(inputs, dtype), on="h200")
                    self.assertEqual(sorted({op.name for op in report.unknown}), [])
                    if expected is None:  # The model runs once, and PyTorch counts
                        with FlopCounterMode(display=False) as counter:
                            make().eval()(**inputs)
                        expected = counter.get_total_flops()
                    self.assertEqual(sum(op.flops for op in report.ops if op.on_matrix), expected)

    def test_training_steps_are_known(self):
        for name, make, inputs, _ in models():
            if name not in ("Llama", "Mixtral", "ResNet", "LSTM", "T5"):
                continue
            with self.subTest(model=name):
                report = ridge.explain(make().train(), inputs, on="h200", training=True, optimizer=torch.optim.AdamW)
                self.assertEqual(sorted({op.name for op in report.unknown}), [])

    def test_llama_on_meta_agrees_with_the_bound_of_its_program(self):
        """`ridge model llama_3_8b --context 2048 --phase prefill --on h200` computes logits of the last token only."""
        config = transformers.LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                                          num_key_value_heads=8, vocab_size=128256)
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        report = ridge.explain(model, {"input_ids": torch.zeros(1, 2048, dtype=torch.int64), "logits_to_keep": 1}, on="h200")
        self.assertAlmostEqual(report.time_fused / 30.23e-3, 1, places=2)
        self.assertEqual(report.modules[0].label, "mlp")
        self.assertEqual(report.modules[0].layers, 32)


if __name__ == "__main__":
    unittest.main()
