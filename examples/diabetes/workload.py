"""Diabetes: predict the progress of the disease in a year from ten measurements, for 442 people."""

from trainyard import Category, Number, Regression, Table

NUMBERS = ("age", "bmi", "pressure", "cholesterol", "ldl", "hdl", "ratio", "ltg", "glucose")

workload = Table(
    [*(Number(name, low=0) for name in NUMBERS), Category("sex", low=1, high=2)],
    label=Regression("progression", low=0),
)
