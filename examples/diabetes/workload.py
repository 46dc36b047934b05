"""Diabetes: predict the progress of the disease in a year from ten measurements, for 442 people."""

from trainer.workloads import Category, Number, Regression, Table

from .source import DIABETES

NUMBERS = ("age", "bmi", "pressure", "cholesterol", "ldl", "hdl", "ratio", "ltg", "glucose")

workload = Table(
    [*(Number(name, low=0) for name in NUMBERS), Category("sex", low=1, high=2)],
    label=Regression("progression", low=0),
    source=DIABETES,
)
