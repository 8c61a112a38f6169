// kda-tune plot: journals to a page.
#include <nlohmann/json.hpp>

#include "cli/failure.hpp"
#include "cli/text_file.hpp"
#include "tune/commands.hpp"
#include "tune/plot_page.hpp"

namespace kda::tune_tool {

void write_plot(const std::vector<std::string>& journals, const std::string& file, std::FILE* out) {
  std::vector<tune::JournalContents> searches;
  for (const std::string& path : journals) searches.push_back(cli::must(tune::read_journal(path)));
  cli::write_text(file, plot_page(searches), out);
}

int plot(const Request& request) {
  for (const std::string& journal : request.files) {
    if (!cli::is_same_file(journal, request.plot)) continue;
    throw cli::Failure(cli::kBadCommand,
                       "--out " + request.plot +
                           " is a journal of a search, which the page would replace; name another "
                           "file, such as searches.html");
  }
  write_plot(request.files, request.plot, request.output.out);
  return cli::kOk;
}

}  // namespace kda::tune_tool
