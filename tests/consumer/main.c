/* Touches every function of kda.h and prefill.h, in C11, for a device that need not be here. */
#include <kda/kda.h>
#include <kda/prefill.h>
#include <stdio.h>
#include <string.h>

static void print_log(int32_t level, const char* text, void* user) {
  fprintf((FILE*)user, "[%d] %s\n", (int)level, text);
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, kda_last_message());
  return 1;
}

int main(int argc, char** argv) {
  kda_problem problem;
  kda_options options;
  kda_forward forward;
  kda_problem_init(&problem);
  kda_options_init(&options);
  kda_forward_init(&forward);
  problem.heads = 2;
  problem.value_heads = 4;
  problem.max_tokens = 64;
  options.target = "sm_90a";
  options.cache_dir = argc > 1 ? argv[1] : NULL;
  if (kda_version() != KDA_VERSION) return failed("version");
  if (kda_set_log(KDA_LOG_WARN, print_log, stderr) != KDA_OK) return failed("log");
  if (kda_supports(&problem, &options) != KDA_OK) return failed("supports");

  if (kda_add_bundle("no bundle", 9) != KDA_INVALID_ARGUMENT) return failed("add_bundle");
  if (kda_prefill_f32(NULL, NULL) != 1) return failed("prefill");

  kda_plan* plan = NULL;
  if (kda_plan_make(&problem, &options, &plan) != KDA_OK) return failed("make");
  const kda_problem* problems[] = {&problem, &problem};
  kda_plan* both[2];
  kda_code codes[2];
  if (kda_plan_make_all(problems, 2, &options, both, codes) != KDA_OK) return failed("make_all");
  kda_plan_destroy(both[0]);
  kda_plan_destroy(both[1]);

  kda_problem complete;
  kda_problem_init(&complete);
  if (kda_plan_problem(plan, &complete) != KDA_OK) return failed("problem");
  printf("%s\nworkspace: %zu bytes, V = %d\n", kda_plan_describe(plan),
         kda_plan_workspace_bytes(plan), (int)complete.value_dim);

  /* Only named devices do not run. */
  const kda_code code = kda_plan_run(plan, &forward, NULL, 0, NULL);
  printf("run: %s: %s\n", kda_code_name(code), kda_last_message());
  kda_plan_destroy(plan);
  return code == KDA_OK ? 1 : 0;
}
