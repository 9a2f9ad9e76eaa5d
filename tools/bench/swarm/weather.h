// When the machines of a swarm come and go: sessions of workers, by the hour of their site's day;
// failures of servers; failures of whole sites.
//
// Times between events are exponential. Pure: all draws come from the seed.
#pragma once

#include <cstdint>

#include "common/base/random.h"

namespace dslide {

struct WeatherSettings {
  uint32_t sites = 20;
  double session_h = 3;         // a worker's time in the run, mean
  double server_mtbf_h = 2000;  // mean time between failures of one server
  double site_mtbf_h = 200;     // the same of one site
  double site_outage_s = 90;    // nobody at the site is heard
  double server_back_s = 60;    // until a failed server is started again
  bool day_and_night = true;    // more workers at night, in the site's time
};

class Weather {
 public:
  Weather(const WeatherSettings& settings, uint64_t seed) : settings_(settings), random_(seed) {}

  // The share of a site's workers that are there at this time of the run: 0.9 at 3 o'clock of the
  // site's night, 0.5 twelve hours later. Sites are spread around the earth.
  double Share(uint32_t site, int64_t now_ms) const;

  int64_t SessionMs() { return Exponential(settings_.session_h * kHourMs); }
  // Until a worker that has gone comes back, so that Share() of them are there in the mean.
  int64_t AbsenceMs(uint32_t site, int64_t now_ms);
  int64_t ServerFailureMs() { return Exponential(settings_.server_mtbf_h * kHourMs); }
  int64_t SiteFailureMs() { return Exponential(settings_.site_mtbf_h * kHourMs); }
  // Half of the workers say goodbye, the others are switched off.
  bool SaysGoodbye() { return random_.Below(2) == 0; }
  double Uniform() { return random_.Uniform(); }

  const WeatherSettings& settings() const { return settings_; }

 private:
  static constexpr double kHourMs = 3'600'000;
  int64_t Exponential(double mean_ms);

  const WeatherSettings settings_;
  Random random_;
};

}  // namespace dslide
