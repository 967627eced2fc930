"""The memory limit of this process, and a check that matrices fit it.

The check is for square matrices, whose size grows with the square of a number that the user
chooses. Without it, the operating system may grant more memory than exists, and later kill the
process.
"""

import os
from math import inf, isqrt
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

# Files in which Linux lists the control groups of a process, and their limits.
GROUPS, GROUP_FILES = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def memory_limit():
    """Return the bytes of memory that this process may use, or infinity if no limit is known.

    This is the minimum of the physical memory, the limits of the process (``ulimit -v`` and
    ``ulimit -d``) and those of its control groups, which containers set. Memory in use is not
    subtracted.
    """
    return min(_physical_memory(), _process_limit(), _group_limit())


def check_square_matrices(size, n_matrices, request):
    """Raise MemoryError if `n_matrices` float64 matrices (size, size) exceed the memory limit.

    The message begins with ``"<request> needs at least ..."``.
    """
    n_bytes, limit = 8 * n_matrices * size**2, memory_limit()
    if n_bytes > limit:
        raise MemoryError(
            f"{request} needs at least {n_bytes / 2**30:.3g} GiB of memory, but this process may "
            f"have {limit / 2**30:.3g} GiB: ask for at most {isqrt(limit // (8 * n_matrices))}"
        )


def _physical_memory():
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return inf
    return pages * size if pages > 0 and size > 0 else inf


def _process_limit():
    if resource is None:
        return inf
    limits = [resource.getrlimit(name)[0] for name in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=inf)


def _group_limit():
    """Return the smallest limit of the process's control group and the groups that contain it."""
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:
        return inf
    limits = [inf]
    # In version 2 of control groups, the relevant line names no controllers.
    for path in (line.removeprefix("0::/") for line in lines if line.startswith("0::/")):
        # In a container the path may be that outside the container, which does not exist inside.
        group = GROUP_FILES / path
        while group.is_relative_to(GROUP_FILES):
            limits.append(_read_limit(group / "memory.max"))
            group = group.parent
    return min(limits)


def _read_limit(path):
    try:
        text = path.read_text().strip()
    except OSError:
        return inf
    return int(text) if text.isdecimal() else inf
