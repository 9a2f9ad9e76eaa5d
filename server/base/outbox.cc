#include "server/base/outbox.h"

#include <algorithm>
#include <utility>

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
  AnswerAgain(peer, std::make_shared<const Bytes>(Encode(message, WirePrecision::kFp32)));
}

std::shared_ptr<const Bytes> ServerOutbox::Answer(const Asker& asker, Body body, int64_t now_us) {
  Message message = Envelop(std::move(body), asker.sequence);
  message.envelope.service_us =
      static_cast<uint32_t>(std::max<int64_t>(0, now_us - asker.arrived_us));
  if (!std::holds_alternative<ErrorReply>(message.body)) asker.proof.PutInto(&message.envelope);
  auto bytes = std::make_shared<const Bytes>(Encode(message, asker.precision));
  AnswerAgain(asker.peer, bytes);
  return bytes;
}

void ServerOutbox::AnswerAgain(const PeerId& peer, std::shared_ptr<const Bytes> bytes) {
  actions_.push_back(server_action::SendToPeer{peer, std::move(bytes)});
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
  actions_.push_back(std::move(load));
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
