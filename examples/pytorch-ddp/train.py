"""Handwritten digits with PyTorch's DistributedDataParallel. torchrun sets the variables that it needs."""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

HELD_OUT = 360  # images that no process trains on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True, help="learning rate")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training, held_out = load()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    train(model, training, args.epochs, args.lr)
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy(model, held_out):.3f}")
    dist.barrier()  # exiting earlier would end the interpreter while gloo's threads still use it
    dist.destroy_process_group()


def load() -> tuple[Subset[tuple[Tensor, ...]], Subset[tuple[Tensor, ...]]]:
    """Training set and held-out set, the same in every process."""
    images, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    order = torch.randperm(len(digits)).tolist()
    return Subset(digits, order[HELD_OUT:]), Subset(digits, order[:HELD_OUT])


def train(model: nn.Module, digits: Subset[tuple[Tensor, ...]], epochs: int, lr: float) -> None:
    """Each process trains on its own share; the gradients of a step are averaged over all of them."""
    share: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(digits)
    batches = DataLoader(digits, batch_size=32, sampler=share)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for epoch in range(1, epochs + 1):
        share.set_epoch(epoch)  # a different order in every epoch
        total = 0.0
        for images, labels in batches:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch:2} loss {total / len(batches):.4f}", flush=True)


@torch.no_grad()
def accuracy(model: nn.Module, digits: Subset[tuple[Tensor, ...]]) -> float:
    """The share of images whose digit is recognised, 0 to 1."""
    images, labels = next(iter(DataLoader(digits, batch_size=len(digits))))
    return float((model(images).argmax(dim=1) == labels).float().mean())


if __name__ == "__main__":
    main()
