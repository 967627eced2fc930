"""Memory that this process may have, and the refusal of what cannot fit.

Refused is only what would need more than all of it, before anything is allocated: systems promise
more memory than there is, and then end a process that uses what it was promised.
"""

import os
from math import inf, isqrt
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

# Less than this is not worth a look at the limits.
SMALLEST_REQUEST = 2**26
LIMITS = ("RLIMIT_AS", "RLIMIT_DATA")
GROUPS, GROUP_FILES = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def memory_limit():
    """Return the bytes that this process may have, or infinity where nothing is known.

    The least of the machine's physical memory, the limits of the process (``ulimit -v`` and
    ``ulimit -d``) and those of its control groups, as containers set them. What the process
    has in use is not subtracted.
    """
    return min(_physical_memory(), _process_limit(), _group_limit())


def refuse_beyond_memory(n_bytes, what, remedy):
    """Raise MemoryError if something takes more bytes than this process may have.

    Parameters
    ----------
    n_bytes : int
        What it takes in any case.
    what : str
        The request, which begins the message: ``"<what> takes at least ..."``.
    remedy : callable
        ``remedy(limit)`` returns what to do instead, given the bytes that there are.
    """
    if n_bytes < SMALLEST_REQUEST:
        return
    limit = memory_limit()
    if n_bytes > limit:
        raise MemoryError(
            f"{what} takes at least {in_words(n_bytes)} of memory, but this process may have "
            f"{in_words(limit)}: {remedy(limit)}"
        )


def largest_square(n_bytes, n_arrays):
    """Return the largest n, at least 1, for which `n_arrays` of shape (n, n) fit the bytes."""
    return max(1, isqrt(int(n_bytes) // (8 * n_arrays)))


def in_words(n_bytes):
    """Return a number of bytes with three digits and a unit."""
    value, unit = float(n_bytes), 0
    while value >= 999.5 and unit + 1 < len(UNITS):
        value, unit = value / 1024.0, unit + 1
    return f"{value:.3g} {UNITS[unit]}"


def _physical_memory():
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return inf
    return pages * size if pages > 0 and size > 0 else inf


def _process_limit():
    if resource is None:
        return inf
    names = [getattr(resource, name) for name in LIMITS if hasattr(resource, name)]
    limits = [resource.getrlimit(name)[0] for name in names]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=inf)


def _group_limit():
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:
        return inf
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = GROUP_FILES, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = GROUP_FILES / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A limit holds for all groups within; in a container the path may be that outside of it.
        own = root / path.lstrip("/")
        groups = [own, *own.parents]
        limits += [_read_limit(group / name) for group in groups[: groups.index(root) + 1]]
    return min(limits, default=inf)


def _read_limit(path):
    try:
        text = path.read_text().strip()
    except OSError:
        return inf
    return int(text) if text.isdecimal() else inf
