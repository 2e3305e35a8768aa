"""Lists models like those of torch.compile's dashboard: published sizes, random weights, batches like the dashboard's.

The libraries (timm, transformers, torchvision) are imported when a model is built. Dropout has probability 0, so that
a compiled training step can be compared with eager's.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.models import dashboard_networks as networks
from cuesta.tools.models.case import Built, token_batch
from cuesta.tools.models.transformer import logits_loss, transformers_model

_CLASSES = 1000


@dataclass(frozen=True)
class DashboardModel:
    """A model of a family, which names the library that it is from. `build` raises ImportError if that is missing."""

    family: str
    name: str
    build: Callable[[], Built]


# What the names of such probabilities contain: of elements, of whole layers, of a residual branch (stochastic depth).
_DROPPED = ("dropout", "pdrop", "layerdrop", "drop_prob", "drop_path")


def without_dropout(module: nn.Module) -> nn.Module:
    """Sets every probability of dropout and of stochastic depth in a module and in its configurations to 0."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        for holder in (part, getattr(part, "config", None)):
            settings = {} if holder is None else vars(holder)
            for name, value in settings.items():
                if isinstance(value, float) and any(word in name for word in _DROPPED):
                    setattr(holder, name, 0.0)
    return module


def _class_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross entropy; of a model with several heads the sum over them."""
    heads = outputs if isinstance(outputs, tuple) else (outputs,)
    return torch.stack([F.cross_entropy(head.float(), targets) for head in heads]).sum()


def _first_output_loss(outputs: Any, _targets: Tensor) -> Tensor:
    """The mean square of a model's first output, for models without targets of their own."""
    several = outputs.values() if isinstance(outputs, Mapping) else outputs
    first = outputs if isinstance(outputs, Tensor) else next(iter(several))
    return first.float().square().mean()


# -- timm and torchvision ---------------------------------------------------------------------
def _classifier(make: str, settings: Mapping[str, Any], network: str, batch: int, pixels: int) -> Built:
    module = pkgutil.resolve_name(make)(network, num_classes=_CLASSES, **settings)
    # timm's and torchvision's models name their only argument x, with few exceptions.
    inputs = {_first_argument(module): torch.randn(batch, 3, pixels, pixels)}
    return Built(without_dropout(module), inputs, torch.randint(_CLASSES, (batch,)), _class_loss)


def _first_argument(module: nn.Module) -> str:
    return type(module).forward.__code__.co_varnames[1]


def _timm(network: str, batch: int, pixels: int = 224) -> DashboardModel:
    build = partial(_classifier, "timm:create_model", {"pretrained": False}, network, batch, pixels)
    return DashboardModel("timm", network, build)


def _torchvision(network: str, batch: int, pixels: int = 224, **settings: Any) -> DashboardModel:
    settings = {"weights": None, **settings}
    build = partial(_classifier, "torchvision.models:get_model", settings, network, batch, pixels)
    return DashboardModel("torchvision", network, build)


TIMM = (
    _timm("beit_base_patch16_224", 64),
    _timm("botnet26t_256", 64, 256),
    _timm("cait_s24_224", 32),
    _timm("coat_lite_mini", 64),
    _timm("convmixer_768_32", 16),
    _timm("convnext_tiny", 64),
    _timm("convnextv2_nano", 64),
    _timm("crossvit_9_240", 64, 240),
    _timm("cspdarknet53", 64),
    _timm("deit_base_distilled_patch16_224", 64),
    _timm("densenet121", 64),
    _timm("dla102", 64),
    _timm("dm_nfnet_f0", 64),
    _timm("dpn92", 32),
    _timm("eca_botnext26ts_256", 64, 256),
    _timm("efficientnet_b0", 64),
    _timm("ese_vovnet19b_dw", 64),
    _timm("fbnetc_100", 64),
    _timm("gernet_l", 64),
    _timm("ghostnet_100", 128),
    _timm("gmlp_s16_224", 64),
    _timm("hrnet_w18", 32),
    _timm("inception_v3", 64, 299),
    _timm("lcnet_050", 256),
    _timm("levit_128", 128),
    _timm("mixer_b16_224", 64),
    _timm("mnasnet_100", 64),
    _timm("mobilenetv2_100", 64),
    _timm("mobilenetv3_large_100", 128),
    _timm("mobilevit_s", 32, 256),
    _timm("nfnet_l0", 64),
    _timm("pit_b_224", 32),
    _timm("poolformer_m36", 32),
    _timm("regnety_032", 64),
    _timm("repvgg_a2", 64),
    _timm("res2net50_14w_8s", 32),
    _timm("resmlp_12_224", 64),
    _timm("resnest50d", 32),
    _timm("rexnet_100", 64),
    _timm("swin_base_patch4_window7_224", 32),
    _timm("tf_efficientnetv2_s", 32),
    _timm("tnt_s_patch16_224", 32),
    _timm("twins_pcpvt_base", 32),
    _timm("visformer_small", 64),
    _timm("vit_base_patch16_224", 64),
    _timm("vit_base_patch16_siglip_256", 32, 256),
    _timm("volo_d1_224", 32),
    _timm("xcit_small_12_p8_224", 8),
)

TORCHVISION = (
    _torchvision("alexnet", 256),
    _torchvision("densenet121", 32),
    _torchvision("googlenet", 64, aux_logits=False, init_weights=False),
    _torchvision("mnasnet1_0", 64),
    _torchvision("mobilenet_v2", 64),
    _torchvision("mobilenet_v3_large", 64),
    _torchvision("resnet18", 64),
    _torchvision("resnet50", 32),
    _torchvision("resnext50_32x4d", 32),
    _torchvision("shufflenet_v2_x1_0", 128),
    _torchvision("squeezenet1_1", 64),
    _torchvision("vgg16", 32),
    _torchvision("vit_b_16", 32),
)


# -- transformers -----------------------------------------------------------------------------
def _build_transformer(
    model: str, inputs: Callable[[Any], dict[str, Tensor]], targets: Any, settings: Mapping[str, Any]
) -> Built:
    module = without_dropout(transformers_model(model, **settings))
    chosen = inputs(module.config)
    if targets is None:
        return Built(module, chosen, torch.zeros(()), _first_output_loss)
    return Built(module, chosen, targets(module.config), logits_loss)


def _text(model: str, batch: int, length: int, *, name: str = "", **settings: Any) -> DashboardModel:
    """A language model with a head over its vocabulary, on random tokens."""

    def tokens(config: Any) -> Tensor:
        return token_batch(batch, length, config.vocab_size)

    def inputs(config: Any) -> dict[str, Tensor]:
        return {"input_ids": tokens(config)}

    return DashboardModel("transformers", name or model, partial(_build_transformer, model, inputs, tokens, settings))


def _translation(model: str, batch: int, length: int, **settings: Any) -> DashboardModel:
    """An encoder and a decoder with a head over the vocabulary, on random tokens for both."""

    def tokens(config: Any) -> Tensor:
        return token_batch(batch, length, config.vocab_size)

    def inputs(config: Any) -> dict[str, Tensor]:
        return {"input_ids": tokens(config), "decoder_input_ids": tokens(config)}

    build = partial(_build_transformer, model, inputs, tokens, {"use_cache": False, **settings})
    return DashboardModel("transformers", model, build)


def _other(model: str, inputs: Callable[[Any], dict[str, Tensor]], targets: Any = None, **settings: Any) -> Any:
    return DashboardModel("transformers", model, partial(_build_transformer, model, inputs, targets, settings))


_DECODER: dict[str, Any] = {"use_cache": False}
_AS_DECODER: dict[str, Any] = {"is_decoder": True, "use_cache": False}

TRANSFORMERS = (
    _text("AlbertForMaskedLM", 8, 512, hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    _text("BartForCausalLM", 4, 512, **_DECODER),
    _text("BertForMaskedLM", 16, 512),
    _text("BlenderbotSmallForCausalLM", 64, 128, **_DECODER),
    _text("CamembertForMaskedLM", 16, 512, vocab_size=32005, max_position_embeddings=514, type_vocab_size=1),
    _text("ConvBertForMaskedLM", 16, 512),
    _text(
        "DebertaV2ForMaskedLM", 8, 512,
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256, norm_rel_ebd="layer_norm",
        share_att_key=True, position_biased_input=False, type_vocab_size=0,
    ),
    _text("DistilBertForMaskedLM", 16, 512),
    _text("GPT2LMHeadModel", 8, 1024, name="DistilGPT2", n_layer=6, **_DECODER),
    _text("ElectraForCausalLM", 32, 512, **_AS_DECODER),
    _text(
        "GPTNeoXForCausalLM", 8, 512,
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, vocab_size=50304,
        **_DECODER,
    ),
    _text("LayoutLMForMaskedLM", 16, 512),
    _text(
        "LlamaForCausalLM", 8, 512, name="SmolLM_135M",
        hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536,
        vocab_size=49152, tie_word_embeddings=True, **_DECODER,
    ),
    _text("LongformerForMaskedLM", 4, 1024, max_position_embeddings=4098),
    _translation("M2M100ForConditionalGeneration", 8, 128),
    _text("MBartForCausalLM", 4, 512, **_DECODER),
    _text("MegatronBertForCausalLM", 4, 512, **_AS_DECODER),
    _text("MobileBertForMaskedLM", 32, 128),
    _text("ModernBertForMaskedLM", 8, 512),
    _translation("MT5ForConditionalGeneration", 16, 128),
    _text("OPTForCausalLM", 4, 1024, **_DECODER),
    _text("PegasusForCausalLM", 8, 512, **_DECODER),
    _text("PLBartForCausalLM", 8, 512, **_DECODER),
    _text(
        "Qwen2ForCausalLM", 4, 512, name="Qwen2_0.5B",
        hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864,
        tie_word_embeddings=True, **_DECODER,
    ),
    _text("RobertaForCausalLM", 16, 512, max_position_embeddings=514, type_vocab_size=1, **_AS_DECODER),
    _translation("T5ForConditionalGeneration", 16, 512),
    _text("TrOCRForCausalLM", 8, 256, **_DECODER),
    _text("XGLMForCausalLM", 4, 512, **_DECODER),
    _text("XLNetLMHeadModel", 8, 512, d_model=768, n_layer=12, n_head=12, d_inner=3072, use_mems_eval=False),
    _other(
        "CLIPModel", lambda _: {"input_ids": token_batch(32, 77, 49408), "pixel_values": torch.randn(32, 3, 224, 224)}
    ),
    _other(
        "GPT2ForSequenceClassification",
        lambda _: {"input_ids": token_batch(4, 1024, 50257)},
        lambda _: torch.randint(2, (4,)),
        pad_token_id=0, **_DECODER,
    ),
    _other("SegformerForSemanticSegmentation", lambda _: {"pixel_values": torch.randn(8, 3, 512, 512)}, num_labels=150),
    _other("Wav2Vec2ForCTC", lambda _: {"input_values": torch.randn(8, 80000)}, apply_spec_augment=False),
    _other(
        "WhisperForConditionalGeneration",
        lambda config: {
            "input_features": torch.randn(8, config.num_mel_bins, 3000),
            "decoder_input_ids": token_batch(8, 128, config.vocab_size),
        },
        lambda config: token_batch(8, 128, config.vocab_size),
        d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, use_cache=False,
    ),
)  # fmt: skip


# -- others -----------------------------------------------------------------------------------
def _network(name: str, make: Callable[[], nn.Module], inputs: Callable[[], dict[str, Tensor]]) -> DashboardModel:
    return DashboardModel("others", name, lambda: Built(make(), inputs(), torch.zeros(()), _first_output_loss))


def _graph() -> dict[str, Tensor]:
    return {"x": torch.randn(10_000, 64), "edges": torch.randint(10_000, (2, 200_000))}


def _of_geometric(name: str) -> DashboardModel:
    def build() -> Built:
        module = pkgutil.resolve_name(f"torch_geometric.nn.models:{name}")(64, 64, 3, out_channels=64)
        graph = _graph()
        inputs = {"x": graph["x"], "edge_index": graph["edges"]}
        return Built(module, inputs, torch.zeros(()), _first_output_loss)

    return DashboardModel("others", f"basic_gnn_{name.lower()}", build)


OTHERS = (
    _of_geometric("GCN"),
    _of_geometric("GIN"),
    _of_geometric("GraphSAGE"),
    _network("dcgan", networks.Generator, lambda: {"noise": torch.randn(256, 100, 1, 1)}),
    _network(
        "ddpm_unet", networks.DiffusionUNet, lambda: {"image": torch.randn(64, 3, 32, 32), "step": torch.rand(64)}
    ),
    _network(
        "dlrm", networks.DLRM,
        lambda: {"numbers": torch.randn(2048, 13), "ids": torch.randint(10_000, (26, 2048))},
    ),
    _network("edsr_baseline", networks.SuperResolution, lambda: {"image": torch.randn(16, 3, 96, 96)}),
    _network("graph_sage", networks.GraphSage, _graph),
    _network("nerf", networks.RadianceField, lambda: {"points": torch.randn(65536, 3)}),
    _network("pointnet", networks.PointNet, lambda: {"points": torch.randn(32, 3, 1024)}),
)  # fmt: skip

DASHBOARD = (*TIMM, *TRANSFORMERS, *TORCHVISION, *OTHERS)
