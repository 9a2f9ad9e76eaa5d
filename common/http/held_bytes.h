// The memory that the requests of an HTTP server hold: bodies that come, bodies that are answered,
// and responses that are sent. It is bounded over all requests and for each client's address.
//
// Beyond a bound the request with the most bytes times milliseconds is given up first: a client
// that sends or reads at a usual speed outlasts those that fill the memory and wait. A body that is
// complete is never given up. The first Limits::own bytes of each request are free, so that small
// requests are answered whatever the large ones do.
//
// One thread uses an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dslide {

class HeldBytes {
 public:
  struct Limits {
    size_t all = 0;         // over all requests; 0: any number
    size_t of_address = 0;  // of the requests of one address; 0: any number
    size_t own = 8 << 10;   // of each request, which are not counted
  };
  enum class Kind {
    kIncoming,  // a body that is not complete
    kComplete,  // a body that is being answered
    kResponse,
  };
  using Id = const void*;

  explicit HeldBytes(const Limits& limits) : limits_(limits) {}

  // The request holds `bytes` from now on, of this kind only. Returns the requests that are given
  // up, which may be this one if its body is incoming; they hold nothing any more.
  [[nodiscard]] std::vector<Id> Set(Id id, const std::string& address, Kind kind, size_t bytes,
                                    int64_t now_ms);
  void Erase(Id id);

  size_t bytes() const { return all_; }  // that are counted

 private:
  struct Held {
    std::string address;
    Kind kind;
    size_t bytes;  // that are counted
    int64_t since_ms;
  };
  using Entry = std::map<Id, Held>::iterator;

  bool IsOver(const std::string& address) const;
  Entry LargestFor(Id id, const std::string& address, int64_t now_ms);
  void Erase(Entry entry);

  const Limits limits_;
  std::map<Id, Held> held_;
  std::map<std::string, size_t> of_address_;
  size_t all_ = 0;
};

}  // namespace dslide
