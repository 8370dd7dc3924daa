#include "operators.h"

#include <aclnn/aclnn_serve.h>

#include <type_traits>
#include <utility>

#include "every_operator.h"

namespace aclnn::conformance {
namespace {

// What the arguments of one call have made, until it has been planned.
using Made = std::vector<std::function<void()>>;

template <class Handle, class Destroy>
Handle* keep(Made& made, Handle* handle, Destroy destroy) {
  made.emplace_back([=] { destroy(handle); });
  return handle;
}

// The value of an argument, as its C type.
template <class C>
C value_of(const Json& argument, const Tensors& tensors, Made& made) {
  using Bare = std::remove_cv_t<std::remove_pointer_t<C>>;
  const auto named = [&](const Json& name) { return tensors.at(name.text).get(); };
  if constexpr (std::is_pointer_v<C>) {
    if (argument.find("null") != nullptr) return nullptr;
  }
  if constexpr (std::is_same_v<Bare, aclTensor>) {
    return named(argument["tensor"])->handle();
  } else if constexpr (std::is_same_v<Bare, aclTensorList>) {
    std::vector<aclTensor*> elements;
    for (const Json& name : argument["tensors"].items) elements.push_back(named(name)->another());
    return keep(made, check(aclCreateTensorList(elements.data(), elements.size())),
                aclDestroyTensorList);
  } else if constexpr (std::is_same_v<Bare, aclScalar>) {
    return keep(made, make_scalar(argument["scalar"].text, data_type(argument["dtype"].text)),
                aclDestroyScalar);
  } else if constexpr (std::is_same_v<Bare, aclIntArray>) {
    const std::vector<int64_t> values = argument["ints"].wholes();
    return keep(made, check(aclCreateIntArray(values.data(), values.size())), aclDestroyIntArray);
  } else if constexpr (std::is_same_v<Bare, aclBoolArray>) {
    std::vector<uint8_t> values;
    for (const Json& item : argument["bools"].items) values.push_back(item.yes());
    const auto* flags = reinterpret_cast<const bool*>(values.data());
    return keep(made, check(aclCreateBoolArray(flags, values.size())), aclDestroyBoolArray);
  } else if constexpr (std::is_same_v<Bare, aclFloatArray>) {
    std::vector<float> values;
    for (const Json& item : argument["floats"].items) {
      values.push_back(static_cast<float>(item.number()));
    }
    return keep(made, check(aclCreateFloatArray(values.data(), values.size())),
                aclDestroyFloatArray);
  } else if constexpr (std::is_same_v<C, bool>) {
    return argument["bool"].yes();
  } else if constexpr (std::is_same_v<C, aclDataType>) {
    return data_type(argument["data_type"].text);
  } else if constexpr (std::is_floating_point_v<C>) {
    return static_cast<C>(argument["double"].number());
  } else if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(argument["int"].whole());
  } else if constexpr (std::is_same_v<Bare, char>) {
    return const_cast<C>(argument["text"].text.c_str());
  } else {
    throw std::runtime_error("an argument of a type that the kit has none of");
  }
}

// Calls phase one, whose last two parameters are not arguments of the operator.
template <class... C, size_t... I>
int call(aclnnStatus (*phase_one)(C...), std::index_sequence<I...>, const Json& arguments,
         const Tensors& tensors, uint64_t* size, aclOpExecutor** executor) {
  using Types = std::tuple<C...>;
  Made made;
  if (arguments.items.size() != sizeof...(I)) throw std::runtime_error("not so many arguments");
  const int code =
      phase_one(value_of<std::tuple_element_t<I, Types>>(arguments.items[I], tensors, made)...,
                size, executor);
  for (const auto& destroy : made) destroy();
  return code;
}

template <class... C>
auto planner(aclnnStatus (*phase_one)(C...)) {
  return [=](const Json& arguments, const Tensors& tensors, uint64_t* size,
             aclOpExecutor** executor) {
    return call(phase_one, std::make_index_sequence<sizeof...(C) - 2>(), arguments, tensors, size,
                executor);
  };
}

// One that only the server can know.
Operator unknown(const std::string& name) {
  const auto plan = [name](const Json&, const Tensors&, uint64_t* size, aclOpExecutor** executor) {
    const aclnnServeOperator described{name.c_str(), nullptr, 0};
    return aclnnServeGetWorkspaceSize(&described, nullptr, size, executor);
  };
  return {plan, nullptr, {}};
}

}  // namespace

const Operator& find_operator(const std::string& name) {
#define OPERATOR(name, ...) {#name, {planner(name##GetWorkspaceSize), name, {__VA_ARGS__}}},
  static std::map<std::string, Operator> operators = {EVERY_OPERATOR};
#undef OPERATOR
  return operators.emplace(name, unknown(name)).first->second;
}

}  // namespace aclnn::conformance
