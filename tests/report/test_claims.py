import pytest
import yaml

from rmsrepro.errors import DataError
from rmsrepro.report.claims import load_table, table_names
from rmsrepro.report.elsewhere import load_published, load_unsourced

TABLES = table_names()


def value(table, arm, column):
    return load_table(table).claims[arm, column]


def small_table(**changes):
    column = {"heading": "Test error", "metric": "test/error", "unit": "%", "direction": "min"}
    row = {"arm": "rmsnorm", "label": "RMSNorm", "norm": "rmsnorm", "cells": ["8.83"]}
    return {
        "title": "t",
        "task": "cifar10",
        "source": "Table 1, page 1",
        "hardware": None,
        "framework": None,
        "columns": {"error": column | changes.pop("column", {})},
        "rows": changes.pop("rows", [row]),
        "deviations": [],
        **changes,
    }


def write(folder, content):
    (folder / "tablex.yaml").write_text(yaml.safe_dump(content, allow_unicode=True))
    return load_table("tablex", folder)


def test_all_tables_of_the_paper_are_there_and_every_number_has_its_own_id():
    assert [*(f"table{n}" for n in range(1, 11)), *(f"figure{n}" for n in range(1, 8))] == TABLES
    ids = [claim.id for name in TABLES for claim in load_table(name).all()]
    assert len(ids) == len(set(ids)) == 233


def test_numbers_of_each_table_are_the_printed_ones():
    assert (value("table2", "layernorm", "time").value, value("table2", "layernorm", "time").spread) == (665, 32.5)
    assert value("table3", "theano_weightnorm", "test17").value == 23.5
    assert value("table4", "prmsnorm", "test17").value == 27.8
    assert value("table5", "baseline", "m1").value == -2.60
    assert value("table6", "batchnorm_lstm", "time").printed == "345 ± 11.2"
    assert value("table7", "prmsnorm", "caption_r10").value == 90.3
    assert value("table8", "rmsnorm", "time").spread == 0.207
    assert value("table10", "layernorm", "test_error").value == 10.49
    assert value("table1", "layernorm", "w_matrix_recentre").value == 1
    assert value("figure4", "rmsnorm", "point_32").approximate


@pytest.mark.parametrize("name", TABLES)
def test_speed_ups_in_brackets_follow_from_the_times(name):
    table = load_table(name)
    for (arm, column), speedup in table.speedups.items():
        time = table.claims[arm, column]
        reference = table.claims[time.reference, column]
        assert reference.norm == "layernorm"
        assert round(100 * (reference.value - time.value) / reference.value, 1) == speedup.value


def test_every_norm_with_a_time_beside_layernorm_has_its_speed_up_where_the_paper_prints_one():
    printed = {speedup.norm for name in TABLES for speedup in load_table(name).speedups.values()}
    assert printed == {"rmsnorm", "prmsnorm"}
    assert sum(len(load_table(name).speedups) for name in TABLES) == 14


def test_a_model_that_the_paper_could_not_train_is_no_missing_number():
    claim = value("table4", "baseline", "test14")
    assert claim.fails
    assert claim.value == 0


def test_rows_quoted_from_others_are_marked_and_have_no_reference():
    claim = value("table7", "layernorm_ba", "image_r1")
    assert claim.origin == "Ba et al. 2016"
    assert claim.reference is None


def test_arms_are_compared_within_their_framework():
    assert value("table3", "pytorch_rmsnorm", "time").reference == "pytorch_layernorm"
    assert value("table3", "theano_layernorm", "time").reference == "theano_baseline"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_says_what_differs_from_our_setting(name):
    assert load_table(name).paper.deviations


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (small_table(column={"unit": "per cent"}), "unit 'per cent' is not known"),
        (small_table(column={"direction": "up"}), "direction 'up'"),
        (small_table(rows=[{"arm": "a", "label": "A", "norm": "none", "cells": ["8"]}] * 2), "occurs twice"),
        (small_table(rows=[{"arm": "a", "label": "A", "norm": "none", "cells": ["8", "9"]}]), "2 cells for 1 columns"),
        (small_table(rows=[{"arm": "a", "label": "A", "norm": "none", "cells": ["8,8"]}]), "cannot read '8,8'"),
        (small_table(colour="red"), "colour: no such setting"),
    ],
)
def test_a_table_with_a_fault_is_refused_in_one_line_that_names_the_file(tmp_path, content, words):
    with pytest.raises(DataError, match=r"tablex\.yaml") as refusal:
        write(tmp_path, content)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_column_without_a_direction_is_refused(tmp_path):
    content = small_table()
    del content["columns"]["error"]["direction"]
    with pytest.raises(DataError, match="direction"):
        write(tmp_path, content)


def test_numbers_of_others_are_kept_apart_and_labelled():
    published, unsourced = load_published(), load_unsourced()
    assert published.label == "published elsewhere"
    assert unsourced.label == "claimed elsewhere without a source"
    claims = {claim.value for name in TABLES for claim in load_table(name).all()}
    assert {24.37, 24.51, 93.76, 99.65} <= {reference.value for reference in unsourced.references}
    assert not {24.37, 24.51, 93.76, 99.65, 99.17, 99.24} & claims
