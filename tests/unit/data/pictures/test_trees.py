"""Files of a folder are read as one by one, whatever their names and links are."""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.data.images.class_folders import LocalTree
from trainwright.data.images.read_image_file import read_inside


def test_names_and_links_are_held_against_the_folder(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside, root / "a", root / "b"):
        folder.mkdir(parents=True)
        (folder / "x.png").write_bytes(folder.name.encode())
    (root / "top.png").write_bytes(b"top")
    (root / "a" / "inner.png").symlink_to(root / "b" / "x.png")
    (root / "a" / "outer.png").symlink_to(outside / "x.png")
    (root / "a" / "loop.png").symlink_to(root / "a" / "loop.png")
    (root / "same").symlink_to(root / "b")
    (root / "out").symlink_to(outside)
    (root / "round").symlink_to(root / "round")
    os.mkfifo(root / "b" / "pipe.png")
    names = ["top.png", "a/x.png", "a/inner.png", "a/outer.png", "a/loop.png", "a/none.png"]
    names += ["same/x.png", "out/x.png", "round/x.png", "b/x.png", "b/pipe.png", "a", "b/", "b/.."]
    names += ["../outside/x.png", "a/../b/x.png", "none/x.png", "a/x\0.png", "", "b//x.png"]
    names += [str(outside / "x.png"), str(root / "b" / "x.png"), "/", "a/x.png", "top.png"]
    found = list(LocalTree(root).read(names))
    assert found == [read_inside(root / name, root) for name in names]
    assert found[:3] == [b"top", b"a", b"b"]
    assert [one for one in found if one == b"outside"] == []
