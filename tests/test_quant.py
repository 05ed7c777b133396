"""Names of weight formats."""

from __future__ import annotations

from typing import Any

import pytest

from kazeia import OptionError
from kazeia.quant import QuantPlan, quant_name, quant_plan


@pytest.mark.parametrize(
    ("name", "plan", "short"),
    [
        ("q8", QuantPlan("q8", "q8", "q8"), "q8"),
        ("q4", QuantPlan("q4", "q8", "q8"), "q4"),
        ("q4+predictor=q4", QuantPlan("q4", "q4", "q8"), "q4+predictor=q4"),
        ("q8+talker=q4", QuantPlan("q4", "q8", "q8"), "q4"),
        ("q8+predictor=q4+talker=q4", QuantPlan("q4", "q4", "q8"), "q4+predictor=q4"),
        ("q8+codec=q8+talker=f32", QuantPlan("f32", "q8", "q8", "q8"), "q8+talker=f32+codec=q8"),
        ("q8+talker=f32+codec=q8", QuantPlan("f32", "q8", "q8", "q8"), "q8+talker=f32+codec=q8"),
        ("f32+codec=f32", QuantPlan("f32", "f32", "f32"), "f32"),
        ("f32+heads=q8", QuantPlan("f32", "f32", "q8"), "f32+heads=q8"),
    ],
)
def test_a_name_says_the_format_of_every_part(name: str, plan: QuantPlan, short: str) -> None:
    assert quant_plan(name) == plan
    assert quant_name(name) == short
    assert quant_plan(short) == plan


@pytest.mark.parametrize(
    "name",
    ["", "q5", "Q8", "q8+", "+talker=q4", "q8+talker", "q8+talker=", "q8+talker=q5", "q8+tail=q4",
     "q8+heads=q4", "q8+codec=q4", "q8+talker=q4+talker=f32", "q8 +talker=q4", None, 8, ["q8"]],
)  # fmt: skip
def test_what_is_no_format_is_refused_with_the_ones_there_are(name: Any) -> None:
    for ask in (quant_plan, quant_name):
        with pytest.raises(OptionError, match=r"f32, q8, q4.*parts: talker, predictor, heads, codec"):
            ask(name)
