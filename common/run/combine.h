// Adds up the partial replies of those who share a batch's parameters. A server combines its
// executors this way, a worker its servers, and both in a fixed order, so one mechanism scales both
// ways.
#pragma once

#include <span>
#include <vector>

#include "common/wire/messages.h"

namespace dslide {

// REQUIRES at least one part; the parts answer the same request (same shapes).
// Elementwise sums.
Matrix SumMatrices(std::vector<Matrix> parts);

// Merges local softmax statistics (log-sum-exp with the largest maximum as shift), adds counts,
// target logits and losses, merges probes to the best of all.
ActiveReply MergeActive(std::vector<ActiveReply> parts);

// The best k of all parts per row, best first; ties by lower id.
TopKReply MergeTopK(std::span<const TopKReply> parts, uint32_t k);

// The same statistics with sum_exp = 1 for each sample, so that the messages need not hold it: max
// becomes log of the sum of exponentials.
void Condense(ActiveReply* reply);

// log of the softmax normaliser per row: max + log(sum_exp); -inf if nothing was scored.
std::vector<float> LogNormaliser(const ActiveReply& merged);

// What follows an ActiveQuery once all servers' statistics are merged.
GradientPush PushAfter(const BatchId& batch, const ActiveReply& merged);

}  // namespace dslide
