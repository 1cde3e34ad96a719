"""A guided filter: variances in windows as E[x²] - E[x]², which on a bright and flat image is noise, and may be negative."""

import torch
from before_and_after import Example, show


def mean(image: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(image, 5, stride=1, padding=2, count_include_pad=False)


class GuidedFilter(torch.nn.Module):
    """An image smoothed along the edges of another one."""

    def forward(self, guide: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        variance = mean(guide * guide) - mean(guide) ** 2
        covariance = mean(guide * image) - mean(guide) * mean(image)
        slope = covariance / (variance + 1e-4)
        return mean(slope) * guide + mean(mean(image) - slope * mean(guide))


torch.manual_seed(0)
GUIDE = 200 + 0.02 * torch.randn(1, 1, 12, 12)
EXAMPLE = Example("guided filter on a flat image", GuidedFilter(), (GUIDE, 100 + torch.randn(1, 1, 12, 12)), GuidedFilter())

if __name__ == "__main__":
    show(EXAMPLE)
