// kda-tune doctor --kernels on a device that is not there: fake/kda_tune.cpp.
#include <cstdlib>
#include <fstream>

#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;
using kda::test::Json;

namespace {

struct Doctor {
  test::Scratch scratch;
  Json document;
  std::string complaints;

  // The exit code.
  int run(const std::string& options, const std::string& environment = "") {
    const std::string command =
        environment + " KDA_FAKE_PROBLEMS='T=1000 N=3 H=2 varlen=1 h0=1 ht=1' KDA_CACHE_DIR=" +
        (scratch / "cache") + " " KDA_BINARY_DIR "/tests/kda-tune-on-fake-gpu doctor -o json " +
        options + " > " + (scratch / "out") + " 2> " + (scratch / "err");
    const int status = std::system(command.c_str());
    std::ifstream out(scratch / "out"), err(scratch / "err");
    document = Json::parse(out, nullptr, false);
    complaints = std::string(std::istreambuf_iterator<char>(err), {});
    return WEXITSTATUS(status);
  }

  Json check() const {
    for (const Json& row : document["checks"]) {
      if (row["check"] == "kernels on 0") return row;
    }
    return {};
  }
};

}  // namespace

TEST_CASE("doctor runs kernels and holds them against the recurrence", "[tools][compile]") {
  Doctor doctor;
  const int code = doctor.run("--kernels --strategy recurrent");
  INFO(doctor.complaints << doctor.document.dump(1));
  REQUIRE(code == 0);
  CHECK(doctor.check()["state"] == "ok");
  CHECK_THAT(test::text(doctor.check()["found"]),
             test::contains("recurrence's results within 0.0017: recurrent"));
  REQUIRE(doctor.document["kernels"].size() == 1);
  const Json& row = doctor.document["kernels"][0];
  CHECK(row["strategy"] == "recurrent");
  CHECK(row["outcome"] == "right");
  CHECK(row["o_error"].get<double>() > 0);
  CHECK(row["o_error"].get<double>() < 4e-3);
}

// CUDA 12.8 compiled wgmma kernels that ran and were wrong by 1.4 of o, and nothing said so.
TEST_CASE("doctor tells of kernels that compute something else, and of those that cannot run",
          "[tools][compile]") {
  Doctor doctor;
  // A fake knows the kernel of `recurrent` alone: the other cannot be found.
  const int code =
      doctor.run("--kernels --strategy chunk --strategy recurrent", "KDA_FAKE_O_FACTOR=1.05");
  INFO(doctor.complaints << doctor.document.dump(1));
  REQUIRE(code == 1);
  CHECK(doctor.check()["state"] == "bad");
  REQUIRE(doctor.document["kernels"].size() == 2);
  CHECK(doctor.document["kernels"][0]["outcome"] == "crash");
  CHECK(doctor.document["kernels"][1]["outcome"] == "wrong");
  CHECK(doctor.document["kernels"][1]["o_error"].get<double>() == test::Approx(0.05).epsilon(0.1));
}

TEST_CASE("doctor --kernels without a device, or of no strategy", "[tools]") {
  if (test::why_no_gpu().empty()) return;
  const test::Ran none = test::kda_tune({"doctor", "--kernels", "--json"});
  CHECK_THAT(none.out, test::contains("no device to run them on"));
  CHECK(Json::parse(none.out)["kernels"].empty());
  const test::Ran wrong = test::kda_tune({"doctor", "--kernels", "--strategy", "chunks"});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, test::contains("--strategy chunks: there are recurrent, chunk"));
  const test::Ran alone = test::kda_tune({"doctor", "--strategy", "chunk"});
  CHECK(alone.code == 2);
}
