#include "cli/command.h"

int main(int argc, char** argv) { return samestep::CliMain(argc, argv); }
