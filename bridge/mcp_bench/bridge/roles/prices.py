"""What models that play a role cost: a file of the operator's, since endpoints seldom report prices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.yaml_file import read_yaml

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
EXAMPLE = "MODEL: {input: 2.0, cached-input: 0.5, output: 8.0}, in US dollars per million tokens"


class Price(BaseModel):
    """US dollars per million tokens of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    """Of input that the provider read from its cache; None: the price of other input."""

    def of(self, usage: Usage | None) -> float | None:
        """Return the cost of a request in US dollars; None if the endpoint reported no tokens."""
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        again = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * again + usage.output_tokens * self.output) / 1e6


_PRICES: TypeAdapter[dict[str, Price]] = TypeAdapter(dict[str, Price])


def read_prices(path: Path) -> dict[str, Price]:
    """Return the prices in a file, by the name of the model.

    Raises:
        WrongUseError: it cannot be read, or a price is not one; the text names the line.
    """
    file = read_yaml(path)
    try:
        return stored_prices(file.content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = first["loc"]
        where = f"{path}:{file.line(place)}: {'.'.join(map(str, place))}"
        what = first["msg"].removeprefix("Input ")
        raise WrongUseError(f"{where}: {what}. A price is {EXAMPLE}") from None


def stored_prices(content: Mapping[Any, Any]) -> dict[str, Price]:
    """Return prices from JSON, as a run stores them, or from YAML.

    Raises:
        ValidationError: a price is not one.
    """
    found = {
        str(model): {str(key).replace("-", "_"): value for key, value in row.items()}
        if isinstance(row, dict)
        else row
        for model, row in content.items()
    }
    return _PRICES.validate_python(found)


def require_prices(path: Path, prices: Mapping[str, Price], models: Collection[str]) -> None:
    """Check that a file has the price of each model that plays a role.

    Raises:
        WrongUseError: it lacks one.
    """
    for model in models:
        if model not in prices:
            raise WrongUseError(f"{path} has no price of {model!r}{suggestion(model, prices)}. Add {EXAMPLE}")
