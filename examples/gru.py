"""Gates of a recurrent cell written with exp: an input of 90 makes inf / inf."""

import torch
from before_and_after import Example, show


class Cell(torch.nn.Module):
    """A gated recurrent unit over a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs, self.state = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, 3 * width)

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(xs[0])
        for x in xs:
            reset, update, new = self.inputs(x).chunk(3, -1)
            reset_h, update_h, new_h = self.state(h).chunk(3, -1)
            reset, update = (torch.exp(a) / (1 + torch.exp(a)) for a in (reset + reset_h, update + update_h))
            h = (1 - update) * torch.tanh(new + reset * new_h) + update * h
        return h


def textbook(cell: Cell, xs: torch.Tensor) -> torch.Tensor:
    rnn = torch.nn.GRU(xs.shape[-1], xs.shape[-1]).double()
    for kind in ("weight", "bias"):
        for name, layer in (("ih", cell.inputs), ("hh", cell.state)):
            getattr(rnn, f"{kind}_{name}_l0").data = getattr(layer, kind).detach().double()
    return rnn(xs)[1][0]


torch.manual_seed(0)
CELL = Cell(8)
EXAMPLE = Example("gates of a GRU", CELL, (200 * torch.randn(3, 4, 8),), lambda xs: textbook(CELL, xs))

if __name__ == "__main__":
    show(EXAMPLE)
