"""Wine: tell the grapes of 178 wines, of three cultivars, from a chemical analysis."""

from trainyard import Classes, Number, Table

COLUMNS = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols"),
    *("flavanoids", "nonflavanoid_phenols", "proanthocyanins", "colour_intensity", "hue"),
    *("od280_od315_of_diluted_wines", "proline"),
)

workload = Table(
    [Number(name, low=0) for name in COLUMNS],
    label=Classes("cultivar", values=(0, 1, 2), names=("Barolo", "Grignolino", "Barbera")),
    class_weights="balanced",
)
