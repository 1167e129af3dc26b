"""All checks: importing this module registers them."""

from . import checks_consumer, checks_cuda, checks_exchange, checks_gpu, checks_host, checks_producer
from .core import CHECKS

__all__ = [
    "CHECKS",
    "checks_consumer",
    "checks_cuda",
    "checks_exchange",
    "checks_gpu",
    "checks_host",
    "checks_producer",
]
