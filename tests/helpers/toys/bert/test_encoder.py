"""The encoder against PyTorch's own layers."""

import torch
from torch import nn

from helpers.checks.points.s11_bert.encoders import small_encoder
from helpers.toys.bert.encoder import BertEncoder


def _pytorchs(block: nn.Module, width: int = 32) -> nn.TransformerEncoderLayer:
    """Return PyTorch's encoder layer with a block's weights."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", 1e-12, batch_first=True).eval()
    parts = [block.attention.query, block.attention.key, block.attention.value]
    own = layer.state_dict()
    own["self_attn.in_proj_weight"] = torch.cat([part.weight for part in parts])
    own["self_attn.in_proj_bias"] = torch.cat([part.bias for part in parts])
    names = {"self_attn.out_proj": block.attention.mix, "linear1": block.wide, "linear2": block.narrow}
    names |= {"norm1": block.norm_1, "norm2": block.norm_2}
    own |= {f"{name}.{end}": getattr(part, end) for name, part in names.items() for end in ("weight", "bias")}
    layer.load_state_dict(own)
    return layer


def _text() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    mask = (torch.arange(11) < torch.tensor([[11], [4], [1]])).int()
    return torch.randint(1, 100, (3, 11), dtype=torch.int32) * mask, mask, torch.randint(0, 2, (3, 11)).int()


def test_the_blocks_are_pytorchs_encoder_layers() -> None:
    encoder, (ids, mask, types) = small_encoder(3), _text()
    with torch.no_grad():
        hidden = encoder.norm(encoder.words(ids) + encoder.positions.weight[:11] + encoder.types(types))
        for block in encoder.blocks:
            hidden = _pytorchs(block)(hidden, src_key_padding_mask=mask == 0)
        found, pooled = encoder(ids, mask, types)
    kept = mask.bool()
    torch.testing.assert_close(found[kept], hidden[kept], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(pooled, torch.tanh(encoder.pooler(hidden[:, 0])), rtol=1e-4, atol=1e-5)


def test_fused_attention_gives_the_same() -> None:
    encoder = small_encoder(3)
    fused = BertEncoder(len(encoder.words.weight), positions=128, width=32, fused=True).eval()
    fused.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        found, wanted = fused(*_text())[0], encoder(*_text())[0]
    kept = _text()[1].bool()
    torch.testing.assert_close(found[kept], wanted[kept], rtol=1e-4, atol=1e-5)
