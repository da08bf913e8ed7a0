"""With LayerNorm the stacks are torch's own; step by step they give what they give all at once."""

import pytest
import torch
from torch import nn

from rmsrepro.layers.packing import Packing
from rmsrepro.layers.positions import SinusoidalPositions, sinusoids
from rmsrepro.layers.transformer import Decoder, Encoder, TransformerShape
from rmsrepro.norms.factory import NormFactory, norm_config

SHAPES = {pre: TransformerShape(dim=8, ffn=12, heads=2, layers=2, pre_norm=pre) for pre in (False, True)}
LENGTHS = torch.tensor([5, 3, 4])


def factory(name="layernorm"):
    return NormFactory(norm_config(name, eps=1e-5))


def torch_stack(kind, ours, shape):
    """Build torch's stack with the parameters of ours."""
    layer_type, stack_type, branches = kind
    layer = layer_type(shape.dim, shape.heads, shape.ffn, 0.0, batch_first=True, norm_first=shape.pre_norm)
    options = {"enable_nested_tensor": False} if stack_type is nn.TransformerEncoder else {}
    stack = stack_type(layer, shape.layers, norm=nn.LayerNorm(shape.dim) if shape.pre_norm else None, **options)
    norms = list(ours.stream.norms)
    for i, (mine, theirs) in enumerate(zip(ours.layers, stack.layers, strict=True)):
        theirs.self_attn.in_proj_weight.data = mine.attention.query_key_value.weight.data
        theirs.self_attn.in_proj_bias.data = mine.attention.query_key_value.bias.data
        theirs.self_attn.out_proj.load_state_dict(mine.attention.out.state_dict())
        if branches == 3:
            cross, other = mine.cross_attention, theirs.multihead_attn
            for name in ("weight", "bias"):
                both = [getattr(cross.query, name), getattr(cross.key_value, name)]
                getattr(other, f"in_proj_{name}").data = torch.cat(both).data
            other.out_proj.load_state_dict(cross.out.state_dict())
        theirs.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
        for j in range(branches):
            getattr(theirs, f"norm{j + 1}").load_state_dict(norms[branches * i + j].state_dict())
    if shape.pre_norm:
        stack.norm.load_state_dict(norms[-1].state_dict())
    return stack


def randomised(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


@pytest.mark.parametrize("pre", [False, True], ids=["post", "pre"])
def test_the_encoder_is_torchs(pre):
    encoder = randomised(Encoder(factory(), SHAPES[pre]))
    theirs = torch_stack((nn.TransformerEncoderLayer, nn.TransformerEncoder, 2), encoder, SHAPES[pre])
    packing = Packing.of(LENGTHS, 5)
    x = torch.randn(3, 5, 8)
    expected = theirs(x, src_key_padding_mask=~packing.mask)
    torch.testing.assert_close(encoder(packing.rows(x), packing), packing.rows(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pre", [False, True], ids=["post", "pre"])
def test_the_decoder_is_torchs(pre):
    decoder = randomised(Decoder(factory(), SHAPES[pre]))
    theirs = torch_stack((nn.TransformerDecoderLayer, nn.TransformerDecoder, 3), decoder, SHAPES[pre])
    source, target = Packing.of(LENGTHS, 5), Packing.of(torch.tensor([2, 4, 1]), 4)
    y, x = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    expected = theirs(x, y, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~source.mask)
    memory = decoder.memory(source.rows(y))
    ours = decoder(target.rows(x), target, memory, source)
    torch.testing.assert_close(ours, target.rows(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pre", [False, True], ids=["post", "pre"])
def test_one_position_at_a_time_the_decoder_gives_the_same(pre):
    decoder = randomised(Decoder(factory("rmsnorm"), SHAPES[pre]))
    source, target = Packing.of(LENGTHS, 5), Packing.of(torch.tensor([4, 4, 4]), 4)
    y, x = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    memory = decoder.memory(source.rows(y))
    at_once = decoder(target.rows(x), target, memory, source).view(3, 4, 8)
    past = decoder.no_past(3, y.device)
    for step in range(4):
        now, past = decoder.step(x[:, step], past, [source.padded(m) for m in memory], LENGTHS)
        torch.testing.assert_close(now, at_once[:, step], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rmsnorm", "batchnorm"])
def test_padding_changes_nothing(name):
    encoder = randomised(Encoder(factory(name), SHAPES[False]))
    x = torch.randn(3, 5, 8)
    results = []
    for padded in (x, torch.cat([x, torch.full((3, 4, 8), torch.nan)], 1)):
        packing = Packing.of(LENGTHS, padded.shape[1])
        results.append(encoder(packing.rows(padded), packing))
    torch.testing.assert_close(*results)


def test_positions_have_no_end():
    positions = SinusoidalPositions(6)
    whole = positions(6000, torch.zeros(1))
    assert whole.shape == (6000, 6)
    torch.testing.assert_close(whole[5999], sinusoids(torch.tensor([5999]), 6)[0])
    assert torch.equal(positions(3, torch.zeros(1)), whole[:3])
