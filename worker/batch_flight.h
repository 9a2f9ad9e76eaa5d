// One batch on its way through the four messages (PROTOCOL section 5), or through evaluation.
//
// A pure state machine: RequestFor() returns the request for a server, Take() collects the replies
// in any order; a stage's last reply begins the next stage. The sums over servers are formed in
// server order, so the result does not depend on which server answers first.
//
//   kEmbed   EmbedRequest -> pre-activations, summed; h = relu(.), scaled for dropout
//   kQuery   ActiveQuery  -> softmax statistics, merged; loss, recall, log-normaliser
//   kPush    GradientPush -> dL/dh, summed; masked by relu and dropout
//   kEmbedPush EmbedPush  -> acknowledgements; done
//   kTopK    (evaluation, after kEmbed) TopKRequest -> best labels, merged; done
//
// With dense layers (common/run/dense_layers.h) h_1 = relu(.) goes through them after kEmbed, and
// dL/dh_L back after kPush; kEmbedPush sends their gradients, too. A flight that is given no copy
// of their rows asks for one with kEmbed.
//
// kEmbed and kEmbedPush ask the servers with input rows, the other stages those with neurons. Where
// one server has all neurons kQuery includes kPush: that server can compute the normaliser itself.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/config/config.h"
#include "common/run/dense_layers.h"
#include "common/run/lease_proofs.h"
#include "common/wire/messages.h"

namespace dslide {

class BatchFlight {
 public:
  enum class Stage { kEmbed, kQuery, kPush, kEmbedPush, kTopK, kDone };

  // `config` and `plan` must outlive the flight. `lease` has the kind and the batch's identity.
  // kEmbed also asks the servers that are `greeted` ([servers]; empty: none), for nothing: a server
  // that cannot be reached must get no slots, and it gets some when batches have gone on under a
  // plan. `dense`: what it computes with; null: what the servers send, if there are dense layers.
  BatchFlight(const Config& config, const Plan& plan, const LeaseGrant& lease, LeaseBatch batch,
              uint64_t number, std::vector<bool> greeted = {},
              std::shared_ptr<const DenseWeights> dense = nullptr);

  Stage stage() const { return stage_; }
  bool done() const { return stage_ == Stage::kDone; }
  const BatchId& id() const { return done_.batch; }

  // Whether the current stage asks a server. REQUIRES !done().
  bool Asks(uint32_t server) const;
  // The current stage's request for one server. REQUIRES Asks(server).
  Body RequestFor(uint32_t server) const;
  // Whether it has asked the servers for the rows of the dense layers.
  bool wants_dense() const { return wants_dense_; }
  // What it computes with; null: there are no dense layers, or they have not come yet.
  const std::shared_ptr<const DenseWeights>& dense() const { return dense_; }
  // Whether all stages ask all servers.
  bool AllHaveBothLayers() const;
  // A request for nothing.
  EmbedRequest Greeting() const;

  // Takes a server's reply to the current stage. Returns true when that completed the stage (the
  // next stage's requests are then due, or the flight is done); an Error says why the reply is
  // invalid. `proof`: of the reply, if it is to the batch's last request there.
  Result<bool> Take(uint32_t server, Body reply, const BatchProof& proof = {});

  // Counts bytes sent to and received from servers for this batch; `kind` is the Body::index().
  void CountSent(size_t kind, size_t bytes);
  void CountReceived(size_t kind, size_t bytes);

  // Whether a Take() has failed because the dense layers make numbers that are out of range of what
  // the servers have sent, which was in range: the model has diverged, and no other try helps.
  bool diverged() const { return diverged_; }

  // The report to the scheduler. REQUIRES done().
  const BatchDone& report() const { return done_; }

 private:
  void SplitOverServers(const LeaseBatch& batch);
  void AddEmptySample();
  bool IsGreeted(uint32_t server) const { return stage_ == Stage::kEmbed && !with_input_[server]; }
  // Whether the stage waits for such a reply.
  bool Awaits(uint32_t server, const Body& reply) const;
  Status CheckShape(uint32_t server, const Body& reply) const;
  void AddPartials();
  Status CheckFinite();
  void Advance();
  Status TakeDense();
  void Activate();
  void CutOffEmptySamples(Matrix* matrix) const;
  std::optional<LayerRows> DenseGradientsFor(uint32_t server) const;
  bool IsDenseOf(uint32_t server, const std::optional<LayerRows>& rows) const;
  uint32_t CountAsked() const;  // servers that the stage asks. REQUIRES !done()
  float WeightOf(uint32_t sample) const { return weights_.empty() ? 1.0f : weights_[sample]; }
  void MergeStatistics(ActiveReply merged);
  void MaskGradient(Matrix gradient);
  void MergePredictions();

  const Config& config_;
  const Plan& plan_;
  LeaseKind kind_;
  uint32_t samples_;
  uint32_t top_k_;
  uint64_t number_;  // BatchNumber
  Bytes ticket_;
  Stage stage_ = Stage::kEmbed;
  std::vector<bool> with_input_;        // [servers] which have input rows
  std::vector<bool> with_neurons_;      // which have neurons
  bool only_server_;                    // one server has all neurons
  std::vector<bool> greeted_;           // which get a Greeting(), if they have no input rows
  std::vector<SparseRows> features_;    // [servers]
  std::vector<SparseRows> labels_;      // [servers]
  SparseRows all_features_;             // kept only if own features are left out of the ranking
  std::vector<uint32_t> label_totals_;  // [B]
  std::vector<float> weights_;          // [B] of the samples' losses; empty: all 1
  std::vector<std::optional<Body>> replies_;  // [servers]
  std::vector<BatchProof> proofs_;            // [servers] none before they come
  uint32_t missing_ = 0;                      // of the servers that the stage asks
  uint32_t added_ = 0;                        // of the replies, from the first, are in sum_
  std::optional<PartialSum> sum_;             // [B x H]; none was added yet
  Matrix first_;                              // [B x H_1] h_1, if there are dense layers
  Matrix hidden_;                             // [B x H_L] h_L
  GradientPush push_;
  Matrix gradient_;  // [B x H_1]
  bool wants_dense_;
  std::shared_ptr<const DenseWeights> dense_;
  std::vector<Matrix> dense_hidden_;  // h_2 ... h_L, until the way back
  Matrix dense_gradient_;             // [R x H_1]
  bool diverged_ = false;
  BatchDone done_;
};

}  // namespace dslide
