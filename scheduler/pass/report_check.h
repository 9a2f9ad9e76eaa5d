// Whether the report of a batch can be believed, and what of it is shown.
//
// Servers' receipts prove that the worker was leased the batch and went through all its steps, and
// what loss the servers have seen; a worker that reports another loss lies. The counts in
// the report cannot be checked, so they are held within bounds: no worker can make the totals that
// people see meaningless.
//
// Bounds of the loss of a sample. That of the softmax is -log p of its labels. The smallest p that
// fp32 holds is 2^-149, and -log of that is less than 104; the weights of drawn neurons add log N
// at most. So log N + 104 is as wrong as a model can be, and what is above that is shown as that: a
// model that diverges has such losses, and its workers are honest. With the sigmoid each of the N
// neurons has a loss of its own. Beyond 2^64 the square of a logit leaves fp32. No server trains on
// then, so nobody reports it in good faith.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "scheduler/base/run_inputs.h"

namespace dslide {

// The loss of a trained batch by the parts that receipts prove: what servers have seen. nullopt:
// one of them does not know its part.
std::optional<double> LossSeenByServers(const BatchDone& done);

// The fault of a report.
struct ReportFault {
  std::string why;  // as in "worker-1 ..."; "": it is believed
  // The servers whose receipts are wrong or missing: the worker may have left out its requests to
  // them, or they lie.
  std::vector<Incarnation> servers = {};
  // The loss is not the one that the servers have told: one of them may have told others another.
  bool is_loss = false;
};

// `plan`: by which the batch ended. `weight`: of its samples, together.
ReportFault FaultOf(const BatchDone& done, LeaseKind kind, Incarnation worker, const Plan& plan,
                    double weight, const RunContext& run);

// The report of a trained batch with figures within what is shown. REQUIRES that it is believed.
BatchDone Bounded(const BatchDone& done, double weight, const RunContext& run);

// Whose reports were believed by the newest plan, and whose were not. A server that gives no
// receipts, or answers with garbage, makes all workers look like liars; so the offences of one
// count only when another one has shown that honest work is possible.
class Believed {
 public:
  void Note(uint32_t plan_version, Incarnation worker, bool believed);
  bool ByAnother(uint32_t plan_version, Incarnation worker) const;
  // Nobody's was, and two workers' were not, or those of the only one of `workers`.
  bool Nobodys(uint32_t plan_version, size_t workers) const;

 private:
  // Two different workers, as soon as there are; 0: none.
  struct Two {
    void Add(Incarnation worker);

    Incarnation first, second;
  };

  uint32_t plan_version_ = 0;
  Two believed_, doubted_;
};

}  // namespace dslide
