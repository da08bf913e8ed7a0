"""`python -m rmsrepro.bench invariance`: which changes of weights and data each norm's output does not notice.

The paper's Table 1, measured: a linear map with normalised summed inputs, its output before and after each change, in
float64 with eps next to zero and the bias after the norm, as the paper's formulas have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro.arguments import Parser
from rmsrepro.bench.options import add_publishing, output_file, publishing_folder
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory, norm_config
from rmsrepro.report.records import SCHEMA
from rmsrepro.runs.atomic import atomic_writer, to_json, write_json_atomic

PLAN, NORMS = "table1", ("batchnorm", "weightnorm", "layernorm", "rmsnorm", "prmsnorm")
#: Rows, inputs and outputs of the map.
ROWS, FAN_IN, FAN_OUT = 16, 12, 32
SCALE = 3.0
#: The largest change of an output, relative to the largest output, that is rounding; and the smallest that is none.
SAME, DIFFERENT = 1e-8, 1e-2


def _added_to_rows(matrix: Tensor) -> Tensor:
    """Add one vector to every row: of weights, which shifts all summed inputs alike; of data, which shifts the mean."""
    return matrix + torch.linspace(-1, 2, matrix.shape[1], dtype=matrix.dtype)


def _first_row_scaled(matrix: Tensor) -> Tensor:
    return torch.cat([SCALE * matrix[:1], matrix[1:]])


#: Column of Table 1 -> the weights W [out, in] and the data x [N, in] after the change.
CHANGES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "w_matrix_rescale": lambda w, x: (SCALE * w, x),
    "w_matrix_recentre": lambda w, x: (_added_to_rows(w), x),
    "w_vector_rescale": lambda w, x: (_first_row_scaled(w), x),
    "dataset_rescale": lambda w, x: (w, SCALE * x),
    "dataset_recentre": lambda w, x: (w, _added_to_rows(x)),
    "case_rescale": lambda w, x: (w, _first_row_scaled(x)),
}


def measure(norm: str, impl: str = "composed") -> dict[str, float]:
    """Return for each change the largest difference that it makes, relative to the largest output."""
    torch.manual_seed(0)
    layer = NormFactory(norm_config(norm, eps=1e-14, shift=False), impl).linear(FAN_IN, FAN_OUT).double()
    weight = _weight_of(layer)
    w, x = torch.randn(FAN_OUT, FAN_IN, dtype=torch.float64), torch.randn(ROWS, FAN_IN, dtype=torch.float64)

    @torch.no_grad()
    def output(w: Tensor, x: Tensor) -> Tensor:
        weight.copy_(w)
        return layer(x)

    before = output(w, x)
    return {
        name: ((output(*change(w, x)) - before).abs().max() / before.abs().max()).item()
        for name, change in CHANGES.items()
    }


def holds(difference: float) -> bool:
    """Say whether a difference is rounding; raises ValueError for one that is neither that nor a real change."""
    if SAME < difference < DIFFERENT:
        raise ValueError(f"a relative difference of {difference:.1e} is neither rounding nor a change")
    return difference <= SAME


def _weight_of(layer: nn.Module) -> Tensor:
    """Return the weights [out, in] of the map, wherever its norm keeps them."""
    return next(p for p in layer.parameters() if p.shape == (FAN_OUT, FAN_IN))


def main(argv: Sequence[str]) -> int:
    """Measure every norm of Table 1, print the table, and with --publish write the records that it is made from."""
    parser = Parser(prog="python -m rmsrepro.bench invariance", description=__doc__)
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write every difference to FILE")
    add_publishing(parser, "measurements")
    args = parser.parse_args(argv)
    folder = publishing_folder(args)
    found = {norm: measure(norm) for norm in NORMS}
    print(to_markdown(found))
    if args.json:
        write_json_atomic(Path(args.json), found)
    if args.publish:
        print(f"written to {publish(found, folder)}")
    return 0


def to_markdown(found: dict[str, dict[str, float]]) -> str:
    """Write the relative differences as a table: yes where the output does not notice the change."""
    lines = [f"| norm | {' | '.join(CHANGES)} |", f"|---|{'---|' * len(CHANGES)}"]
    for norm, differences in found.items():
        cells = (f"{'yes' if holds(value) else 'no'} ({value:.0e})" for value in differences.values())
        lines.append(f"| {norm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def publish(found: dict[str, dict[str, float]], folder: Path) -> Path:
    """Write one record for each cell, in place of those that are there."""
    path = folder / f"measurements-{PLAN}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path) as file:
            for norm, differences in found.items():
                for column, value in differences.items():
                    file.write((to_json(_row(norm, column, value)) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"--published {folder}: cannot be written ({error.strerror}); name another folder") from error
    return path


def _row(norm: str, column: str, difference: float) -> dict[str, Any]:
    return {
        "kind": "measurement",
        "schema": SCHEMA,
        "plan": PLAN,
        "arm": norm,
        "column": column,
        "value": float(holds(difference)),
        "command": "python -m rmsrepro.bench invariance --publish",
    }
