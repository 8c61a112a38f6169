#include "kda/status.hpp"

#include "support/catch.hpp"

using kda::Code;
using kda::Result;
using kda::Status;

TEST_CASE("every code has its own name") {
  CHECK(std::string(name_of(Code::ok)) == "ok");
  CHECK(std::string(name_of(Code::invalid_argument)) == "invalid_argument");
  CHECK(std::string(name_of(Code::invalid_problem)) == "invalid_problem");
  CHECK(std::string(name_of(Code::unsupported)) == "unsupported");
  CHECK(std::string(name_of(Code::no_wisdom)) == "no_wisdom");
  CHECK(std::string(name_of(Code::compile_failed)) == "compile_failed");
  CHECK(std::string(name_of(Code::device_error)) == "device_error");
  CHECK(std::string(name_of(static_cast<Code>(99))) == "unknown");
}

TEST_CASE("a Status is ok and silent until told otherwise") {
  const Status fine;
  CHECK(fine.ok());
  CHECK(fine.message().empty());

  const Status bad(Code::unsupported, "K=300");
  const Status copy = bad;
  CHECK_FALSE(copy.ok());
  CHECK(copy.code() == Code::unsupported);
  CHECK(copy.message() == "K=300");
  CHECK(&copy.message() == &bad.message());
}

TEST_CASE("a Result holds a value or a Status") {
  const Result<int> value = 7;
  REQUIRE(value);
  CHECK(*value == 7);
  CHECK(value.status().ok());

  const Result<int> none = Status(Code::device_error, "gone");
  CHECK_FALSE(none);
  CHECK(none.status().message() == "gone");
}
