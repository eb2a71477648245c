"""TensorBoard's own reader reads back what the run folder holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorboard")

from event_files import read_events_of, read_scalars
from tracked_runs import RecordedRun, begin_run, signals_of
from trainwright.core.files import read_json, write_json
from trainwright.tracking.run_folder import RunFolder


def fp32(values: dict[int, float]) -> list[tuple[int, float]]:
    """As TensorBoard keeps a scalar."""
    return [(step, float(np.float32(value))) for step, value in sorted(values.items())]


def begin(root: Path, **tracking: str) -> RecordedRun:
    return begin_run(root, sinks=("tensorboard",), **tracking)


def test_it_reads_back_the_run_folder(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(40)
    run.validate()
    run.end()
    assert run.send("tensorboard")
    folder = run.folder.path / "tensorboard"
    for name in ("loss", "learning_rate", "gradient_norm", "own/share (a)"):
        if not name.startswith("own"):
            assert read_scalars(folder, name) == fp32(signals_of(run, name))
    reader = read_events_of(folder)
    assert len(reader.Scalars("own/share (a)")) == 40
    assert [event.step for event in reader.Scalars("weight_norm/body.0")] == [10, 20, 30, 40]
    assert [event.step for event in reader.Scalars("val_loss")] == [40]
    assert reader.Scalars("test/roc_auc")[0].value == pytest.approx(0.9)
    times = [event.wall_time for event in reader.Scalars("loss")]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000


def test_sizes_of_gradients_are_a_histogram(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(10)
    run.end()
    run.send("tensorboard")
    (shown,) = read_events_of(run.folder.path / "tensorboard").Histograms("gradient_sizes")
    counts = dict(
        zip(shown.histogram_value.bucket_limit, shown.histogram_value.bucket, strict=True)
    )
    assert counts == {-5.0: 250_000, -4.0: 750_000}


def test_hyperparameters_and_texts(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    run = begin(tmp_path)
    run.train(10)
    run.end()
    run.send("tensorboard")
    reader = read_events_of(run.folder.path / "tensorboard")
    (tag,) = reader.PluginTagToContent("hparams")
    message = plugin_data_pb2.HParamsPluginData.FromString(
        reader.PluginTagToContent("hparams")[tag]
    )
    shown = message.session_start_info.hparams
    assert shown["training.seed"].number_value == 3
    assert shown["training.clip"].bool_value is True
    assert shown["model.kind"].string_value == "mlp"
    texts = {
        tag: reader.Tensors(tag)[0].tensor_proto.string_val[0]
        for tag in reader.PluginTagToContent("text")
    }
    assert texts["contract.yaml"] == b"    name: small"
    assert b"verdict: met" in texts["tags"]


def test_nothing_overlaps_after_a_resume(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(30)
    run.save()
    run.send("tensorboard")
    run.resume(10)
    run.train(45)
    run.end()
    run.send("tensorboard")
    folder = run.folder.path / "tensorboard"
    assert read_scalars(folder, "loss") == fp32(signals_of(run))
    assert len(list(folder.iterdir())) == 1


def test_what_a_killed_sink_wrote_beyond_its_cursor_is_cut(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(20)
    run.save()
    run.send("tensorboard")
    cursor = run.folder.path / "sinks" / "tensorboard.json"
    before = cursor.read_bytes()
    run.train(20)
    run.save()
    run.send("tensorboard")
    cursor.write_bytes(before)  # it died between the file and the cursor
    (path,) = (run.folder.path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    run.train(5)
    run.end()
    run.send("tensorboard")
    assert read_scalars(path.parent, "loss") == fp32(signals_of(run))


def test_rewound_steps_are_there_once(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(30)
    run.validate()
    run.save()
    run.send("tensorboard")
    run.roll_back(12)
    run.train(30)
    run.validate()
    run.end()
    run.send("tensorboard")
    folder = run.folder.path / "tensorboard"
    assert read_scalars(folder, "loss") == fp32(signals_of(run))
    assert [step for step, _ in read_scalars(folder, "val_loss")] == [42]
    tags = read_events_of(folder).Tensors("tags")[-1].tensor_proto.string_val[0]
    assert b"rewound: 12" in tags


def test_numbers_that_are_none_stay_what_they_are(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(5, {2: math.nan, 4: math.inf})
    run.end()
    run.send("tensorboard")
    losses = dict(read_scalars(run.folder.path / "tensorboard", "loss"))
    assert math.isnan(losses[2])
    assert losses[4] == math.inf


def test_two_runs_of_one_name_keep_apart(tmp_path: Path) -> None:
    for root in ("first", "second"):
        (tmp_path / root).mkdir()
    shared = str(tmp_path / "events")
    first = begin_run(
        tmp_path / "first", identity="a" * 32, sinks=("tensorboard",), tensorboard_folder=shared
    )
    second = begin_run(
        tmp_path / "second", identity="b" * 32, sinks=("tensorboard",), tensorboard_folder=shared
    )
    for run in (first, second, first):
        run.train(10)
        run.end()
        run.send("tensorboard")
    assert first.said == []
    assert len(second.said) == 1
    assert "has a run in" in second.said[0]
    for run, name in ((first, "run"), (second, "run-bbbbbbbb")):
        assert read_scalars(tmp_path / "events" / name, "loss") == fp32(signals_of(run))


def test_folds_have_folders_of_their_own(tmp_path: Path) -> None:
    run = begin(tmp_path)
    fold = RecordedRun(run.folder.fold(1, "v" * 12))
    fold.train(10)
    fold.save()
    run.train(5)
    run.end()
    judged = read_json(run.folder.evaluation)
    judged["by_fold"] = {"folds": [{"metrics": {"roc_auc": 0.7, "f1": None}}]}
    write_json(run.folder.evaluation, judged)
    run.send("tensorboard")
    folder = run.folder.path / "tensorboard"
    assert read_scalars(folder / "folds" / "01", "loss") == fp32(signals_of(fold))
    assert read_scalars(folder / "folds" / "01", "test/roc_auc") == [(10, float(np.float32(0.7)))]
    assert read_scalars(folder, "loss") == fp32(signals_of(run))


def test_trees_send_their_curve(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.end()
    run.folder.bundle.mkdir()
    curve = [[1, 0.6, 0.7], [11, 0.5, 0.6]]
    write_json(run.folder.bundle / "boosting.json", {"metric": "rmse", "curve": curve})
    run.send("tensorboard")
    folder = run.folder.path / "tensorboard"
    assert read_scalars(folder, "val_rmse") == fp32({1: 0.7, 11: 0.6})
    assert read_scalars(folder, "train_rmse") == fp32({1: 0.6, 11: 0.5})


def test_a_second_sync_sends_nothing(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.train(10)
    run.end()
    run.send("tensorboard")
    (path,) = (run.folder.path / "tensorboard").iterdir()
    before = path.read_bytes()
    assert run.send("tensorboard")
    assert path.read_bytes() == before
    assert RunFolder.open(run.folder.path)
