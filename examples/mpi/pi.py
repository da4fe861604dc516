"""Every rank integrates its share of 4 / (1 + x²) from 0 to 1; together it is pi."""

import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
steps = int(sys.argv[1])
task = f"{os.environ['PAI_CURRENT_TASK_ROLE_NAME']}-{os.environ['PAI_TASK_INDEX']}"
sys.stdout.write(f"rank {world.rank} of {world.size} in {task}\n")  # in one piece, unlike print

width = 1 / steps
share = width * sum(4 / (1 + (width * (i + 0.5)) ** 2) for i in range(world.rank, steps, world.size))
total = world.reduce(share)
if world.rank == 0:
    print(f"pi is {total:.10f}")
