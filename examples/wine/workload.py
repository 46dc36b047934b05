"""Wine: tell the grapes of 178 wines, of three cultivars, from a chemical analysis."""

from trainer.workloads import Classes, Number, Table

from .source import COLUMNS, WINE

workload = Table(
    [Number(name, low=0) for name in COLUMNS],
    label=Classes("cultivar", values=(0, 1, 2), names=("Barolo", "Grignolino", "Barbera")),
    class_weights="balanced",
    source=WINE,
)
