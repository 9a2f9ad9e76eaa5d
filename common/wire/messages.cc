#include "common/wire/messages.h"

namespace dslide {

Body::Body() = default;
Body::Body(const Body& other) = default;
Body::Body(Body&& other) noexcept = default;
Body& Body::operator=(const Body& other) = default;
Body& Body::operator=(Body&& other) noexcept = default;
Body::~Body() = default;

bool Body::operator==(const Body& other) const {
  return static_cast<const AnyBody&>(*this) == static_cast<const AnyBody&>(other);
}

}  // namespace dslide
