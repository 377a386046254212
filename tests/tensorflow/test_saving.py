"""Variables of TensorFlow are not saved by shard, and what to use is said."""

from __future__ import annotations

from tests.integration.notebook import Notebook


def test_a_save_and_a_restore_are_refused_with_what_to_use(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 2 --platform cpu --framework tensorflow")
    for magic in ("dist_save", "dist_restore"):
        said = str(fresh.bad(f"%{magic} here"))
        assert "tf.train.Checkpoint with nbdist.keras.checkpoint_dir" in said
