"""A disk that is full, without one."""

import resource
from contextlib import contextmanager


@contextmanager
def largest_file(nbytes):
    """No file of this process may grow beyond `nbytes`: what a full disk looks like."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
