#include "server/base/outbox.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace dslide {

Message ServerOutbox::Envelop(Body body, uint64_t reply_to) {
  return {link_.Next(plan_version_, reply_to), std::move(body)};
}

uint64_t ServerOutbox::ToScheduler(Body body) {
  actions_.push_back(server_action::SendToScheduler{Envelop(std::move(body))});
  return link_.last_sequence();
}

uint64_t ServerOutbox::ToServer(const PlanServer& server, Body body) {
  actions_.push_back(server_action::SendToServer{server, Envelop(std::move(body))});
  return link_.last_sequence();
}

void ServerOutbox::Answer(const PeerId& peer, uint64_t sequence, Body body) {
  const Message message = Envelop(std::move(body), sequence);
  SendToPeer(peer, std::make_shared<const Bytes>(Encode(message, WirePrecision::kFp32)));
}

std::shared_ptr<const Bytes> ServerOutbox::Answer(const Asker& asker, Body body, int64_t now_us) {
  Message message = Envelop(std::move(body), asker.sequence);
  message.envelope.service_us =
      static_cast<uint32_t>(std::max<int64_t>(0, now_us - asker.arrived_us));
  if (!std::holds_alternative<ErrorReply>(message.body)) asker.proof.PutInto(&message.envelope);
  auto bytes = std::make_shared<const Bytes>(Encode(message, asker.precision));
  SendToPeer(asker.peer, bytes);
  return bytes;
}

void ServerOutbox::SendToPeer(const PeerId& peer, std::shared_ptr<const Bytes> bytes) {
  actions_.push_back(server_action::SendToPeer{peer, std::move(bytes)});
}

ServerActions ServerOutbox::Drain() {
  CheckOrder();
  return std::exchange(actions_, {});
}

// Executors have jobs only of their own slots: none before they are started, none after a stop.
void ServerOutbox::CheckOrder() const {
  bool stopped = false, begun = false;
  for (const ServerAction& action : actions_) {
    const bool starts = std::holds_alternative<server_action::StartExecutors>(action);
    const bool uses = std::holds_alternative<ServerWork>(action) ||
                      std::holds_alternative<ServerSave>(action) ||
                      std::holds_alternative<server_action::GiveUpSave>(action);
    DSLIDE_CHECK(!(starts && begun) && !(uses && stopped));
    begun |= starts || uses;
    stopped = (stopped && !starts) || std::holds_alternative<server_action::StopExecutors>(action);
  }
}

void ServerOutbox::Submit(JobPurpose purpose, ExecutorJob job) {
  actions_.push_back(ServerWork{jobs_.Open(std::move(purpose)), std::move(job)});
}

void ServerOutbox::Submit(PeerRequest request) {
  RequestJob job{request.asker.incarnation, request.round.request(), request.asker.plan_version};
  Submit(std::move(request), std::move(job));
}

void ServerOutbox::Submit(SlotJob job) {
  const auto shared = std::make_shared<const SlotJob>(std::move(job));
  Submit(SlotMoving{shared}, shared);
}

void ServerOutbox::Load(ServerLoad load) {
  jobs_.SetExecutors(static_cast<uint32_t>(load.slots.size()));
  load.job_id = jobs_.Open(SlotLoading{});
  actions_.push_back(
      server_action::StartExecutors{std::make_shared<const ServerLoad>(std::move(load))});
}

uint64_t ServerOutbox::Save(ServerSave save) {
  save.job_id = jobs_.Open(SnapshotMarking{});
  const uint64_t job_id = save.job_id;
  actions_.push_back(std::move(save));
  return job_id;
}

void ServerOutbox::ForgetJobs() {
  std::erase_if(actions_, [](const ServerAction& action) {
    return std::holds_alternative<ServerWork>(action);
  });
  jobs_.Forget();
}

}  // namespace dslide
