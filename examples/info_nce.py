"""A contrastive loss at the temperature 0.01: exp(cosine / 0.01) has no room in float32."""

import torch
from before_and_after import Example, show


class InfoNCE(torch.nn.Module):
    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        queries = queries / queries.norm(dim=-1, keepdim=True)
        keys = keys / keys.norm(dim=-1, keepdim=True)
        likeness = torch.exp(queries @ keys.T / 0.01)
        return -torch.log(likeness.diagonal() / likeness.sum(-1)).mean()


def textbook(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    normalize = torch.nn.functional.normalize
    return torch.nn.functional.cross_entropy(normalize(queries) @ normalize(keys).T / 0.01, torch.arange(len(queries)))


torch.manual_seed(0)
KEYS = torch.randn(8, 32)
EXAMPLE = Example("InfoNCE at a temperature of 0.01", InfoNCE(), (KEYS + 0.3 * torch.randn(8, 32), KEYS), textbook)

if __name__ == "__main__":
    show(EXAMPLE)
