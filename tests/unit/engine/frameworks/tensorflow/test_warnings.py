"""What TensorFlow writes on every process is left out, and explained once; what is new stays."""

from __future__ import annotations

from nbdist.engine.frameworks.tensorflow.start import AUTO_SHARD_SAID, Chatter

NOISE = b"""\
E0000 00:00:1795178935.115677   21496 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error
I0000 00:00:1795178935.170995   21496 grpc_server_lib.cc:467] Started server with target: grpc://127.0.0.1:1
I0000 00:00:1795178935.318184   22165 coordination_service.cc:505] Example stragglers:
/job:worker/replica:0/task:1
W0000 00:00:1795178940.708603   21496 dataset.cc:997] Input of GeneratorDatasetOp::Dataset will not be optimized
W0000 00:00:1795178940.708604   21496 local_rendezvous.cc:412] Local rendezvous is aborting with status: \
OUT_OF_RANGE: End of sequence
W0000 00:00:1795180397.220165   16133 cache_dataset_ops.cc:912] The calling iterator did not fully read the \
dataset being cached. In order to avoid unexpected truncation of the dataset, it will be discarded.
E0000 00:00:1795180408.158878   16834 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: Collective ops is \
aborted by: interrupted by nbdist; run %dist_recover before the next collective
The error could be from a previous operation. Restart your program to reset. [type.googleapis.com/tensorflow='']
"""
AUTO_SHARD = b"""\
W0000 00:00:1795178940.708605   21496 auto_shard.cc:553] AUTO sharding policy will apply DATA sharding policy \
as it failed to apply FILE sharding policy because of the following reason: Found an unshardable source dataset: \
name: "TensorSliceDataset/_1"
op: "TensorSliceDataset"
attr {
  key: "Toutput_types"
}
"""
NEW = (
    b"E0000 00:00:1795178940.708606   21496 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE\n"
)


def test_what_is_known_is_left_out_and_what_is_new_stays() -> None:
    assert (
        Chatter(chief=True)(NOISE + NEW + b"a word of the user\n") == NEW + b"a word of the user\n"
    )


def test_t8_the_fall_back_of_auto_sharding_is_explained_once_by_the_chief() -> None:
    chief, other = Chatter(chief=True), Chatter(chief=False)
    assert chief(AUTO_SHARD + NEW) == AUTO_SHARD_SAID + NEW
    assert chief(AUTO_SHARD) == b""
    assert other(AUTO_SHARD + NEW) == NEW
