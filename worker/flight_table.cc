#include "worker/flight_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr uint32_t kMostDoublings = 2;  // of the time until a request is sent again

}  // namespace

size_t FlightTable::CountUnpushed(uint64_t step) const {
  return static_cast<size_t>(std::count_if(
      flights_.begin(), flights_.end(),
      [&](const auto& entry) { return !entry.second.pushed && entry.second.step <= step; }));
}

std::vector<uint64_t> FlightTable::Unanswered() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, flight] : flights_) {
    if (!flight.answered) ids.push_back(id);
  }
  return ids;
}

uint64_t FlightTable::Begin(Flight flight) {
  flights_.try_emplace(next_flight_, std::move(flight));
  return next_flight_++;
}

std::optional<FlightTable::Failed> FlightTable::Fail(uint64_t id) {
  auto found = flights_.extract(id);
  if (found.empty()) return std::nullopt;
  Failed failed{std::move(found.mapped().leased), {}};
  for (auto& [sequence, awaited] : awaited_) {
    if (awaited.next == id) awaited.next.reset();  // the push itself stands
    if (awaited.flight == id && awaited.next) failed.next = awaited.next;
  }
  std::erase_if(awaited_, [&](const auto& entry) { return entry.second.flight == id; });
  return failed;
}

std::vector<LeasedBatch> FlightTable::Clear() {
  std::vector<LeasedBatch> leased;
  for (auto& [id, flight] : flights_) leased.push_back(std::move(flight.leased));
  flights_.clear();
  awaited_.clear();
  return leased;
}

void FlightTable::End(uint64_t flight) {
  std::erase_if(awaited_, [&](const auto& entry) { return entry.second.flight == flight; });
  flights_.erase(flight);
}

bool FlightTable::IsProbed(uint64_t flight, uint32_t server) const {
  return std::ranges::any_of(awaited_, [&](const auto& entry) {
    const AwaitedReply& awaited = entry.second;
    return awaited.probe && awaited.flight == flight && awaited.server == server;
  });
}

Body FlightTable::RequestOf(const AwaitedReply& awaited) const {
  if (awaited.probe) return At(awaited.flight).batch.Greeting();
  Body request = At(awaited.flight).batch.RequestFor(awaited.server);
  if (awaited.next) {
    std::get<EmbedPush>(request).next =
        std::get<EmbedRequest>(At(*awaited.next).batch.RequestFor(awaited.server));
  }
  return request;
}

void FlightTable::Await(uint64_t sequence, const AwaitedReply& awaited) {
  Check(awaited);
  awaited_[sequence] = awaited;
}

std::optional<AwaitedReply> FlightTable::Take(uint64_t sequence, uint32_t server) {
  const auto found = awaited_.find(sequence);
  if (found == awaited_.end() || found->second.server != server) return std::nullopt;
  Check(found->second);
  return awaited_.extract(found).mapped();
}

void FlightTable::SendAgain(int64_t now_us, int64_t timeout_us,
                            const std::function<void(uint64_t, const AwaitedReply&)>& send) {
  for (auto& [sequence, awaited] : awaited_) {
    if (now_us - awaited.sent_us < timeout_us << std::min(awaited.repeats, kMostDoublings))
      continue;
    awaited.sent_us = now_us;
    ++awaited.repeats;
    send(sequence, awaited);
  }
}

void FlightTable::CountSent(uint64_t sequence, size_t kind, size_t bytes) {
  const auto found = awaited_.find(sequence);
  if (found == awaited_.end()) return;
  found->second.bytes = bytes;
  At(found->second.flight).batch.CountSent(kind, bytes);
}

void FlightTable::Check(const AwaitedReply& awaited) const {
  DSLIDE_CHECK(Has(awaited.flight));
  DSLIDE_CHECK(!awaited.next || Has(*awaited.next));
  DSLIDE_CHECK(!awaited.next || *awaited.next != awaited.flight);
  DSLIDE_CHECK(!awaited.next || At(awaited.flight).pushed);
}

void FlightTable::CheckFlights() const {
  for (const auto& [id, flight] : flights_) {
    DSLIDE_CHECK(id < next_flight_);
    DSLIDE_CHECK(!flight.pushed || flight.answered);
    DSLIDE_CHECK(flight.leased.begun_us <= flight.started_us);
  }
}

void FlightTable::CheckInvariants(size_t servers) const {
  CheckFlights();
  for (const auto& [sequence, awaited] : awaited_) {
    Check(awaited);
    DSLIDE_CHECK(awaited.server < servers);
  }
}

}  // namespace dslide
