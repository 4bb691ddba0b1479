"""``World``: the processes that train one model together, or the one that trains it alone.

Under ``torchrun`` every process runs the same program. Each takes its share of every batch; gradients are averaged, so that the
updates are those of the whole batch whatever the number of processes.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, distributed, nn

from headwater.errors import InputError

Sharing: TypeAlias = Literal["copies", "shards"]
"""``copies``: each process holds the whole model (DDP). ``shards``: each holds a part of every tensor (FSDP2)."""


@dataclass(frozen=True)
class World:
    """Which process this is, of how many, and how they share the model."""

    rank: int = 0
    size: int = 1
    sharing: Sharing = "copies"

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrap(self, module: nn.Module, device: torch.device) -> nn.Module:
        """The module as it is called in training."""
        if self.size == 1:
            return module
        if self.sharing == "copies":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        for parameter in module.parameters():
            # FSDP takes rows of memory as they come.
            parameter.data = parameter.data.contiguous()
        return cast(nn.Module, fully_shard(module, mesh=init_device_mesh(device.type, (self.size,))))

    @contextmanager
    def accumulating(self, wrapped: nn.Module, *, last: bool) -> Generator[None]:
        """Gradients are exchanged in the last piece of a batch only."""
        if self.size == 1:
            yield
        elif self.sharing == "copies":
            with nullcontext() if last else cast(Any, wrapped).no_sync():
                yield
        else:
            cast(Any, wrapped).set_requires_gradient_sync(last)
            yield

    def share(self, windows: Tensor) -> Tensor:
        """This process' sequences of a batch."""
        if len(windows) % self.size:
            raise InputError(
                f"a batch of {len(windows)} sequences for {self.size} processes",
                f"a multiple of {self.size}",
                "change training.batch",
            )
        return windows[self.rank :: self.size]

    def mean(self, value: Tensor) -> float:
        """The mean of a number over all processes."""
        if self.size == 1:
            return float(value)
        total = value.detach().clone()
        distributed.all_reduce(total)
        return float(total) / self.size

    def any(self, flag: bool) -> bool:  # noqa: FBT001
        """Whether some process says yes; all get the same answer."""
        return self.mean(torch.tensor(float(flag))) > 0

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.size > 1:
            distributed.barrier()


ALONE = World()


@contextmanager
def join_world(device: torch.device, sharing: Sharing = "copies") -> Generator[World]:
    """The world that ``torchrun`` has set up, or the one of a single process."""
    rank, size = place_in_world()
    if size == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Gradients go over NCCL where there are GPUs; flags are numbers of the processor and always go over gloo.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(rank, size, sharing)
    finally:
        distributed.destroy_process_group()


def place_in_world() -> tuple[int, int]:
    """Which process this is and of how many, by the variables that ``torchrun`` sets."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size == "1":
        return 0, 1
    needed = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    rank = os.environ.get("RANK", "")
    missing = [name for name in needed if name not in os.environ]
    if missing or not (size.isdecimal() and rank.isdecimal() and int(rank) < int(size)):
        given = f"WORLD_SIZE={size} and RANK={rank}" + (f", but no {missing[0]}" if missing else "")
        raise InputError(given, "all that torchrun sets", "start it by torchrun, or unset WORLD_SIZE to train alone")
    return int(rank), int(size)


def whole(tensor: Tensor) -> Tensor:
    """A tensor in one piece, on this process; all processes must ask."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def fill(tensor: Tensor, values: Tensor) -> None:
    """Write values into a tensor, or into this process' part of it."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(tensor, DTensor):
        values = distribute_tensor(values.to(tensor.device), tensor.device_mesh, tensor.placements)
    with torch.no_grad():
        tensor.copy_(values)
