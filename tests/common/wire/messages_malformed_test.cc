// Whole messages that Decode() must refuse: their parts are good, but do not agree.
#include <cmath>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "common/wire/messages.h"
#include "tests/common/wire/malformed.h"
#include "tests/support/results.h"

namespace dslide::messages_malformed_test {
namespace {

using namespace testing;

TEST_CASE("malformed: not one of our buffers") {
  ExpectRefused({}, {"0 bytes"});
  ExpectRefused(Bytes(7), {"7 bytes"});
  ExpectRefused(Bytes(64), {"64 bytes", "DSLD"});
  Bytes bytes = Encode({{}, Ack()}, WirePrecision::kFp32);
  bytes[4] = 'X';  // the file identifier
  ExpectRefused(bytes, {"DSLD"});
}

TEST_CASE("malformed: no body, or one of an unknown kind") {
  Builder none;
  const auto ack = wire::CreateAck(none).Union();
  wire::FinishMessageBuffer(none, wire::CreateMessage(none, 1, 2, 3, 4, 5, wire::Body::NONE, ack));
  ExpectRefused({none.GetBufferPointer(), none.GetBufferPointer() + none.GetSize()}, {"body"});

  Builder unknown;
  const auto other = wire::CreateAck(unknown).Union();
  wire::FinishMessageBuffer(
      unknown, wire::CreateMessage(unknown, 1, 2, 3, 4, 5, static_cast<wire::Body>(200), other));
  ExpectRefused({unknown.GetBufferPointer(), unknown.GetBufferPointer() + unknown.GetSize()},
                {"body type 200"});

  Builder absent;
  const auto start = absent.StartTable();
  absent.AddElement<uint8_t>(wire::Message::VT_BODY_TYPE, static_cast<uint8_t>(wire::Body::Ack), 0);
  wire::FinishMessageBuffer(absent, flatbuffers::Offset<wire::Message>(absent.EndTable(start)));
  ExpectRefused({absent.GetBufferPointer(), absent.GetBufferPointer() + absent.GetSize()},
                {"DSLD"});
}

TEST_CASE("malformed: ActiveQuery") {
  const auto build = [](uint32_t hidden, uint32_t labels, uint32_t totals, bool batch,
                        uint8_t last_total = 1) {
    Builder b;
    const wire::BatchId id;
    const auto hidden_offset = GoodMatrix(b, hidden);
    const auto labels_offset = GoodRows(b, labels);
    const auto totals_offset = b.CreateVector(std::vector<uint8_t>(totals, last_total));
    return Finish(b, wire::CreateActiveQuery(b, batch ? &id : nullptr, hidden_offset, labels_offset,
                                             0, totals_offset));
  };
  CHECK(Decode(build(3, 3, 3, true)).ok());
  ExpectRefused(build(3, 2, 3, true), {"ActiveQuery", "labels", "2", "3"});
  ExpectRefused(build(3, 3, 4, true), {"ActiveQuery", "totals", "4", "3"});
  ExpectRefused(build(3, 3, 3, true, 0x80), {"ActiveQuery", "totals"});
  ExpectRefused(build(3, 3, 3, false), {"ActiveQuery", "batch", "missing"});
}

TEST_CASE("malformed: weights that are not one number from 0 a sample") {
  const auto bytes_of_query = [](std::vector<float> weights) {
    ActiveQuery query;
    query.hidden = Matrix(2, 2);
    query.label_totals = {1, 1};
    for (int i = 0; i < 2; ++i) query.labels.EndRow();
    query.weights = std::move(weights);
    return Encode({{}, query}, WirePrecision::kFp32);
  };
  CHECK(Decode(bytes_of_query({0, 1})).ok());
  ExpectRefused(bytes_of_query({1}), {"ActiveQuery", "weights", "1", "2"});
  ExpectRefused(bytes_of_query({1, 1, 1}), {"ActiveQuery", "weights", "3", "2"});
  ExpectRefused(bytes_of_query({1, -1}), {"ActiveQuery", "weights", "negative"});
  const auto bytes_of_grant = [](std::vector<float> weights, uint32_t rows) {
    LeaseGrant grant;
    grant.batches.resize(1);
    for (uint32_t i = 0; i < rows; ++i) {
      grant.batches[0].features.EndRow();
      grant.batches[0].labels.EndRow();
    }
    if (rows == 0) grant.batches[0].samples = 1;
    grant.batches[0].weights = std::move(weights);
    return Encode({{}, grant}, WirePrecision::kFp32);
  };
  CHECK(Decode(bytes_of_grant({1}, 1)).ok());
  ExpectRefused(bytes_of_grant({1}, 0), {"LeaseGrant", "weights", "1", "0"});
  ExpectRefused(bytes_of_grant({1, 2}, 1), {"LeaseGrant", "weights", "2", "1"});
  ExpectRefused(bytes_of_grant({-1}, 1), {"LeaseGrant", "weights", "negative"});
}

TEST_CASE("malformed: ActiveReply") {
  struct Parts {
    std::vector<float> max = {1, 2};
    std::vector<float> sum_exp = {1, 2};
    std::vector<float> target_logit = {1, 2};
    std::vector<uint32_t> active = {1, 2};
    std::vector<float> loss;
    std::vector<uint32_t> probe_ids = {3};
    std::vector<float> probe_logits = {0.5f};
    std::vector<uint8_t> in_set = {1};
    std::vector<uint8_t> in_hash = {0};
    size_t probes = 1;
  };
  const auto build = [](const std::function<void(Parts&)>& damage) {
    Parts p;
    damage(p);
    Builder b;
    std::vector<flatbuffers::Offset<wire::Probe>> probes(
        p.probes, wire::CreateProbeDirect(b, &p.probe_ids, &p.probe_logits, &p.in_set, &p.in_hash));
    return Finish(b, wire::CreateActiveReplyDirect(b, &p.max, &p.sum_exp, &p.target_logit,
                                                   &p.active, &p.loss, 7, &probes));
  };
  CHECK(Decode(build([](Parts&) {})).ok());
  CHECK(Decode(build([](Parts& p) { p.loss = {1, 2}; })).ok());
  CHECK(Decode(build([](Parts& p) { p.max[0] = -kInfinity; })).ok());
  ExpectRefused(build([](Parts& p) { p.max[0] = kNan; }), {"ActiveReply", "max", "NaN"});
  ExpectRefused(build([](Parts& p) { p.max[0] = kInfinity; }), {"ActiveReply", "max"});
  ExpectRefused(build([](Parts& p) { p.sum_exp[1] = kInfinity; }), {"sum_exp", "finite"});
  ExpectRefused(build([](Parts& p) { p.target_logit[1] = kNan; }), {"target_logit", "finite"});
  ExpectRefused(build([](Parts& p) { p.loss = {kNan, 0}; }), {"loss", "finite"});
  ExpectRefused(build([](Parts& p) { p.sum_exp = {1}; }), {"sum_exp", "1", "2"});
  ExpectRefused(build([](Parts& p) { p.target_logit = {1}; }), {"target_logit"});
  ExpectRefused(build([](Parts& p) { p.active = {1, 2, 3}; }), {"active", "3"});
  ExpectRefused(build([](Parts& p) { p.active = {}; }), {"active", "0", "2"});
  const Message same = Ok(Decode(build([](Parts& p) { p.active = {9}; })));
  CHECK(std::get<ActiveReply>(same.body).active == std::vector<uint32_t>{9, 9});
  ExpectRefused(build([](Parts& p) { p.loss = {1}; }), {"loss"});
  ExpectRefused(build([](Parts& p) { p.probes = 3; }), {"probes", "3"});
  ExpectRefused(build([](Parts& p) { p.probe_logits = {}; }), {"probes.logits"});
  ExpectRefused(build([](Parts& p) { p.probe_logits = {kNan}; }), {"probes.logits", "finite"});
  ExpectRefused(build([](Parts& p) { p.in_set = {}; }), {"probes.in_set"});
  ExpectRefused(build([](Parts& p) { p.in_hash = {1, 1}; }), {"probes.in_hash"});
}

TEST_CASE("malformed: GradientPush and EmbedPush") {
  const auto push = [](std::vector<float> normalisers) {
    Builder b;
    const wire::BatchId batch;
    return Finish(b, wire::CreateGradientPushDirect(b, &batch, &normalisers));
  };
  CHECK(Decode(push({1, 2})).ok());
  ExpectRefused(push({1, kNan}), {"GradientPush", "log_normaliser", "finite"});
  ExpectRefused(push({-kInfinity}), {"GradientPush", "log_normaliser", "finite"});
  ExpectRefused(push(std::vector<float>(65537)), {"log_normaliser", "65537"});
  Builder b;
  ExpectRefused(Finish(b, wire::CreateEmbedPush(b, nullptr, GoodMatrix(b, 1))),
                {"EmbedPush", "batch", "missing"});
}

TEST_CASE("malformed: JoinReply") {
  const auto reply = [](size_t verify_bytes, size_t receipt_bytes) {
    Builder b;
    const std::vector<uint8_t> verify(verify_bytes), receipt(receipt_bytes);
    return Finish(b, wire::CreateJoinReplyDirect(b, "w", "c", 1, 2, &verify, &receipt));
  };
  CHECK(Decode(reply(0, 0)).ok());
  CHECK(Decode(reply(32, 16)).ok());
  ExpectRefused(reply(31, 16), {"JoinReply", "verify_key", "31", "32"});
  ExpectRefused(reply(32, 15), {"JoinReply", "receipt_key", "15", "16"});
  ExpectRefused(reply(0, 16), {"JoinReply", "verify_key", "0", "32"});
}

TEST_CASE("malformed: StatusRequest") {
  const auto request = [](size_t bytes) {
    Builder b;
    const std::vector<uint8_t> padding(bytes);
    return Finish(b, wire::CreateStatusRequestDirect(b, &padding));
  };
  CHECK(Decode(request(0)).ok());
  CHECK(Decode(request(StatusRequest::kMaxPadding)).ok());
  ExpectRefused(request(StatusRequest::kMaxPadding + 1), {"StatusRequest", "padding", "1048577"});
}

TEST_CASE("malformed: TopKRequest and TopKReply") {
  const wire::BatchId batch;
  const auto request = [&](uint32_t excluded, wire::Search search,
                           const wire::BatchId* of = nullptr) {
    Builder b;
    const auto hidden = GoodMatrix(b, 3);
    return Finish(b, wire::CreateTopKRequest(b, hidden, 5, search, GoodRows(b, excluded), 0, of));
  };
  CHECK(Decode(request(0, wire::Search::Exact, &batch)).ok());
  CHECK(Decode(request(3, wire::Search::Lsh, &batch)).ok());
  CHECK(Decode(request(3, wire::Search::Scan, &batch)).ok());
  ExpectRefused(request(3, wire::Search::Scan), {"TopKRequest", "batch", "missing"});
  ExpectRefused(request(2, wire::Search::Lsh, &batch), {"TopKRequest", "excluded", "2", "3"});
  ExpectRefused(request(3, static_cast<wire::Search>(3), &batch), {"search", "3"});

  const auto reply = [](std::vector<uint8_t> lengths, std::vector<uint32_t> ids,
                        std::vector<float> scores) {
    Builder b;
    return Finish(b, wire::CreateTopKReplyDirect(b, &ids, &scores, &lengths));
  };
  CHECK(Decode(reply({1, 0}, {4}, {0.5f})).ok());
  ExpectRefused(reply({1, 1}, {4}, {0.5f}), {"TopKReply", "lengths", "2", "1"});
  ExpectRefused(reply({0x81}, {4}, {0.5f}), {"TopKReply", "lengths"});
  ExpectRefused(reply({1}, {4}, {}), {"TopKReply", "scores"});
  ExpectRefused(reply({1}, {4}, {kNan}), {"TopKReply", "scores", "finite"});
}

TEST_CASE("malformed: batches of a lease with other labels, or with samples and their number") {
  const auto grant = [](uint32_t features, uint32_t labels, uint32_t samples,
                        wire::LeaseKind kind = wire::LeaseKind::Train) {
    Builder b;
    const auto feature_rows = GoodRows(b, features);
    const auto batch = wire::CreateLeaseBatch(b, 0, feature_rows, GoodRows(b, labels), 0, samples);
    const std::vector<flatbuffers::Offset<wire::LeaseBatch>> batches = {batch};
    return Finish(b, wire::CreateLeaseGrantDirect(b, 1, kind, 0, 0, 0, &batches));
  };
  CHECK(Decode(grant(2, 2, 0)).ok());
  CHECK(Decode(grant(0, 0, 2)).ok());
  CHECK(Decode(grant(0, 0, 65536)).ok());
  ExpectRefused(grant(2, 1, 0), {"LeaseGrant", "labels", "1", "2"});
  ExpectRefused(grant(0, 1, 2), {"LeaseGrant", "labels"});
  ExpectRefused(grant(2, 2, 2), {"LeaseGrant", "features"});
  ExpectRefused(grant(0, 0, 65537), {"LeaseGrant", "samples", "65537"});
  ExpectRefused(grant(2, 2, 0, static_cast<wire::LeaseKind>(2)), {"LeaseGrant", "kind", "2"});
}

TEST_CASE("malformed: BatchDone") {
  const auto done = [](uint32_t samples, double loss, double recall, uint32_t predicted) {
    Builder b;
    const wire::BatchId batch;
    const std::vector<uint8_t> lengths(predicted);
    const auto predictions = wire::CreateTopKReplyDirect(b, nullptr, nullptr, &lengths);
    return Finish(b, wire::CreateBatchDone(b, 1, &batch, samples, loss, 0, 0, 0, 0, 0, recall, 0, 0,
                                           predictions));
  };
  CHECK(Decode(done(3, 1, 1, 3)).ok());
  CHECK(Decode(done(3, 1, 1, 0)).ok());
  ExpectRefused(done(3, 1, 1, 2), {"BatchDone", "predictions", "2", "3"});
  ExpectRefused(done(3, std::nan(""), 1, 0), {"BatchDone", "loss_sum", "finite"});
  ExpectRefused(done(3, 1, HUGE_VAL, 0), {"BatchDone", "recall_set", "finite"});
  ExpectRefused(done(65537, 1, 1, 0), {"BatchDone", "samples", "65537"});
}

TEST_CASE("malformed: strings and enumerations") {
  const auto join = [](size_t length, wire::Role role) {
    Builder b;
    const auto name = b.CreateString(std::string(length, 'x'));
    return Finish(b, wire::CreateJoin(b, 1, role, name));
  };
  CHECK(Decode(join(1 << 20, wire::Role::Worker)).ok());
  ExpectRefused(join((1 << 20) + 1, wire::Role::Worker), {"Join", "name", "1048577"});
  ExpectRefused(join(1, static_cast<wire::Role>(3)), {"Join", "role", "3"});
  const auto status = [](size_t length) {
    Builder b;
    const auto json = b.CreateString(std::string(length, 'x'));
    return Finish(b, wire::CreateStatusReply(b, json));
  };
  CHECK(Decode(status(16 << 20)).ok());
  ExpectRefused(status((16 << 20) + 1), {"StatusReply", "json", "16777217"});
  Builder error;
  ExpectRefused(Finish(error, wire::CreateErrorReply(error, static_cast<wire::ErrorCode>(7))),
                {"ErrorReply", "code", "7"});
  Builder heartbeat;
  ExpectRefused(Finish(heartbeat, wire::CreateHeartbeat(heartbeat, 0, 0, 0, 0, 0, kNan)),
                {"Heartbeat", "bucket_empty_share", "finite"});
}

TEST_CASE("malformed: absent strings and vectors are empty ones") {
  Builder b;
  const Message decoded = Ok(Decode(Finish(b, wire::CreatePlan(b, 3))));
  CHECK(std::get<Plan>(decoded.body) == Plan{3, {}, {}});
}

}  // namespace
}  // namespace dslide::messages_malformed_test
