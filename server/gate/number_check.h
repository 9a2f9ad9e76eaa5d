// Whether the numbers of a worker's request can be an honest worker's: nothing is computed with
// them before.
//
//   features       ids at most once in a row, values up to kMostValue
//   dense rows     gradients up to kMostReplied: their squares stay finite
//   h, dL/da       h not negative with relu; elements up to what honest sums of the servers'
//                  replies can reach, which are within kMostReplied each; with dense layers workers
//                  end as diverged beyond kMostReplied
//   log Z          at least the server's own log of its sum of exponentials
//   labels         at most once in a row, not more than `totals` says
//   weights        up to kMostWeight
//
// and the largest row norm of a batch's features, h, dL/da (times the batch's samples) and
// gradients of dense layers (means over the samples: times the square root of their number), and
// its largest weight, within what NormBound has learned. With
// kMostReplied = 2^60, sums of squares (AdaGrad, Adam) and products with weights stay finite in
// fp32. Owned by the network thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "server/gate/norm_bound.h"

namespace dslide {

class NumberCheck {
 public:
  static constexpr float kMostValue = 0x1p40f;  // of a feature; data has at most kMostFeatureValue
  static constexpr float kMostWeight = 1e6f;
  // What log Z may lack, because it was rounded: this, and this share of it.
  static constexpr float kLogTolerance = 0.01f;
  static constexpr float kLogShare = 1e-4f;

  // Why a request of a worker is refused; empty: it is plausible. Notes offences.
  std::string WhyRefused(Incarnation sender, const Body& request, const ServerSeat& seat,
                         ServerOutbox* out);
  // Takes the next batch out of an EmbedPush whose features are refused: the push may go on.
  void TakeOutNext(Incarnation sender, Body* request, ServerOutbox* out);
  // What the server has answered to an ActiveQuery, with sums of exponentials of 1 (Condense()).
  void NoteReply(Incarnation sender, const BatchId& batch, const ActiveReply& reply);
  // Whether a reply out of range to this worker's request says that training has diverged. It does
  // if the request has changed the model. Otherwise the request's own numbers may have led there,
  // and a second worker has to find the same for its batch (or the only worker, NormBound::kTries
  // times).
  [[nodiscard]] bool IsDiverged(Incarnation sender, const Body& request);
  // The reply to this worker's request is in range.
  void NoteInRange(Incarnation sender, const Body& request, ServerOutbox* out);
  void DropWorker(Incarnation worker);

  // For people, who has set the bounds: "features: KEY NORM, ...; h: ...". "": nobody has.
  std::string Bounds() const;

 private:
  static constexpr size_t kMostOpen = 2048;                // batches
  static constexpr size_t kMostNumbers = size_t{4} << 20;  // of all batches

  // What is known of a batch in flight.
  struct Open {
    std::vector<float> log_sums;  // [B] of the server's own part
    uint64_t turn = 0;
  };
  using Key = std::pair<Incarnation, BatchId>;

  std::string WhyAbsurd(Incarnation sender, const Body& request, const ServerSeat& seat) const;
  std::string WhyLogIsAbsurd(Incarnation sender, const GradientPush& request,
                             const ServerSeat& seat) const;
  std::string WhyTooLarge(Incarnation sender, const Body& request, ServerOutbox* out);
  std::string Judge(NormBound* bound, const char* what, Incarnation sender, const BatchId& batch,
                    float norm, ServerOutbox* out);
  Open& Remember(const Key& key);

  // Typical norms: rows of data and activations are about 1 long, and so is the product of an error
  // and a row; means over a batch are smaller.
  NormBound features_{1}, hidden_{1}, weights_{1}, gradient_{0.1f}, dense_{0.01f};
  // By the kind of reply; infinity: it was out of range. An EmbedReply in range says nothing about
  // the ActiveReply to the same batch.
  std::array<NormBound, 3> replies_;
  std::map<Key, Open> open_;
  size_t numbers_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace dslide
