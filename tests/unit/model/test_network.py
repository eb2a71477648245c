import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from trainwright.contract.sections.model.table_networks import (  # noqa: E402
    FtTransformer,
    Mlp,
    TabularResNet,
)
from trainwright.contract.sections.model.traits import ModelSection  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import TableShape, embedding_width  # noqa: E402

SECTIONS: list[ModelSection] = [
    Mlp(kind="mlp"),
    Mlp(kind="mlp", hidden=(5,), activation="gelu", numeric_embedding="none", embedding_dim=3),
    TabularResNet(kind="tabular_resnet"),
    TabularResNet(kind="tabular_resnet", blocks=1, width=8, numeric_embedding="none"),
    FtTransformer(kind="ft_transformer", width=16, heads=2),
    FtTransformer(kind="ft_transformer", width=16, heads=4, layers=1, activation="gelu"),
]
SHAPES = [TableShape(3, (4, 9), 2), TableShape(0, (5,), 3), TableShape(2, (), 1)]


def rows(shape: TableShape, count: int) -> tuple[Tensor, Tensor]:
    columns = [torch.randint(size, (count,)) for size in shape.cardinalities]
    categories = torch.stack(columns, 1) if columns else torch.zeros((count, 0), dtype=torch.int64)
    return torch.randn(count, shape.numeric), categories


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_table_gives_one_row_of_outputs_a_row(section: ModelSection, shape: TableShape) -> None:
    model = build_network(section, shape).eval()
    for count in (1, 7):
        assert model(*rows(shape, count)).shape == (count, shape.outputs)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_parameter_learns(section: ModelSection) -> None:
    shape = TableShape(3, (4, 9), 2)
    model = build_network(section, shape)
    model(*rows(shape, 64)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("section", SECTIONS)
def test_a_row_does_not_depend_on_its_neighbours(section: ModelSection) -> None:
    # Batch statistics would make an update depend on how its batch is cut.
    shape = TableShape(3, (4, 9), 2)
    model = build_network(section, shape).double().train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    numeric, categories = rows(shape, 9)
    together = model(numeric.double(), categories)
    alone = torch.cat([model(numeric[i : i + 1].double(), categories[i : i + 1]) for i in range(9)])
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)


def test_the_width_of_an_embedding_follows_the_rule() -> None:
    assert [embedding_width(size) for size in (1, 4, 10, 1000, 10**6)] == [2, 4, 6, 50, 50]
