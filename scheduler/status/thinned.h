// Points of a run that goes on for any time, in bounded memory.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace dslide {

// Keeps at most kMost points, and one more for what has come since the last of them. When there are
// too many, two neighbours become one, over the whole run, and from then on a point stands for
// twice as many additions. A `Point` has Merge(next), which takes the following point in.
template <typename Point, size_t kMost>
class Thinned {
  static_assert(kMost % 2 == 0);

 public:
  void Add(Point point) {
    if (open_) {
      open_->Merge(std::move(point));
    } else {
      open_ = std::move(point);
    }
    if (++in_open_ < stride_) return;
    points_.push_back(std::move(*open_));
    open_.reset();
    in_open_ = 0;
    if (points_.size() >= kMost) Halve();
  }

  // Neighbours become one. A caller whose points have grown calls it, too.
  void Halve() {
    size_t kept = 0;
    for (size_t i = 0; i + 1 < points_.size(); i += 2) {
      points_[i].Merge(std::move(points_[i + 1]));
      if (kept < i) points_[kept] = std::move(points_[i]);
      ++kept;
    }
    if (points_.size() % 2 == 1) {
      if (kept + 1 < points_.size()) points_[kept] = std::move(points_.back());
      ++kept;
    }
    points_.resize(kept);
    stride_ *= 2;
  }

  // In order; the last one is the newest.
  std::vector<Point> Points() const {
    std::vector<Point> points = points_;
    if (open_) points.push_back(*open_);
    return points;
  }
  // Without the one that is still being added to.
  size_t size() const { return points_.size(); }

 private:
  std::vector<Point> points_;
  std::optional<Point> open_;
  size_t in_open_ = 0;  // additions to open_
  size_t stride_ = 1;   // additions to a point
};

}  // namespace dslide
