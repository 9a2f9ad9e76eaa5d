// Combines partial replies to one request. A server combines its executors' replies and a worker
// its servers' replies with the same functions, both in a fixed order.
#pragma once

#include <span>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

// Parts answer the same request (REQUIRES the same shapes), and REQUIRES at least one part.
// Elementwise sums; in fixed point, whatever the order of the parts, if all parts are.
void AddPartial(PartialSum part, PartialSum* sum);
PartialSum SumPartials(std::vector<PartialSum> parts);

// The rows of several parts in the order of their ids. REQUIRES that no id is in two parts, and
// rows of one width.
LayerRows MergeRows(std::vector<LayerRows> parts);
EmbedReply MergeEmbedded(std::vector<EmbedReply> parts);

// A sum in floats; NaN in all elements if it left the range of fixed-point numbers.
Matrix InFloats(PartialSum sum);

// Merges local softmax statistics (log-sum-exp with the largest maximum as shift), adds counts,
// target logits and losses, keeps the best neurons of all probes. Where all parts have `exp_sums`
// these are added up, and give the maximum and the sum of exponentials.
ActiveReply MergeActive(std::vector<ActiveReply> parts);

// The best k of all parts per row, best first; ties by lower id.
TopKReply MergeTopK(std::span<const TopKReply> parts, uint32_t k);

// How many of `ids` are also in `others`.
size_t CountCommon(std::span<const uint32_t> ids, std::span<const uint32_t> others);

// Scales the statistics to sum_exp = 1: max becomes the log of `exp_sums`.
void UseExpSums(ActiveReply* reply);

// Scales the statistics to sum_exp = 1 for each sample, so that messages can omit it: max becomes
// the log of the sum of exponentials.
void Condense(ActiveReply* reply);

// log of the softmax normaliser per row: max + log(sum_exp); -inf if nothing was scored.
std::vector<float> LogNormaliser(const ActiveReply& merged);

// The push that follows an ActiveQuery, from all servers' merged statistics.
GradientPush PushAfter(const BatchId& batch, const ActiveReply& merged);

// The largest number that a server replies with: one above it, or one that is not finite, is a
// diverged model's. So what workers make of such replies has a bound, too (NumberCheck).
constexpr float kMostReplied = 0x1p60f;

// Whether the numbers of a server's reply are within kMostReplied; -inf may be a maximum.
bool IsInRange(const Body& reply);

}  // namespace dslide
