"""Functions as modules, for traces."""

from __future__ import annotations

import inspect

import torch
from torch import nn

import hnfc


class Plain(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


class Weighted(nn.Module):
    """A function of a parameter and inputs."""

    def __init__(self, function, *weight):
        super().__init__()
        self.function, self.w = function, nn.Parameter(torch.tensor(weight))

    def forward(self, *xs):
        return self.function(self.w, *xs)


def traced(function, *inputs, **options):
    return hnfc.trace(Plain(function), inputs, **options)


def line_of(function):
    """File and line at which a function of one line after its head is."""
    return f"{inspect.getsourcefile(function).rpartition('/')[2]}:{inspect.getsourcelines(function)[1] + 1}"
