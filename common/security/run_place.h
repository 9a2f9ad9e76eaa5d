// Finds the scheduler of a run, and the key that it admits, from a place that the user names.
// Members and commands use the same functions.
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/security/member_key.h"

namespace dslide {

// The file in a run directory to which a scheduler writes its address once it has read its data.
constexpr char kAddressName[] = "scheduler.address";

// Where a run lies on this machine, or on a disk that it shares.
struct RunPlace {
  std::string address_file;  // absolute
  std::string directory;     // of address_file
};

// `place`: a run directory or the file scheduler.address in it, as a path or as file:///PATH.
// nullopt: an address, a join string or "". Errors are kBadInput; kTryLater: the run is there, and
// its scheduler does not listen yet.
Result<std::optional<RunPlace>> RunPlaceOf(const std::string& place);

// AccessFrom() for any place, with the key keys/`role`.key of a run that has keys, if `key_file` is
// empty. Errors are those of AccessFrom() and RunPlaceOf().
Result<SchedulerAccess> AccessTo(const std::string& place, const std::string& key_file,
                                 const std::string& role);

}  // namespace dslide
