"""nanoGPT's model and loop in our own words: one block without its feed-forward layer, everything else as nanoGPT has it."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwater.model.weights import Weights
from headwater.train.plan import Plan


class Attention(nn.Module):
    """All heads at once, without biases."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=False)
        self.c_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """What all heads write."""
        batch, pos, d_model = x.shape
        q, k, v = (
            part.view(batch, pos, self.heads, d_model // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(d_model, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, pos, d_model))


class NanoGPT(nn.Module):
    """Learned positions, pre-norm without biases, tied unembedding, all logits."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        config = weights.config
        self.wte = nn.Embedding(config.vocab, config.d_model)
        self.wpe = nn.Embedding(config.context, config.d_model)
        self.ln_1 = nn.LayerNorm(config.d_model, bias=False)
        self.attn = Attention(config.d_model, config.heads)
        self.ln_f = nn.LayerNorm(config.d_model, bias=False)
        self.lm_head = nn.Linear(config.d_model, config.vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self._fill(weights)

    @torch.no_grad()
    def _fill(self, weights: Weights) -> None:
        attention = weights.blocks[0].attention
        self.wte.weight.copy_(weights.W_E)
        assert weights.W_pos is not None
        self.wpe.weight.copy_(weights.W_pos)
        wide = [W.transpose(0, 1).flatten(1).T for W in (attention.W_Q, attention.W_K, attention.W_V)]
        self.attn.c_attn.weight.copy_(torch.cat(wide))
        self.attn.c_proj.weight.copy_(attention.W_O.flatten(0, 1).T)

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """All logits, and their mean loss."""
        positions = torch.arange(ids.shape[1])
        x = self.wte(ids) + self.wpe(positions)
        x = x + self.attn(self.ln_1(x))
        logits = self.lm_head(self.ln_f(x))
        return logits, functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class Loop:
    """nanoGPT's training loop: AdamW, fused on CUDA only, decay on matrices only, clipping, gradients set to none."""

    def __init__(self, weights: Weights, plan: Plan, *, compiled: bool) -> None:
        self.plan = plan
        model = NanoGPT(weights)
        self.parameters = list(model.parameters())
        groups = [
            {"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": plan.weight_decay},
            {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(plan.beta_1, plan.beta_2))
        self.model = torch.compile(model) if compiled else model

    def update(self, step: int, windows: Tensor) -> float:
        """One step of the optimiser."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate(step)
        # The logits stay until the next update, as they do there.
        self.logits, loss = self.model(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.plan.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()
