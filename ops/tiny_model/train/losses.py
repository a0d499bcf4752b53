"""What is minimised: next-token cross-entropy, the draft's distillation and confidence, expert balance.

Not here: the indexer's loss (attention.py), which needs the attention mass.
"""
import torch
import torch.nn.functional as F


def token_loss(config, num, hidden, head, targets, weights):
    """Weighted next-token cross-entropy: (sum, hits on weighted answers). All flattened [N]."""
    scores = num.linear(hidden, head).float()
    per_token = torch.logsumexp(scores, -1) - scores.gather(-1, targets[:, None])[:, 0]
    return (per_token * weights).sum(), per_token.detach()


def draft_loss(config, num, raw, hidden, w, teacher, previous, weights):
    """Cross-entropy to the target's own distribution, and the confidence head's to the overlap of both.

    raw, hidden, teacher [M, D]; previous, weights [M]. Returns sums.
    """
    embedded = F.embedding(previous, w["markov_embed"])
    q_scores = num.linear(hidden, w["head"]).float() + num.linear(embedded, w["markov_head"]).float()
    p = torch.softmax(num.linear(teacher, w["head"]).float(), -1)
    log_q = torch.log_softmax(q_scores, -1)
    distance = -(p * log_q).sum(-1)
    overlap = torch.minimum(p, log_q.exp()).sum(-1).detach()
    logit = num.linear32(torch.cat((raw.float(), embedded.float()), -1).detach(), w["confidence"])[:, 0]
    sure = F.binary_cross_entropy_with_logits(logit, overlap.clamp(0.0, 1.0), reduction="none")
    return (distance * weights).sum(), (sure * weights).sum(), (overlap * weights).sum()


def pick_anchors(config, batch, weights, count, noise):
    """The `count` newest-committed positions whose draft is trained: random ones before answer tokens.

    weights [B, T] are loss weights of the token AT a position; returns row [count], at [count].
    """
    b, t = batch.ids.shape
    ahead = torch.zeros_like(weights)
    ahead[:, :-2] = weights[:, 2:]
    same = torch.zeros_like(batch.real)
    same[:, :-2] = (batch.seg[:, 2:] == batch.seg[:, :-2]) & batch.real[:, :-2]
    priority = noise + (ahead >= 0.5).float() + 2.0 * same.float()
    chosen = torch.topk(priority.flatten(), count, sorted=False)[1]
    return torch.div(chosen, t, rounding_mode="floor"), chosen % t


def draft_targets(config, batch, weights, row, at):
    """Per block place i: position of the previous token, and the weight of the token it predicts; both [N, block]."""
    block, t = config.dspark_block_size, batch.ids.shape[1]
    place = at[:, None] + 1 + torch.arange(block, device=at.device)
    inside = place + 1 < t
    place = place.clamp(max=t - 2)
    inside &= batch.seg[row[:, None], place + 1] == batch.seg[row, at][:, None]
    answer = (weights[row[:, None], place + 1] >= 0.5) & inside
    fade = 0.85 ** torch.arange(block, device=at.device)
    return place, answer.float() * fade


@torch.no_grad()
def balance(bias, chosen, real, rate):
    """Moves each expert's selection bias toward equal load. bias [L, E]; chosen: list of masks [.., E]."""
    keep = real.flatten().float()
    for row, mask in zip(bias, chosen):
        load = (mask.flatten(0, -2).float() * keep[:, None]).mean(0)
        row.sub_(torch.sign(load - load.mean()), alpha=rate)
        row.sub_(row.mean())
