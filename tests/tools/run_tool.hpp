// A tool run in this process, its output kept.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace kda::test {

struct Ran {
  int code = -1;
  std::string out, err;
};

using ToolMain = int (*)(int, const char* const*, std::FILE*, std::FILE*);

inline std::string text_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

// The first argument is the program's name.
inline Ran run_tool(ToolMain tool, const std::vector<std::string>& arguments) {
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  Ran ran;
  ran.code = tool(static_cast<int>(argv.size()), argv.data(), out, err);
  ran.out = text_of(out);
  ran.err = text_of(err);
  return ran;
}

}  // namespace kda::test
