"""Changes that make the library wrong, and the claims that must notice: each was tried, and each is caught."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """In ``file``, ``old`` becomes ``new``; these claims must turn."""

    name: str
    file: str
    old: str
    new: str
    claims: str

    @property
    def ids(self) -> tuple[str, ...]:
        """Of these claims."""
        return tuple(self.claims.split())


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "embedding by a product with one-hot rows",
        "model/forward.py",
        "embedding(tokens, weights.W_E))",
        "tokens[..., None].eq(weights.W_E.new_tensor(range(len(weights.W_E)))).to(weights.W_E) @ weights.W_E)",
        "001-N8",
    ),
    Mutation(
        "embedding of the next id",
        "model/forward.py",
        'show(tap, "embed", embedding(tokens, weights.W_E))',
        'show(tap, "embed", embedding((tokens + 1) % len(weights.W_E), weights.W_E))',
        "000-E12 000-E17 000-E3 000-E6 000-FN5 000-N17 001-E12 001-E13 001-E14 001-E2 001-E4 001-E5 001-N10 001-N2 001-N5 004-EX2",
    ),
    Mutation(
        "feed-forward layer of post-norm reads the stream before the norm",
        "model/forward.py",
        't4 = look("feed_forward", block.feed_forward(t3))',
        't4 = look("feed_forward", block.feed_forward(t2))',
        "002-E10.35 002-E10.36 002-MER2 002-N8 003-E12 003-E13 003-N9 004-E1 004-E10.35 004-EX1 004-L1.1 004-MER1 004-N4",
    ),
    Mutation(
        "feed-forward write of pre-norm left out",
        "model/forward.py",
        "return t3 + t5",
        "return t3 - t5",
        "001-E11 001-L5U 002-N3 003-FIG2 004-C3.1 004-L3.1 004-N9",
    ),
    Mutation(
        "heads joined in the wrong order",
        "model/forward.py",
        '"batch head pos d_head -> batch pos (head d_head)"',
        '"batch head pos d_head -> batch pos (d_head head)"',
        "000-E15 000-E21 000-E22 000-E8 000-E9 000-L5 000-N1 000-N14 000-N6 000-O1 000-T1 002-E10.32 002-N5 002-T2.2 003-E9 003-N5",
    ),
    Mutation(
        "last norm of post-norm blocks left out",
        "model/forward.py",
        "return block.norm_2(t5)",
        "return t5",
        "002-MER3 002-N11 003-E14 003-E8 004-N10 004-N12 004-N15",
    ),
    Mutation(
        "logits divided by the root of the width",
        "model/forward.py",
        'return show(tap, "logits", affine(last_norm(weights, x, tap), weights.W_U, weights.b_U))',
        'return show(tap, "logits", affine(last_norm(weights, x, tap) / x.shape[-1] ** 0.5, weights.W_U, weights.b_U))',
        "000-E1 000-E14 001-N1 003-T1",
    ),
    Mutation(
        "no first residual connection in post-norm blocks",
        "model/forward.py",
        't2 = look("middle", t1 + x)',
        't2 = look("middle", t1)',
        "002-E10.33 002-EX1 002-EX3 002-MER1 003-E10 003-FIG5 004-EX3",
    ),
    Mutation(
        "no residual connection in pre-norm blocks",
        "model/forward.py",
        't3 = look("middle", x + t2)',
        't3 = look("middle", t2)',
        "000-E10 000-E11 000-E2 000-E5 000-MER1 000-MER3 001-MER3 001-MER4 001-N11 001-T2 002-N13 003-N10 004-N1 004-N14 004-O1 004-T3.2",
    ),
    Mutation(
        "queries from the matrix of keys",
        "model/forward.py",
        "project(marked, weights.W_Q, weights.b_Q)",
        "project(marked, weights.W_K, weights.b_K)",
        "000-N4 001-N6 002-O1 003-E2 003-E21 003-E25 003-E29 003-FIG10 003-L4 003-MER1 003-MER3 003-T3 003-T5 003-T7 004-E10.32",
    ),
    Mutation(
        "softmax over destinations",
        "model/forward.py",
        "scores(q, k, rule)).softmax(dim=-1)), v)",
        "scores(q, k, rule)).softmax(dim=-2)), v)",
        "000-C2 000-E18 000-E19 000-IN2 000-MER4 000-N3 003-E31 003-E34 003-E5 003-FIG3 003-MER2 003-N4 003-T8 004-MER2 004-N7 004-T3.1",
    ),
    Mutation(
        "exponentials without subtraction",
        "model/attention.py",
        "return mix(scores(q, k, rule).softmax(dim=-1), v)",
        "raised = scores(q, k, rule).exp()\n    return mix(raised / raised.sum(dim=-1, keepdim=True), v)",
        "003-E4 003-PC1",
    ),
    Mutation(
        "fused attention drops weights out",
        "model/attention.py",
        "return scaled_dot_product_attention(q, k, v, scale=rule.scale)",
        "return scaled_dot_product_attention(q, k, v, dropout_p=0.5, scale=rule.scale)",
        "003-C1 003-E18 003-E19 003-E20 003-E28 003-E7 003-L1",
    ),
    Mutation(
        "pattern transposed when values are mixed",
        "model/attention.py",
        '"batch head dest source, batch head source d_head -> batch head dest d_head")',
        '"batch head source dest, batch head source d_head -> batch head dest d_head")',
        "000-E13 000-E7 000-L3 000-N10 000-N11 003-E35 003-N12 003-N2",
    ),
    Mutation(
        "scores calculated twice",
        "model/attention.py",
        "return mix(scores(q, k, rule).softmax(dim=-1), v)",
        "return mix((scores(q, k, rule) / 2 + scores(q, k, rule) / 2).softmax(dim=-1), v)",
        "003-L3 003-LC1 003-QT1",
    ),
    Mutation(
        "scores with their sign flipped",
        "model/attention.py",
        '-> batch head dest source") * rule.scale\n    source = k.shape[2]',
        '-> batch head dest source") * -rule.scale\n    source = k.shape[2]',
        "003-E15 003-E17 003-L2 003-N11 003-N13",
    ),
    Mutation(
        "scores without their scale",
        "model/attention.py",
        '-> batch head dest source") * rule.scale\n    source = k.shape[2]',
        '-> batch head dest source")\n    source = k.shape[2]',
        "000-E16 000-MER2 000-N13 000-N16 000-N5 003-E1 003-E16 003-E22 003-E23 003-E24 003-E3 003-E30 003-E32 003-E6 003-FIG6 003-FIG9",
    ),
    Mutation(
        "LayerNorm without its mean when watched",
        "model/components.py",
        "(wide - wide.mean(dim=-1, keepdim=True) if isinstance(norm, LayerNorm) else wide) * scale",
        "wide * scale",
        "001-L5 002-E10.34 002-E10.37 002-EX2 002-N10 002-T1 003-E11 004-EX4",
    ),
    Mutation(
        "sinusoids where there should be no positions",
        "model/positions.py",
        "        case _:\n            return Placed()",
        "        case _:\n            return Placed(in_stream=sinusoids(config.d_model, 1e4, start, length).to(weights.W_E))",
        "000-L4 000-N15 000-N7 001-PC1",
    ),
    Mutation(
        "heads of the original model half as wide",
        "model/presets.py",
        "attention=Attention(heads=8, d_head=64, input_bias=True, output_bias=True)",
        "attention=Attention(heads=8, d_head=32, input_bias=True, output_bias=True)",
        "003-FN14",
    ),
    Mutation(
        "letters of the documents for other sites",
        "model/taps.py",
        '"t1": "attention", "t2": "middle", "t3": "feed_forward_input", "t4": "feed_forward", "t5": "sum", "h": "out",',
        '"t1": "mixed", "t2": "middle", "t3": "feed_forward_input", "t4": "neurons", "t5": "sum", "h": "hidden",',
        "002-N12 002-N2 002-T2.1 003-N1 004-P1",
    ),
    Mutation(
        "left singular vectors in another order",
        "circuits/algebra.py",
        "return u, s, v.T",
        "return u.flip(1), s, v.T",
        "000-N9 001-E3",
    ),
    Mutation(
        "right singular vectors in another order",
        "circuits/algebra.py",
        "return u, s, v.T",
        "return u, s, v.T.flip(1)",
        "001-E10 001-L2 001-L4 001-N9 001-T1",
    ),
    Mutation(
        "bound of adjustments without the width of the stream",
        "circuits/capacity.py",
        "most = min(d_model, len(chosen) * config.d_head)",
        "most = len(chosen) * config.d_head",
        "000-L2",
    ),
    Mutation(
        "rows centred not at all",
        "circuits/factored.py",
        'return self._with(self.left, _centred(self.right, dim=1), ", rows centred")',
        'return self._with(self.left, self.right, ", rows centred")',
        "001-QT1",
    ),
    Mutation(
        "eigenvalues of cores with the sign flipped",
        "circuits/families.py",
        "return algebra.eigenvalues(_each(self.right.double(), self._round) @ self.left.double())",
        "return algebra.eigenvalues(-_each(self.right.double(), self._round) @ self.left.double())",
        "000-FN6 000-IN1",
    ),
    Mutation(
        "paths that begin one token late",
        "circuits/paths.py",
        "x = entering[tokens]",
        "x = entering[tokens.roll(1, dims=1)]",
        "000-L1 000-N12 000-N19 000-N20",
    ),
    Mutation(
        "OV circuit through the head before",
        "circuits/tables.py",
        'place, W_O = f"L{head.layer}.attention", attention.W_O[head.head]',
        'place, W_O = f"L{head.layer}.attention", attention.W_O[head.head - 1]',
        "000-C1 000-D1 000-E4 000-EX1 000-FIG1 000-PC1",
    ),
    Mutation(
        "direct table with its sign flipped",
        "circuits/tables.py",
        "left, right, side = rows.vectors, rows.passage.pull(weights.W_U), rows.side",
        "left, right, side = -rows.vectors, rows.passage.pull(weights.W_U), rows.side",
        "000-E23 000-MER5 001-E1 001-N3",
    ),
    Mutation(
        "conditional entropy with its sign flipped",
        "train/evaluate.py",
        "return entropy(pairs) - entropy(np.bincount(first))",
        "return entropy(np.bincount(first)) - entropy(pairs)",
        "002-N15",
    ),
    Mutation(
        "gain of gradients upside down",
        "train/studies/gradient_depth.py",
        "along - along[-1], of_weights",
        "along[-1] - along, of_weights",
        "003-N7",
    ),
    Mutation(
        "pairs by joint probability",
        "train/studies/pairs.py",
        "return self.count.double().log() - self.seen[self.first].log()",
        "return self.count.double().log() - torch.tensor(self.total).double().log()",
        "001-C2 001-MER2",
    ),
    Mutation(
        "length of tables without its root",
        "train/studies/rank.py",
        "return float(table.square().sum().sqrt())",
        "return float(table.square().sum())",
        "001-E9",
    ),
    Mutation(
        "answers that are the least likely",
        "train/studies/recall.py",
        "right = (nats.argmin(dim=1) == answers).double()",
        "right = (nats.argmax(dim=1) == answers).double()",
        "000-N8 001-N4",
    ),
    Mutation(
        "derivative of the softmax without the product",
        "train/studies/softmax_scaling.py",
        "J = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]",
        "J = torch.diag_embed(p)",
        "003-C4 003-FIG12 003-QT2",
    ),
    Mutation(
        "loss of pairs with the softmax over first tokens",
        "train/studies/zero_layer.py",
        "(self.W_E @ self.W_U).log_softmax(dim=-1)",
        "(self.W_E @ self.W_U).log_softmax(dim=0)",
        "000-E20 001-C1 001-E6 001-E7 001-L3 001-QT2",
    ),
    Mutation(
        "second derivatives with their sign flipped",
        "claims/one_layer/optimum.py",
        "return cast(Tensor, functional.hessian(loss, at))",
        "return -cast(Tensor, functional.hessian(loss, at))",
        "000-PC2",
    ),
    Mutation(
        "products of random vectors by their mean",
        "claims/self_attention/samples.py",
        "found[kind][d_k] = (query * key).sum(dim=1)",
        "found[kind][d_k] = (query * key).mean(dim=1)",
        "003-C3 003-E26 003-E33 003-L6 003-N18 003-T6",
    ),
)
