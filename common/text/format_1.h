// The configuration in a preprocessor of format 1, around its section [text]. It has the keys that
// there were, with the defaults that they had. It stays as it is, whatever keys come and go: a
// stream that is resumed compares the checksum of its preprocessor with that of its earlier run.
#pragma once

#include <string_view>

namespace dslide {

inline constexpr std::string_view kFormat1BeforeText = R"([common]
seed = 1
log_level = info

[model]
features = 0
labels = 0
hidden = 512
loss = softmax
neurons = auto
active = auto
sharing = batch
tail = weighted
precision = bf16
products = auto
candidates = 10
popular = 2000
uniform = 3000
negatives = 2500
input_init = 0
output_init = 0

[hash]
family = dwta
k = 0
tables = 24
bin = 8

[train]
data =
test =
label_names =
min_label_samples = 1
epochs = 0
batch = 0
optimizer = adagrad
learning_rate = 0
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-08
moments = auto
warmup_batches = 100
decay = linear
weight_decay = 0
dropout_input = 0
dropout_hidden = 0.1
label_smoothing = 0.1
sparsify = 0.01
exclude_own_features = false
unit_batches = 8
batches_in_flight = 0
staleness = -1
target_batch = 0
audit = -1
evaluate_samples = 4000
probe_batches = 50
probe_samples = 16

)";

inline constexpr std::string_view kFormat1BehindText = R"(
[cluster]
servers = 1
workers = 1
most_workers = 4096
scheduler_bind = tcp://127.0.0.1:7700
status_bind = tcp://127.0.0.1:*
scheduler_advertise =
server_bind = tcp://127.0.0.1:*
server_advertise =
slots = 256
input_slots = -1
executors = 0
wire = auto
join_timeout_s = 300
heartbeat_ms = 1000
lease_timeout_ms = 60000
request_timeout_ms = 10000
takeover_s = 30
scheduler_silence_s = 60
balance = auto
balance_threshold = 1.15
move_mbit = 0
memory_mb = 0
disk_tier = auto
drain_s = 20

[checkpoint]
directory =
interval_s = 60
keep = 2
quota_mb = 0
hook =
shard_hook =
hook_timeout_s = 600

[security]
encryption = auto
)";

}  // namespace dslide
