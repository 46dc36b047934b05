"""Digits: 1,797 handwritten digits of 8 by 8 grey pixels, in an archive of class folders."""

from trainyard import ImageFolder

workload = ImageFolder((8, 8), channels=1)
