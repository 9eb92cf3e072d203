"""The tables of the paper as data: what `visil tables` prints beside its own figures. Typed in from its text."""

from __future__ import annotations

from dataclasses import dataclass

FIVR = ("DSVR", "CSVR", "ISVR")
CC_WEB = ("cc_web", "cc_web*", "cc_web_c", "cc_web_c*")
EVVE = ("mAP", *(f"event {number}" for number in range(1, 14)))


@dataclass(frozen=True)
class PaperTable:
    """One table: which figures of which rows, on which dataset; None where the paper has none."""

    dataset: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | str | None, ...]]

    def row(self, label: str) -> dict[str, float | str | None]:
        """Figures of a row by column; of one that the paper does not have, none."""
        return dict(zip(self.columns, self.rows.get(label, (None,) * len(self.columns)), strict=True))


TABLES: dict[str, PaperTable] = {
    "table-2": PaperTable(
        "FIVR-5K",
        ("dims", *FIVR),
        {
            "MAC": ("2048", 0.747, 0.730, 0.684),
            "SPoC": ("2048", 0.735, 0.722, 0.669),
            "R-MAC": ("2048", 0.777, 0.764, 0.707),
            "GeM": ("2048", 0.776, 0.768, 0.711),
            "iMAC": ("3840", 0.755, 0.749, 0.689),
            "L2-iMAC": ("4×3840", 0.814, 0.810, 0.738),
            "L2-iMAC reduced": ("4×512", 0.804, 0.802, 0.727),
            "L3-iMAC": ("9×3840", 0.838, 0.832, 0.739),
            "L3-iMAC reduced": ("9×256", 0.823, 0.818, 0.738),
        },
    ),
    "table-3": PaperTable(
        "FIVR-5K",
        FIVR,
        {
            "ViSiL_f": (0.838, 0.832, 0.739),
            "ViSiL_f+W": (0.844, 0.837, 0.750),
            "ViSiL_f+W+A": (0.856, 0.848, 0.768),
            "ViSiL_sym": (0.830, 0.823, 0.731),
            "ViSiL_v": (0.880, 0.869, 0.777),
        },
    ),
    "table-4": PaperTable(
        "FIVR-5K", FIVR, {"without L_reg": (0.859, 0.842, 0.756), "with L_reg": (0.880, 0.869, 0.777)}
    ),
    "table-5": PaperTable(
        "CC_WEB_VIDEO",
        CC_WEB,
        {
            "DML": (0.971, 0.941, 0.979, 0.959),
            "CTE": (0.996, None, None, None),
            "DP": (0.975, 0.958, 0.990, 0.982),
            "TN": (0.978, 0.965, 0.991, 0.987),
            "ViSiL_f": (0.984, 0.969, 0.993, 0.987),
            "ViSiL_sym": (0.982, 0.969, 0.991, 0.988),
            "ViSiL_v": (0.985, 0.971, 0.996, 0.993),
        },
    ),
    "table-6": PaperTable(
        "FIVR-200K",
        FIVR,
        {
            "LBoW": (0.710, 0.675, 0.572),
            "DP": (0.775, 0.740, 0.632),
            "TN": (0.724, 0.699, 0.589),
            "ViSiL_f": (0.843, 0.797, 0.660),
            "ViSiL_sym": (0.833, 0.792, 0.654),
            "ViSiL_v": (0.892, 0.841, 0.702),
        },
    ),
    "table-7": PaperTable(
        "EVVE",
        EVVE,
        {
            "LAMV": (
                *(0.536, 0.715, 0.383, 0.158, 0.461, 0.387, 0.277),
                *(0.247, 0.138, 0.222, 0.273, 0.273, 0.908, 0.691),
            ),
            "LAMV+QE": (
                *(0.587, 0.837, 0.500, 0.126, 0.588, 0.455, 0.343),
                *(0.267, 0.142, 0.230, 0.293, 0.216, 0.950, 0.776),
            ),
            "ViSiL_f": (
                *(0.589, 0.889, 0.570, 0.169, 0.432, 0.345, 0.393),
                *(0.297, 0.181, 0.479, 0.564, 0.369, 0.885, 0.799),
            ),
            "ViSiL_sym": (
                *(0.610, 0.864, 0.704, 0.357, 0.440, 0.363, 0.295),
                *(0.370, 0.214, 0.577, 0.389, 0.266, 0.943, 0.702),
            ),
            "ViSiL_v": (
                *(0.631, 0.918, 0.724, 0.227, 0.446, 0.390, 0.405),
                *(0.308, 0.223, 0.604, 0.578, 0.399, 0.916, 0.855),
            ),
        },
    ),
    "table-8": PaperTable(
        "ActivityNet",
        ("mAP",),
        {
            "DML": (0.705,),
            "VReL": (0.209,),
            "DP": (0.621,),
            "TN": (0.648,),
            "ViSiL_f": (0.652,),
            "ViSiL_sym": (0.745,),
            "ViSiL_v": (0.710,),
        },
    ),
    "table-9": PaperTable(
        "FIVR-5K",
        FIVR,
        {
            "MP-AP/MP-AP": (0.880, 0.869, 0.777),
            "AP-AP/MP-AP": (0.769, 0.748, 0.682),
            "MP-AP/AP-AP": (0.640, 0.652, 0.623),
            "AP-AP/AP-AP": (0.439, 0.436, 0.341),
        },
    ),
    "table-10": PaperTable(
        "FIVR-5K",
        ("offline s", "online ms", *FIVR),
        {
            "MAC": (0.95, 2.0, 0.747, 0.730, 0.684),
            "iMAC": (0.95, 2.3, 0.755, 0.749, 0.689),
            "ViSiL_f": (0.96, 6.0, 0.838, 0.832, 0.739),
            "ViSiL_v": (1.04, 9.5, 0.880, 0.869, 0.777),
        },
    ),
}
"""By name. Table 1 is the network itself; the seconds of Table 10 are of an i7-4770K and a GTX 1070."""

SYSTEMS = PaperTable(
    "FIVR",
    FIVR,
    {
        **{name: row[1:] for name, row in TABLES["table-2"].rows.items()},
        **TABLES["table-3"].rows,
        **{name: TABLES["table-6"].rows[name] for name in ("LBoW", "DP", "TN")},
        **{f"ViSiL_v {pools}": row for pools, row in TABLES["table-9"].rows.items()},
    },
)
"""The paper's figures for any system on FIVR: LBoW, DP and TN on FIVR-200K, the others on FIVR-5K."""
