#include "worker/child.hpp"

#include <exception>
#include <memory>
#include <optional>

#include "cache/cache.hpp"
#include "cli/exit_code.hpp"
#include "worker/messages.hpp"

namespace kda::worker {
namespace {

// False at the end of the file.
bool read_line(std::FILE* in, std::string& line) {
  line.clear();
  for (int c = std::fgetc(in); c != EOF; c = std::fgetc(in)) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return !line.empty();
}

class Child {
 public:
  Child(std::FILE* out, int device, const std::string& cache_dir)
      : out_(out), gpu_(device), cache_(cache::shared_cache(cache_dir)) {}

  void enter(const Subject& subject) {
    measurer_.reset();
    inputs_.reset();  // gives its memory back before the next takes its own
    subject_ = subject;
    inputs_.emplace(gpu_, subject_);
    measurer_.emplace(gpu_, subject_.problem, *cache_, *inputs_);
    say({.kind = Reply::Kind::ready});
  }

  // False when the device no longer answers.
  bool measure(const Order& order) {
    if (!measurer_) {
      say({.why = "nothing to measure on: a problem comes first"});
      return false;
    }
    const Status status = measurer_->measure(
        order.candidates, order.timing, [&](std::size_t index, tune::Measurement m) {
          say({.kind = Reply::Kind::measurement, .index = index, .measurement = std::move(m)});
        });
    if (status) {
      say({.kind = Reply::Kind::end});
    } else {
      say({.why = status.message()});
    }
    return status.ok();
  }

  void say(const Reply& reply) const {
    const std::string line = to_line(reply) + "\n";
    std::fwrite(line.data(), 1, line.size(), out_);
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  measure::Gpu gpu_;
  std::shared_ptr<cache::Cache> cache_;
  Subject subject_;
  std::optional<ReferenceInputs> inputs_;
  std::optional<tune::DeviceMeasurer> measurer_;
};

void say_why(std::FILE* out, const std::string& why) {
  const std::string line = to_line(Reply{.why = why}) + "\n";
  std::fwrite(line.data(), 1, line.size(), out);
  std::fflush(out);
}

}  // namespace

int serve(std::FILE* in, std::FILE* out, int device, const std::string& cache_dir) try {
  Child child(out, device, cache_dir);
  for (std::string line; read_line(in, line);) {
    if (is_order(line)) {
      const Result<Order> order = parse_order(line);
      if (!order) {
        child.say({.why = order.status().message()});
        return cli::kBadCommand;
      }
      if (!child.measure(*order)) return cli::kFailed;
    } else {
      const Result<Subject> subject = parse_subject(line);
      if (!subject) {
        child.say({.why = subject.status().message()});
        return cli::kBadCommand;
      }
      child.enter(*subject);
    }
  }
  return cli::kOk;
} catch (const std::exception& error) {
  say_why(out, error.what());
  return cli::kFailed;
}

}  // namespace kda::worker
