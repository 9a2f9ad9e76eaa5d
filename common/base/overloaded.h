// A visitor for std::visit made of lambdas, one for each alternative.
#pragma once

namespace dslide {

template <typename... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <typename... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;

}  // namespace dslide
