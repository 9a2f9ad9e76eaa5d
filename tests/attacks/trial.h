// What an attack does to a ground, measured and judged.
#pragma once

#include <string>
#include <vector>

#include "tests/attacks/attack.h"
#include "tests/attacks/ground.h"

namespace dslide {

struct Limits {
  double memory_mb = 64;     // more than before, of scheduler or a server
  double goodput = 0.8;      // honest samples a second, beside the reference
  double points = 1.0;       // of P@1, from that of a clean run
  double told_points = 5.0;  // of the P@1 that the run tells, from that of its model
  int64_t answer_ms = 2000;  // of `dslide status`, above four times what it takes before
  bool judge_speed = true;   // goodput and answers; a busy machine cannot measure them
};

struct Outcome {
  std::vector<std::string> dead;
  double memory_mb = 0;        // the most that one of scheduler and servers grew by
  double memory_after_mb = 0;  // what of it is left when it has come down, or after 10 s
  double goodput = 0;
  double rate_after = 0;     // honest samples a second when the attack is over
  double goodput_after = 0;  // by the rate before
  double log_kb = 0;
  double cpu_share = 0;        // of a core, the attacker's
  double scheduler_share = 0;  // the scheduler's
  int64_t answer_ms = 0;
  double told_p_at_1 = -1;          // by the run itself, of its last evaluation
  std::vector<std::string> faults;  // what does not hold
  std::vector<std::string> said;    // by the attacker

  bool good() const { return faults.empty(); }
  // Whether another attack can be tried on the same ground.
  bool fit = true;
};

// Measures what honest workers train a second while nobody attacks.
double CalmRate(Ground* ground);

// Runs an attack for `run_ms` on a ground that trains.
//
// The goodput is what honest workers train a second while the attack goes on, by what they train
// without it: the lesser of `rate_before` and the rate after it, which is waited for until it is as
// before, ten seconds at most. If that is too little and the attacker used more than a tenth of a
// core, it is compared with the rate beside a process that burns as much CPU as the attacker did:
// what remains is what the attack does to the cluster, not what it takes from a machine that both
// share.
Outcome Try(const Attack& attack, Ground* ground, int64_t run_ms, double rate_before,
            const Limits& limits);

// As Try(), on a ground that waits: honest workers come `run_ms` after the attack has begun, and
// have to learn. `rate_before`: of a clean run.
Outcome TryFirst(const Attack& attack, Ground* ground, int64_t run_ms, double rate_before,
                 const Limits& limits);

}  // namespace dslide
