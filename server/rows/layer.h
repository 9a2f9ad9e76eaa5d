// The parameter rows of one layer that live in one executor: weights, optimiser state, bias.
//
// Row r (a SlotMap local index) has weights [dim], Adam's moments [dim] each, and RowScalars.
// Weights are fp32 or bf16 (model.precision), moments likewise (train.moments).
//
// Weights, moments and scalars are four arrays, not one record per row: a forward pass or a scan
// over all neurons then reads nothing but weights.
//
// With LimitMemory() weights and moments of some rows may be in a file (tier/row_tier.h), and the
// arrays hold the others in places. Rows are then read when they are used; Fetch() has those of a
// batch read together. Scalars and masses stay in memory.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/huge_buffer.h"
#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/rows/changed_rows.h"
#include "server/rows/optimizer.h"
#include "server/rows/slot_map.h"
#include "server/rows/tier/row_tier.h"

namespace dslide {

// Also the first byte of a row's key in a checkpoint.
enum class LayerKind : uint8_t { kInput = 0, kOutput = 1 };

enum class Purpose { kTraining, kInference };

class Layer : private RowSource {
 public:
  // Inference keeps no moments in memory; stored rows contain them all the same.
  Layer(LayerKind kind, const Config& config, SlotMap map, Purpose purpose, const Kernels& kernels);

  LayerKind kind() const { return kind_; }
  const SlotMap& map() const { return map_; }

  // Slots come and go as in SlotMap, with their rows. Reserve(): the rows are zero; rows() may
  // grow, which may move what a RowView points to. Attach(): the rows count as changed. Release():
  // their memory is given back to the system.
  // Attach() and Detach() REQUIRE that no snapshot in progress contains the slot.
  void Reserve(SlotId slot);
  void Attach(SlotId slot);
  void Detach(SlotId slot) { map_.Detach(slot); }
  void Release(SlotId slot);
  // The layer has ids up to `total`; the rows of the new ones are zero and count as changed. Local
  // indices may change, as SlotMap::Widen() says. REQUIRES total >= map().total(), no snapshot
  // in progress and no limit of memory.
  bool Widen(uint64_t total);
  // The row begins anew: drawn as by Initialise(), as if nothing had been learned.
  void BeginAnew(uint32_t row, uint64_t seed, float deviation);
  // What neurons of a slot that have learned are like: the mean of their weights and biases, and
  // the median of what AdaGrad has added up for them.
  struct Typical {
    std::vector<float> weights;  // [dim]; empty: none has learned
    float bias = 0;
    float accumulated = 0;
  };
  Typical TypicalOf(SlotId slot) const;
  // The row becomes such a neuron, without other optimiser state. REQUIRES one that is known.
  void BeginAs(uint32_t row, const Typical& typical);
  // The neuron falls silent (common/run/silence.h).
  void Silence(uint32_t row);

  // From now on no more rows than `places` are in memory; if there are more, the others are in such
  // a file. Error: there can be none. REQUIRES training, that no row has been set, and places >=
  // RowTier::kLeastPlaces. Reserve() throws std::bad_alloc if it needs the file first and cannot
  // make it.
  Status LimitMemory(const TierFile::Options& file, uint32_t places);
  // Null: all rows are in memory.
  const RowTier* tier() const { return tier_.get(); }
  bool has_rows_on_disk() const { return tier_ != nullptr; }
  RowsOnDisk on_disk() const;
  // Has rows read that will be used; some may be on their way afterwards. `again`: it was called
  // for these rows and this batch before, or will be. Costs nothing where all rows are in memory.
  void Fetch(std::span<const uint32_t> rows, bool again = false) const {
    if (tier_ != nullptr) tier_->Request(rows, !again, *this);
  }
  // Before rows[u] is used, for u = 0, 1 ... in turn: the same of rows some way ahead.
  void FetchAhead(std::span<const uint32_t> rows, size_t u) const {
    if (tier_ != nullptr && u % kFetched == 0) FetchPart(rows, u);
  }

  uint32_t dim() const { return dim_; }
  bool bf16() const { return bf16_; }

  // The rows that the next snapshot has to write; Update() maintains them. Empty for inference.
  ChangedRows& changed() { return changed_; }
  const ChangedRows& changed() const { return changed_; }

  float bias(uint32_t row) const { return scalars_[row].bias; }
  // REQUIRES inference.
  void ShiftBias(uint32_t row, float by) { scalars_[row].bias += by; }

  // The running mean of what ObserveMass() was told; 0: nothing yet. Stored with the row, if
  // neurons are drawn by it (DrawsByMass) and these are output neurons. ObserveMass() REQUIRES
  // changed().BeforeChange(row), as for row().
  bool keeps_mass() const { return keeps_mass_; }
  float mass(uint32_t row) const { return masses_[row]; }
  void ObserveMass(uint32_t row, float mass);

  // One optimiser step, given the gradients of the weights ([dim]) and of the bias. `decay` is
  // false for rows that are biases themselves.
  void Update(uint32_t row, float learning_rate, const float* gradient, float bias_gradient,
              bool decay);

  // Makes the row the centroid of its samples: the direction of the sum of their unit vectors, with
  // the given length. Adds `samples` of them, whose unit vectors add up to units [dim]; the first
  // call of a pass (1, 2, ...) begins a new sum.
  void AddToCentroid(uint32_t row, const float* units, uint32_t samples, uint32_t pass,
                     float length);
  // The next AddToCentroid() begins a new sum.
  void EndCentroidPass(uint32_t row) { scalars_[row].moment2 = 0; }
  // Of a row that is a centroid.
  uint32_t samples(uint32_t row) const { return scalars_[row].steps; }
  float sum_length(uint32_t row) const { return scalars_[row].moment1; }

  // out[i] = weights of rows[i], [rows x dim]; fp32 weights are rounded to nearest for a bf16
  // output.
  void Gather(std::span<const uint32_t> rows, float* out) const;
  void Gather(std::span<const uint32_t> rows, uint16_t* out) const;
  // Weights of local rows [begin, end), [(end - begin) x dim]: in place, or converted into
  // *scratch.
  const float* Range(uint32_t begin, uint32_t end, std::vector<float>* scratch) const;
  // weights . x
  float Dot(uint32_t row, const float* x) const;
  // out[dim] = sum_e factors[e] * weights of rows[e].
  void WeightedSum(std::span<const uint32_t> rows, const float* factors, float* out) const;

  // Prefetches the row's weights, or everything that an update of the row touches.
  void PrefetchWeights(uint32_t row) const;
  void PrefetchAll(uint32_t row) const;
  // Prefetches the row's mass. REQUIRES keeps_mass().
  void PrefetchMass(uint32_t row) const { __builtin_prefetch(&masses_[row]); }

  // Bytes of a row in memory: its weights, and its optimiser vectors.
  size_t WeightBytes() const { return dim_ * (bf16() ? sizeof(uint16_t) : sizeof(float)); }
  size_t StateBytes() const;
  size_t MassBytes() const { return keeps_mass_ ? sizeof(float) : 0; }

  // The parameters in place, until another row is used. REQUIRES fp32, and
  // changed().BeforeChange(row) before they are changed.
  RowView row(uint32_t row);
  const float* weights(uint32_t row) const;

  // Draws the weights of id i from a distribution with mean 0 and the given standard deviation
  // (sum of four uniforms, bounded at 3.46 deviations) by (seed, layer, i) alone, so any split over
  // servers starts equal. Ids >= `drawn` stay 0.
  void Initialise(uint64_t seed, float deviation, uint32_t drawn);
  // Of one row, whose weights from `columns` on are 0.
  void InitialiseRow(uint32_t row, uint64_t seed, float deviation, uint32_t columns);
  void SetWeights(uint32_t row, const float* weights);

  // Bytes of a stored row: scalars, weights, moments, mass. Rows of an earlier version's run with
  // model.active = sampled have no mass.
  size_t RowBytes() const;
  size_t RowBytesWithoutMass() const { return RowBytes() - MassBytes(); }
  // Copies a row to / from its stored form, RowBytes() long, little-endian. Storing REQUIRES
  // training.
  void StoreRow(uint32_t row, uint8_t* out);
  void LoadRow(uint32_t row, const uint8_t* in) { LoadRow(row, {in, RowBytes()}); }
  // Copies a row from its stored form, with or without mass. REQUIRES RowBytesWithoutMass() bytes
  // or more.
  void LoadRow(uint32_t row, std::span<const uint8_t> in);

  // Memory of all regions that are not free, or of all places.
  uint64_t MemoryBytes() const;
  // What a row takes in memory in any case.
  size_t FixedBytes() const { return sizeof(RowScalars) + MassBytes() + RowTier::kRowBytes; }

 private:
  // One vector of [dim] per row, in one of the two precisions; the other array is empty.
  struct Vectors {
    HugeBuffer<float> fp32;
    HugeBuffer<uint16_t> bf16;

    bool narrow;

    explicit Vectors(bool in_bf16) : narrow(in_bf16) {}
    void Grow(size_t elements);
    void Spread(size_t before, size_t after, size_t regions);
    void GiveBack(size_t begin, size_t end);
    const uint8_t* At(size_t element) const;
    uint8_t* At(size_t element) { return const_cast<uint8_t*>(std::as_const(*this).At(element)); }
  };

  static constexpr size_t kFetched = 256;  // rows of a FetchAhead()

  // The draw of Initialise(), for rows that are drawn when they are first used.
  struct Draw {
    uint64_t seed = 0;
    float deviation = 0;
    uint32_t drawn = 0;
  };

  // Where the row's vectors are in the arrays, until another row is used.
  uint32_t PlaceOf(uint32_t row) const { return tier_ == nullptr ? row : tier_->Hold(row, *this); }
  // The same of a row that is going to change.
  uint32_t ChangingPlaceOf(uint32_t row);
  void DrawRow(uint32_t row, uint8_t* record) const override;
  void FetchPart(std::span<const uint32_t> rows, size_t u) const;
  Status StartTier();
  std::vector<float> Drawn(uint32_t id, const Draw& draw, uint32_t columns) const;
  void SumOfPlaces(std::span<const uint32_t> rows, const float* factors, const uint8_t* weights,
                   float* out) const;
  void SumFromTier(std::span<const uint32_t> rows, const float* factors, float* out) const;
  void PutWeights(const float* weights, uint8_t* out) const;
  const uint8_t* WeightsToRead(uint32_t row) const;

  template <typename Weight, typename Moment>
  RowOf<Weight, Moment> ViewOf(uint32_t row);
  size_t VectorBytes(bool narrow) const {
    return dim_ * (narrow ? sizeof(uint16_t) : sizeof(float));
  }
  // Applies copy(memory, bytes) to the row's vectors in stored order; memory is null for moments
  // that are not kept.
  template <typename Copy>
  void ForEachVector(uint32_t place, const Copy& copy);
  void Grow();
  void GrowVectors(size_t rows);
  void Clear(uint32_t row);
  bool KeepsMoments() const { return training_ && moments_ > 0; }

  LayerKind kind_;
  SlotMap map_;
  uint32_t dim_;
  uint32_t moments_;  // vectors stored per row
  bool bf16_;
  bool narrow_moments_;
  bool training_;
  bool keeps_mass_;
  const Kernels& kernels_;
  Optimizer optimizer_;
  Vectors weights_;
  Vectors moment1_;  // empty where moments are not kept
  Vectors moment2_;
  HugeBuffer<RowScalars> scalars_;  // [rows]
  HugeBuffer<float> masses_;        // [rows]; empty where masses are not kept
  ChangedRows changed_;
  TierFile::Options tier_file_;
  uint32_t most_places_ = 0;  // 0: no limit
  std::unique_ptr<RowTier> tier_;
  Draw draw_;                             // of rows in the tier
  mutable std::vector<uint32_t> places_;  // scratch of WeightedSum()
  mutable std::vector<uint8_t>
      few_weights_;  // the same, rows in the tier that do not fit in memory
};

}  // namespace dslide
