"""Networks for images: ResNet-18 and a small CNN.

ResNet-18: He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition", CVPR 2016: four stages of two blocks,

    x + norm(conv3(relu(norm(conv3(x)))))          halving the size and doubling the channels between stages

with GroupNorm in place of BatchNorm where records must not mix (Wu & He, "Group Normalization", ECCV 2018), and for
32 × 32 images a first layer of 3 × 3 without pooling ("cifar") in place of 7 × 7 with ("imagenet").
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import group_norm

Norm = Literal["group", "batch"]


class GroupNorm(nn.GroupNorm):
    """Torch's, in the precision of its input: its means are taken in float32 anyhow, and autocast would copy twice."""

    def forward(self, x: Any) -> Any:
        with torch.autocast(x.device.type, enabled=False):
            return group_norm(x, self.num_groups, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


def _norm(kind: Norm, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if kind == "batch" else GroupNorm(min(32, channels // 2), channels)


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            _norm(norm, outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            _norm(norm, outside),
        )
        same = stride == 1 and inside == outside
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), _norm(norm, outside))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(self.path(x) + self.skip(x))


def resnet18(
    classes: int = 10, channels: int = 3, norm: Norm = "group", stem: Literal["cifar", "imagenet"] = "cifar"
) -> nn.Sequential:
    """ResNet-18; 11.2 million parameters."""
    if stem == "cifar":
        first = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), _norm(norm, 64), nn.ReLU(inplace=True)]
    else:
        first = [nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), _norm(norm, 64), nn.ReLU(inplace=True)]
        first.append(nn.MaxPool2d(3, 2, padding=1))
    blocks = []
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(inside, outside, stride, norm), Block(outside, outside, 1, norm)]
        inside = outside
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def small_cnn(classes: int = 10, channels: int = 1, size: int = 28, width: int = 16) -> nn.Sequential:
    """Two convolutions and a linear head: a network whose noise stays small, for training under a real budget."""
    side = size // 4
    return nn.Sequential(
        nn.Conv2d(channels, width, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * side * side, classes),
    )
