// The checkpoint that a run begins with which goes on from the model of an earlier run, for data
// with features and labels that this model lacks. Ids of the earlier model stay.
//
//   rows that it has   as they are, with their optimiser state
//   new features       as in a fresh run
//   new labels         learned neurons: w = c (u + kFresh v) / |u + kFresh v|, where u has the
//                      direction of the mean of h / |h| over samples of the label less the mean of
//                      all new labels, v that of the row of a fresh run; the length c and the bias
//                      are the means of the neurons that it has, without those that are silent
//                      (common/run/silence.h). Imprinting (Qi, Brown, Lowe: "Low-Shot Learning with
//                      Imprinted Weights", CVPR 2018, section 3.2) takes the label's mean alone.
//                      But activations have much in common, and labels that only new features tell
//                      apart would have equal rows.
//                      centroids: as their samples make them (server/model/centroids.h)
//
// Hash tables are built anew, and no batch counts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/dataset.h"
#include "tools/dslide/model/inference.h"

namespace dslide {

struct EarlierModel {
  std::string directory;  // of the checkpoint
  Manifest manifest;
  Config config;
};

// `path`: a checkpoint, a directory of checkpoints or a run directory. Errors (kBadInput) name it.
Result<EarlierModel> FindEarlierModel(const std::string& path);

// The share of a fresh row in that of a new label.
constexpr float kFresh = 0.3f;

// Says whether the user wants an end. Asked often.
using Stopped = std::function<bool()>;

// What samples say of the labels that a model lacks: N, N + 1, ...
struct NewLabels {
  static constexpr uint32_t kMostSamples = 100;  // of a label, the first ones

  std::vector<uint32_t> samples;  // [new labels] that count; those with h = 0 do not
  std::vector<float> units;       // [new labels x H] sums of their h / |h|
  std::vector<float> common;      // [H] mean of the labels' means; 0 if it is that of one label
};

// `held_out`: numbers of samples that are skipped, ascending. `labels`: how many there are with the
// new ones. Features that the model lacks are left out.
Result<NewLabels> MeetNewLabels(Inference* model, const Dataset& data,
                                std::span<const uint32_t> held_out, uint32_t labels,
                                const Stopped& stopped);

// Writes the rows of the model `config` (resolved; with the slots and the kinds of rows of `from`)
// into the directory of a checkpoint, which must not exist, and the store of the writer beside it
// for a while. The caller writes the manifest. Errors: kBadInput about `from`, else kFailed.
Result<ManifestShard> WriteGrownShard(const EarlierModel& from, const Config& config,
                                      const NewLabels& labels, const std::string& directory,
                                      const Stopped& stopped);

}  // namespace dslide
