"""Digits: 1,797 handwritten digits of 8 by 8 grey pixels, in an archive of class folders."""

from trainer.workloads import ImageFolder

from .source import DIGITS

workload = ImageFolder((8, 8), channels=1, source=DIGITS)
