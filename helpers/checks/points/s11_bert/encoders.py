"""Small encoders in PyTorch and as ONNX files, and text for them: token ids, masks and types at random."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from helpers.toys.bert.encoder import INPUTS, BertEncoder

Text = dict[str, np.ndarray]
DEPTH = 2
LINEAR_LAYERS = 6 * DEPTH + 1
"""Matrix products with weights: six per block, and the pooler's."""

WIDTH = 32
_WORDS, _LONGEST = 30_522, 128
"""MiniLM's vocabulary, since a student may trace with its ids; and the most tokens of a text."""
_DRAWN = 100  # ids of the checks' texts lie below
_TABLES = ("words", "positions", "types")

_BEGIN = """
<ir_version: 8, opset_import: ["" : 17]>
encoder (int32[batch, length] input_ids, int32[batch, length] attention_mask, int32[batch, length] token_type_ids)
    => (float[batch, length, 32] hidden, float[batch, 32] pooled)
<int64 first = {0}, int64 second = {1}, int64[2] middle = {1, 2}, int64[4] heads = {0, 0, 4, 8},
 int64[3] joined = {0, 0, 32}, float one = {1}, float half = {0.5}, float root = {2.8284271},
 float root_two = {1.4142135}, float masked = {-10000}>
{
  size = Shape(input_ids)
  tokens = Gather<axis = 0>(size, second)
  places = Range(first, tokens, second)
  word = Gather<axis = 0>(words_weight, input_ids)
  place = Gather<axis = 0>(positions_weight, places)
  type = Gather<axis = 0>(types_weight, token_type_ids)
  placed = Add(word, place)
  embedded = Add(placed, type)
  hidden_0 = LayerNormalization<axis = -1, epsilon = 1e-12>(embedded, norm_weight, norm_bias)
  valid = Cast<to = 1>(attention_mask)
  padding = Sub(one, valid)
  added = Mul(padding, masked)
  mask = Unsqueeze(added, middle)
"""
_BLOCK = """
  q_@ = MatMul(hidden_@, blocks_@_attention_query_weight)
  query_@ = Add(q_@, blocks_@_attention_query_bias)
  k_@ = MatMul(hidden_@, blocks_@_attention_key_weight)
  key_@ = Add(k_@, blocks_@_attention_key_bias)
  v_@ = MatMul(hidden_@, blocks_@_attention_value_weight)
  value_@ = Add(v_@, blocks_@_attention_value_bias)
  query_apart_@ = Reshape(query_@, heads)
  query_heads_@ = Transpose<perm = [0, 2, 1, 3]>(query_apart_@)
  key_apart_@ = Reshape(key_@, heads)
  key_heads_@ = Transpose<perm = [0, 2, 3, 1]>(key_apart_@)
  value_apart_@ = Reshape(value_@, heads)
  value_heads_@ = Transpose<perm = [0, 2, 1, 3]>(value_apart_@)
  products_@ = MatMul(query_heads_@, key_heads_@)
  scores_@ = Div(products_@, root)
  masked_@ = Add(scores_@, mask)
  shares_@ = Softmax<axis = -1>(masked_@)
  values_@ = MatMul(shares_@, value_heads_@)
  by_token_@ = Transpose<perm = [0, 2, 1, 3]>(values_@)
  attended_@ = Reshape(by_token_@, joined)
  m_@ = MatMul(attended_@, blocks_@_attention_mix_weight)
  mix_@ = Add(m_@, blocks_@_attention_mix_bias)
  first_sum_@ = Add(hidden_@, mix_@)
  between_@ = LayerNormalization<axis = -1, epsilon = 1e-12>(first_sum_@, blocks_@_norm_1_weight, blocks_@_norm_1_bias)
  w_@ = MatMul(between_@, blocks_@_wide_weight)
  wide_@ = Add(w_@, blocks_@_wide_bias)
  ratio_@ = Div(wide_@, root_two)
  error_@ = Erf(ratio_@)
  above_@ = Add(error_@, one)
  twice_@ = Mul(wide_@, above_@)
  gelu_@ = Mul(twice_@, half)
  n_@ = MatMul(gelu_@, blocks_@_narrow_weight)
  narrow_@ = Add(n_@, blocks_@_narrow_bias)
  second_sum_@ = Add(between_@, narrow_@)
  hidden_& = LayerNormalization<axis = -1, epsilon = 1e-12>(second_sum_@, blocks_@_norm_2_weight, blocks_@_norm_2_bias)
"""
_END = """
  hidden = Identity(hidden_@)
  start = Gather<axis = 1>(hidden_@, first)
  p = MatMul(start, pooler_weight)
  pool = Add(p, pooler_bias)
  pooled = Tanh(pool)
}
"""


def small_encoder(seed: int) -> BertEncoder:
    """Return two blocks of width 32 with weights drawn from the seed; the norms scale and shift, too.

    Products keep the size of their inputs, so that FP16's rounding shows.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = BertEncoder(words=_WORDS, positions=_LONGEST, width=WIDTH, heads=4, depth=DEPTH)
        for name, weights in encoder.named_parameters():
            if "norm" in name:
                torch.nn.init.normal_(weights, float(name.endswith("weight")), 0.1)
            elif weights.ndim == 2 and not name.startswith(_TABLES):
                torch.nn.init.normal_(weights, 0, weights.shape[1] ** -0.5)
    return encoder.eval()


def encoder_onnx(seed: int) -> bytes:
    """Return the ONNX file of `small_encoder`, written node by node, without an exporter."""
    blocks = [_BLOCK.replace("@", str(number)).replace("&", str(number + 1)) for number in range(DEPTH)]
    model = onnx.parser.parse_model("".join([_BEGIN, *blocks, _END.replace("@", str(DEPTH))]))
    for name, weights in small_encoder(seed).state_dict().items():
        values = weights.numpy() if name.startswith(_TABLES) else weights.numpy().T
        tensor = numpy_helper.from_array(np.ascontiguousarray(values), name.replace(".", "_"))
        model.graph.initializer.append(tensor)
    for node in model.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    return model.SerializeToString()


def text_of(random: np.random.Generator, batch: int, length: int) -> Text:
    """Return ids, mask and types, int32 [batch, length]; one row is full, the others may end in padding."""
    kept = random.integers(1, length + 1, (batch, 1))
    kept[random.integers(batch)] = length
    mask = (np.arange(length) < kept).astype(np.int32)
    ids, types = (random.integers(low, most, (batch, length)) * mask for low, most in ((1, _DRAWN), (0, 2)))
    return dict(zip(INPUTS, (ids.astype(np.int32), mask, types.astype(np.int32)), strict=True))
